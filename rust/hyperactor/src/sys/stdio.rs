//! The C library's standard output, to which native libraries print, and descriptors by their number.

#![allow(unsafe_code)] // The stream and its setting are the C library's; a number says nothing of who closes it.

use std::os::fd::{BorrowedFd, RawFd};

unsafe extern "C" {
    #[cfg_attr(target_os = "macos", link_name = "__stdoutp")]
    static stdout: *mut libc::FILE;
}

/// A descriptor that the program keeps open until it ends, such as a standard stream; none for no descriptor's number.
pub fn kept_open(descriptor: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: the number is not -1, and nothing here closes it. Where the program breaks its promise, what is written
    // there fails, or goes wherever the number leads to by then, as what is printed does.
    (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Let every line leave the process when it ends, as at a terminal. Before anything is printed.
pub fn flush_lines() {
    // SAFETY: the C library initialises `stdout` before any code of the program runs, and locks the stream itself. With
    // a null buffer it keeps the one that it has.
    unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
}
