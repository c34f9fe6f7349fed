//! Which descriptors a keeper has.

#![allow(unsafe_code)] // Descriptors that are known only by number.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::FdFlags;

use super::CONTROL_DESCRIPTOR;

/// Own the socket that this process was started with; where it was one of the first three, `/dev/null` takes its place.
pub fn take_over(socket: RawFd) -> io::Result<OwnedFd> {
    if socket < 0 {
        return Err(rustix::io::Errno::BADF.into());
    }
    if socket >= FIRST_OTHER {
        // SAFETY: whoever started this process opened the descriptor for us, and nobody else here knows of it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        crate::sys::socket::close_on_exec(&socket)?;
        return Ok(socket);
    }
    // SAFETY: the descriptor is one of the first three, which stay open for the whole life of a process.
    let standard = unsafe { BorrowedFd::borrow_raw(socket) };
    let owned = rustix::io::fcntl_dupfd_cloexec(standard, FIRST_OTHER)?;
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: both are open; replacing a standard descriptor is what they are for.
    if unsafe { libc::dup2(null.as_raw_fd(), socket) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(owned)
}

/// Close what this process inherited beyond the first three descriptors and `except`: a pipe of the user's program, held open here,
/// would hide its end from whoever reads it. Interpreters and this crate open everything close-on-exec.
pub fn close_inherited(except: RawFd) {
    for number in open_descriptors().into_iter().filter(|&number| number >= FIRST_OTHER && number != except) {
        // SAFETY: the number was just listed as open, and this process has one thread.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            // SAFETY: nobody in this process opened it, so nobody owns it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// Take descriptor 3, so that nothing that matters gets this number: in a new worker the control socket replaces it.
pub fn reserve_control_descriptor() -> io::Result<()> {
    let null = fs::File::open("/dev/null")?;
    let lowest = rustix::io::fcntl_dupfd_cloexec(&null, CONTROL_DESCRIPTOR)?;
    if lowest.as_raw_fd() == CONTROL_DESCRIPTOR {
        std::mem::forget(lowest);
    } else if null.as_raw_fd() == CONTROL_DESCRIPTOR {
        std::mem::forget(null);
    }
    Ok(())
}

fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd").or_else(|_| fs::read_dir("/dev/fd")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The first descriptor that is not a standard one.
const FIRST_OTHER: RawFd = 3;
