//! Any POSIX system: process groups end what a process left behind, and a process learns of its parent's end by asking.

#![cfg_attr(all(target_os = "linux", not(feature = "portable")), allow(dead_code))] // Linux takes some of it.

use std::ffi::OsString;
use std::io;

use rustix::process::Pid;

use super::Handle;

/// Orphans go to the first process of the system; there is no other way.
pub fn adopt_orphans() {}

/// It is not.
pub fn adopts_orphans() -> bool {
    false
}

/// Not here.
pub fn can_show() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not here.
pub fn show_as(_arguments: &[OsString], _environment: &[(OsString, OsString)]) -> io::Result<()> {
    can_show()
}

/// None.
pub fn handle_of(_process: Pid) -> Handle {
    Handle::Unavailable
}

/// A worker whose keeper ends notices the end of its links instead.
pub(super) fn end_with_parent(_parent: Pid) -> io::Result<()> {
    Ok(())
}

/// Without adoption all children are those that this process started and knows.
pub fn children() -> Vec<Pid> {
    Vec::new()
}

/// Not known.
pub fn environment(_process: Pid) -> Vec<u8> {
    Vec::new()
}
