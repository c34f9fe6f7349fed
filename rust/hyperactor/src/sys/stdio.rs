//! The C library's standard output, to which native libraries print.

#![allow(unsafe_code)] // Both the stream and its setting are the C library's.

unsafe extern "C" {
    #[cfg_attr(target_os = "macos", link_name = "__stdoutp")]
    static stdout: *mut libc::FILE;
}

/// Let every line leave the process when it ends, as at a terminal. Before anything is printed.
pub fn flush_lines() {
    // SAFETY: the C library initialises `stdout` before any code of the program runs, and locks the stream itself. With
    // a null buffer it keeps the one that it has.
    unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
}
