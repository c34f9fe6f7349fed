//! Children: how a worker starts, and how each ends.

#![allow(unsafe_code)] // The child's side of a launch, and waitid with the process id that it reports.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;

use super::platform;
use crate::keeper::protocol::ExitStatus;

/// Where a worker finds its control socket.
pub const CONTROL_DESCRIPTOR: RawFd = 3;

/// A child that ended and was not reaped yet: its number, and that of its group, stand for nobody else.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its process id.
    pub pid: Pid,
    /// How.
    pub status: ExitStatus,
}

/// Start a program in a session of its own that ends with this process, with default signals and without any
/// descriptor but the first three and `control`, its descriptor 3.
///
/// Descriptor 3 of this process must be taken ([`super::reserve_control_descriptor`]).
pub fn spawn(command: &mut Command, control: BorrowedFd<'_>) -> io::Result<Pid> {
    let control = control.as_raw_fd();
    let parent = rustix::process::getpid();
    let before_exec = move || {
        rustix::process::setsid()?;
        platform::end_with_parent(parent)?;
        // SAFETY: descriptor 3 is the placeholder of `reserve_control_descriptor`, which nobody uses, and this process
        // runs nothing but this closure before it becomes another program.
        if unsafe { libc::dup2(control, CONTROL_DESCRIPTOR) } < 0 {
            return Err(io::Error::last_os_error());
        }
        reset_signals();
        Ok(())
    };
    // SAFETY: the closure only makes system calls, all of them async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(before_exec) };
    let child = with_signals_held(|| command.spawn(), |_| false)?;
    Ok(Pid::from_child(&child))
}

/// A child that has ended, without reaping it.
pub fn ended_child() -> Option<Ended> {
    let info = wait_for_any().ok()?;
    // SAFETY: waitid filled the structure for a child, or left the process id at the zero of `wait_for_any`.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let status = if info.si_code == libc::CLD_EXITED { ExitStatus::Code(status) } else { ExitStatus::Signal(status) };
    Some(Ended { pid: Pid::from_raw(pid)?, status })
}

/// Let the kernel forget a child that has ended.
pub fn reap(ended: Ended) {
    let _ = rustix::process::waitpid(Some(ended.pid), rustix::process::WaitOptions::NOHANG);
}

/// Whether there are any children, ended or not.
pub fn has_children() -> bool {
    !wait_for_any().is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
}

fn wait_for_any() -> io::Result<libc::siginfo_t> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is memory for one siginfo_t, for which all zeros is a valid value.
    unsafe {
        match libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) {
            0 => Ok(info.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Keep signals away while `action` runs, and after it if `hold` says so: a new process has to leave this one's
/// handlers behind first.
pub(super) fn with_signals_held<T>(action: impl FnOnce() -> T, hold: impl FnOnce(&T) -> bool) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: with a null set pthread_sigmask changes nothing and writes the present one to `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), before.as_mut_ptr()) };
    crate::sys::signals::block_all();
    let result = action();
    if hold(&result) {
        return result;
    }
    // SAFETY: `before` was initialised by the first call, which cannot fail with these arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// Ignored and blocked signals would stay so in the new program.
fn reset_signals() {
    // SAFETY: setting default actions and an empty mask is async-signal-safe; numbers that cannot be set are refused.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            libc::signal(signal, libc::SIG_DFL);
        }
        super::signal_pipe::unblock_all();
    }
}

/// Linux has most signals; other systems refuse the numbers that they lack.
pub(super) const LAST_SIGNAL: libc::c_int = 64;
