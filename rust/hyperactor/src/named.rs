//! Named sockets: how a process that this host's agent did not start reaches it.
//!
//! A name lies in a directory that only the user may enter, and a connection is taken only from a process of the same
//! user or of root: the directory keeps others from the name, the check from a descriptor that was passed on. What the
//! kernel vouches for is a user, never which process. The name is gone when the listener is.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sys::fork::Descriptor;
use crate::sys::socket::peer_user;

/// Longest path that every system takes as a socket's name.
const LONGEST_PATH_BYTES: usize = 103;

/// A socket with a name.
#[derive(Debug)]
pub struct NamedListener {
    socket: Descriptor,
    path: PathBuf,
}

impl NamedListener {
    /// Listen under `name` in `directory`, which is made if it is not there.
    ///
    /// Fails where the directory belongs to somebody else or others may enter it, and where the name is taken.
    pub fn bind(directory: &Path, name: &str) -> Result<Self> {
        make_private(directory)?;
        let path = directory.join(name);
        if path.as_os_str().len() > LONGEST_PATH_BYTES {
            return Err(Error::Misuse(format!(
                "`{}` is longer than the {LONGEST_PATH_BYTES} bytes that a socket's path may have; choose a shorter \
                 directory",
                path.display()
            )));
        }
        let listener = UnixListener::bind(&path)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| Error::system(format!("listen at `{}`", path.display()), error))?;
        Ok(Self { socket: Descriptor::new(listener.into()), path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection that waits, from this user or root; none if none waits. Others are hung up on.
    pub fn accept(&self) -> Result<Option<OwnedFd>> {
        loop {
            let socket = match rustix::net::accept(&self.socket) {
                Ok(socket) => socket,
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => continue,
                Err(error) => return Err(Error::system(format!("accept at `{}`", self.path.display()), error)),
            };
            crate::sys::socket::close_on_exec(&socket).map_err(|error| Error::system("accept", error))?;
            if is_trusted(socket.as_fd()) {
                return Ok(Some(socket));
            }
        }
    }
}

impl AsFd for NamedListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for NamedListener {
    fn drop(&mut self) {
        if !crate::sys::fork::is_forked_child() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connect to a named socket, whose owner has to be this user or root.
pub fn connect(path: &Path) -> Result<OwnedFd> {
    let verb = || format!("connect to `{}`", path.display());
    let socket: OwnedFd = UnixStream::connect(path).map_err(|error| Error::system(verb(), error))?.into();
    if !is_trusted(socket.as_fd()) {
        let cause = io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there");
        return Err(Error::system(verb(), cause));
    }
    Ok(socket)
}

fn is_trusted(socket: BorrowedFd<'_>) -> bool {
    // A system that does not say who it is leaves the directory's rights as the only guard, which is not enough.
    peer_user(socket).is_ok_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

fn make_private(directory: &Path) -> Result<()> {
    let verb = || format!("use `{}` as private directory", directory.display());
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Error::system(verb(), error)),
        _ => {}
    }
    // Not through a link: its owner could point it elsewhere later.
    let found = fs::symlink_metadata(directory).map_err(|error| Error::system(verb(), error))?;
    let is_private = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_private || found.permissions().mode() & 0o077 != 0 {
        let cause = io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it has to be a directory of this user's that nobody else may enter (mode 0700)",
        );
        return Err(Error::system(verb(), cause));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("private");
        (outer, inner)
    }

    #[test]
    fn the_directory_is_made_private_and_the_name_ends_with_the_listener() {
        let (_outer, inner) = directory();
        let listener = NamedListener::bind(&inner, "agent").unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
        let path = listener.path().to_owned();
        assert!(path.exists());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_connection_of_the_same_user_is_taken() {
        let (_outer, inner) = directory();
        let listener = NamedListener::bind(&inner, "agent").unwrap();
        assert!(listener.accept().unwrap().is_none());
        let _client = connect(listener.path()).unwrap();
        assert!(listener.accept().unwrap().is_some());
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let (_outer, inner) = directory();
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        let error = NamedListener::bind(&inner, "agent").unwrap_err().to_string();
        assert!(error.contains("mode 0700"), "{error}");
    }

    #[test]
    fn a_link_to_a_private_directory_is_refused() {
        let (outer, inner) = directory();
        fs::DirBuilder::new().mode(0o700).create(&inner).unwrap();
        let link = outer.path().join("link");
        std::os::unix::fs::symlink(&inner, &link).unwrap();
        NamedListener::bind(&link, "agent").unwrap_err();
    }

    /// Only root can become somebody else, so this runs where the tests do as root.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_connection_of_another_user_is_hung_up_on() {
        use std::io::Read;

        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (outer, inner) = directory();
        let listener = NamedListener::bind(&inner, "agent").unwrap();
        // Open the ways that a private directory closes, so that only the check is left.
        for path in [outer.path(), inner.as_path(), listener.path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let path = listener.path().to_owned();
        let stranger = std::thread::spawn(move || {
            let nobody = rustix::process::Uid::from_raw(65534);
            // On Linux this makes a stranger of one thread only.
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut stream = UnixStream::connect(path).unwrap();
            stream.read(&mut [0]).unwrap()
        });
        while !stranger.is_finished() {
            assert!(listener.accept().unwrap().is_none());
            crate::sys::poll::readable([listener.as_fd()], Some(std::time::Duration::from_millis(10))).unwrap();
        }
        assert_eq!(stranger.join().unwrap(), 0, "the stranger met the end of the stream");
    }
}
