//! Copies of this process: what a fork of it changes to be like a process that was started as a program.

#![allow(unsafe_code)] // Signal actions, descriptors that are known only by number, and an end without clean-up.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

use super::child::{CONTROL_DESCRIPTOR, LAST_SIGNAL, with_signals_held};
use super::{platform, signal_pipe};

/// Fork by `fork`, which returns as fork(2) does: the child's process id, or None in the child. There signals are held
/// back until [`settle`], for its handlers are those of the original.
pub fn fork_with(fork: &mut (dyn FnMut() -> io::Result<i32> + Send)) -> io::Result<Option<Pid>> {
    with_signals_held(fork, |child| matches!(child, Ok(0))).map(Pid::from_raw)
}

/// In a copy whose parent is `parent`: be in a session of its own that ends with the parent, with `control` as
/// descriptor 3, this output (or the original's) and no input, and with the signals of a new process.
pub fn settle(parent: Pid, control: &OwnedFd, output: Option<&[OwnedFd; 2]>) -> io::Result<()> {
    rustix::process::setsid()?;
    platform::end_with_parent(parent)?;
    let null = fs::File::open("/dev/null")?;
    replace(libc::STDIN_FILENO, &null)?;
    if let Some([stdout, stderr]) = output {
        replace(libc::STDOUT_FILENO, stdout)?;
        replace(libc::STDERR_FILENO, stderr)?;
    }
    replace(CONTROL_DESCRIPTOR, control)?;
    forget_own_signals();
    Ok(())
}

/// End this process at once, without running anything that was meant for the original.
pub fn end(status: i32) -> ! {
    // SAFETY: it has no precondition and does not return.
    unsafe { libc::_exit(status) }
}

/// How many threads this process has; None where the system does not tell.
pub fn thread_count() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

fn replace(number: RawFd, by: impl AsFd) -> io::Result<()> {
    // SAFETY: the first three are there to be replaced, and 3 is the placeholder of `reserve_control_descriptor`, which
    // nobody uses.
    match unsafe { libc::dup2(by.as_fd().as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// What this process ignores or handles itself has its default action again; handlers of others stay.
fn forget_own_signals() {
    signal_pipe::forget();
    // SAFETY: sigaction with a null action only reads the present one into memory for one sigaction, for which all
    // zeros is a valid value; setting default actions has no precondition, and numbers that cannot be set are refused.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            if known && (action.sa_sigaction == libc::SIG_IGN || signal_pipe::handles(&action)) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
    signal_pipe::unblock_all();
}
