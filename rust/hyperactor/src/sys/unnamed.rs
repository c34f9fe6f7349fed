//! Files without a name, which end with the processes that have them open.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// A new file to append to, in memory where that can be.
pub fn file() -> io::Result<File> {
    in_memory().or_else(|_| {
        let random = crate::id::random_bytes().map_err(|error| io::Error::other(error.to_string()))?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("monarch-{name}"));
        let file = OpenOptions::new().create_new(true).read(true).append(true).mode(0o600).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
fn in_memory() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
    let file = memfd_create("monarch", MemfdFlags::CLOEXEC)?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file.into())
}

#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
fn in_memory() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
