//! The cluster key: a secret that everybody of a cluster has, in a file that only its user may read.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sys::fork::adopt;

/// How long a key that is made here is; others may be longer.
const KEY_BYTES: usize = 32;

/// Shorter ones could be guessed.
const SHORTEST_TEXT_BYTES: usize = 16;

/// A key file holds a line of text; whoever names another file by mistake is told.
const LONGEST_TEXT_BYTES: usize = 4096;

/// A secret, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey(Vec<u8>);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(…)")
    }
}

impl ClusterKey {
    /// The secret itself.
    pub(super) fn secret(&self) -> &[u8] {
        &self.0
    }

    fn from_text(text: &[u8], place: &str) -> Result<Self> {
        let secret = text.trim_ascii();
        if !(SHORTEST_TEXT_BYTES..=LONGEST_TEXT_BYTES).contains(&secret.len()) {
            return Err(Error::Misuse(format!(
                "{place} holds no cluster key: that is a line of {SHORTEST_TEXT_BYTES} to {LONGEST_TEXT_BYTES} \
                 characters; make one with `monarch key create`"
            )));
        }
        Ok(Self(secret.to_vec()))
    }

    /// Read a key file; none if it is not there. Fails where others than its user may read it.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let verb = || format!("read the cluster key `{}`", path.display());
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::system(verb(), error)),
        };
        let mode = file.metadata().map_err(|error| Error::system(verb(), error))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Error::Misuse(format!(
                "the cluster key `{}` may be read by others (mode {:04o}); `chmod 600` it, and make a new one if \
                 somebody may have read it",
                path.display(),
                mode & 0o7777
            )));
        }
        let mut text = Vec::new();
        file.take(LONGEST_TEXT_BYTES as u64 + 2)
            .read_to_end(&mut text)
            .map_err(|error| Error::system(verb(), error))?;
        Self::from_text(&text, &format!("`{}`", path.display())).map(Some)
    }

    /// Read a key from an inherited descriptor, which is used up.
    pub fn read_descriptor(number: i32) -> Result<Self> {
        let place = format!("descriptor {number}");
        let fd = adopt(number).map_err(|error| Error::system(format!("use {place} for the cluster key"), error))?;
        let mut text = Vec::new();
        fs::File::from(fd)
            .take(LONGEST_TEXT_BYTES as u64 + 2)
            .read_to_end(&mut text)
            .map_err(|error| Error::system(format!("read the cluster key from {place}"), error))?;
        Self::from_text(&text, &place)
    }

    /// Make a new key in a new file that only this user may read. Fails where the file is there already.
    pub fn create(path: &Path) -> Result<Self> {
        let verb = || format!("make the cluster key `{}`", path.display());
        let failed = |error: io::Error| Error::system(verb(), error);
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // Whole or not at all: others may be looking for it.
        let draft = draft_of(path);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
            file.write_all(format!("{text}\n").as_bytes())?;
            fs::hard_link(&draft, path)
        });
        let _ = fs::remove_file(&draft);
        made.map_err(failed)?;
        Ok(Self(text.into_bytes()))
    }

    /// Read a key file, or make it. Two programs that do so at the same time get the same key.
    pub fn read_or_create(path: &Path) -> Result<Self> {
        if let Some(key) = Self::read(path)? {
            return Ok(key);
        }
        Self::create(path).or_else(|error| Self::read(path)?.ok_or(error))
    }
}

fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_private_and_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/cluster.key");
        assert_eq!(ClusterKey::read(&path).unwrap(), None);
        let key = ClusterKey::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ClusterKey::read(&path).unwrap(), Some(key.clone()));
        assert_eq!(ClusterKey::read_or_create(&path).unwrap(), key);
        ClusterKey::create(&path).unwrap_err();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.key");
        ClusterKey::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = ClusterKey::read(&path).unwrap_err().to_string();
        assert!(error.contains("mode 0640") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_file_that_holds_no_key_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("short");
        fs::write(&path, "short\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = ClusterKey::read(&path).unwrap_err().to_string();
        assert!(error.contains("monarch key create"), "{error}");
    }

    #[test]
    fn a_key_never_shows() {
        let key = ClusterKey(b"0123456789abcdef".to_vec());
        assert!(!format!("{key:?}").contains("0123"));
    }
}
