//! Signals as bytes in a pipe, so that one wait covers them and everything else.

#![allow(unsafe_code)] // Signal actions and masks.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

static WRITE_END: AtomicI32 = AtomicI32::new(-1);

/// Readable when a child has ended or somebody asked this process to end. One per process, for its whole life.
#[derive(Debug)]
pub struct SignalPipe(OwnedFd);

/// What arrived since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// SIGCHLD: one or more children have ended.
    pub child: bool,
    /// SIGTERM.
    pub terminate: bool,
}

impl SignalPipe {
    /// Take over the signals of this process: those of a terminal are ignored from now on.
    pub fn install() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            crate::sys::socket::close_on_exec(end)?;
            rustix::io::ioctl_fionbio(end, true)?;
        }
        // Never closed: the handlers may run until the process ends.
        WRITE_END.store(write.into_raw_fd(), Ordering::Relaxed);
        for signal in IGNORED {
            set_action(signal, libc::SIG_IGN)?;
        }
        for signal in [libc::SIGCHLD, libc::SIGTERM] {
            set_action(signal, on_signal as extern "C" fn(c_int) as libc::sighandler_t)?;
        }
        unblock_all();
        Ok(Self(read))
    }

    /// Empty the pipe.
    pub fn drain(&self) -> Arrived {
        let mut arrived = Arrived::default();
        let mut signals = [0; 64];
        while let Ok(count @ 1..) = rustix::io::read(&self.0, &mut signals) {
            arrived.child |= signals[..count].contains(&(libc::SIGCHLD as u8));
            arrived.terminate |= signals[..count].contains(&(libc::SIGTERM as u8));
        }
        arrived
    }
}

impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// In a copy of the process that installed it: the pipe is the original's.
pub(super) fn forget() {
    let write = WRITE_END.swap(-1, Ordering::Relaxed);
    if write >= 0 {
        // SAFETY: `install` opened it for this static, which nobody reads it from any more.
        drop(unsafe { OwnedFd::from_raw_fd(write) });
    }
}

/// Whether an action is that of [`SignalPipe::install`].
pub(super) fn handles(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_signal as extern "C" fn(c_int) as libc::sighandler_t
}

/// Let every signal in.
pub(super) fn unblock_all() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that it is given, and pthread_sigmask only reads it.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: c_int) {
    // SAFETY: reading and writing errno and calling write are async-signal-safe; the one byte outlives the call. A full
    // pipe is readable already, which is all that is wanted.
    unsafe {
        let errno = errno_location();
        let before = *errno;
        libc::write(WRITE_END.load(Ordering::Relaxed), [signal as u8].as_ptr().cast(), 1);
        *errno = before;
    }
}

fn set_action(signal: c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction; the handler is one of the system's values or `on_signal`, which does only
    // what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        match libc::sigaction(signal, &action, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(target_os = "linux")]
unsafe fn errno_location() -> *mut c_int {
    // SAFETY: it has no precondition.
    unsafe { libc::__errno_location() }
}

#[cfg(not(target_os = "linux"))]
unsafe fn errno_location() -> *mut c_int {
    // SAFETY: it has no precondition.
    unsafe { libc::__error() }
}

/// What a terminal, or a write to a reader that is gone, would end or stop this process with.
const IGNORED: [c_int; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGPIPE, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
