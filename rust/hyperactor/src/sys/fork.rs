//! What a fork of user code does to us: the child keeps copies of our descriptors but none of our threads.
//!
//! A child closes every descriptor that is wrapped in [`Descriptor`], so that end-of-file means what it says to the
//! peers of its parent, and remembers that it is one, so that every entry point can refuse to work.

#![allow(unsafe_code)] // pthread_atfork, and closing descriptors by number in the child.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors above this number are not closed in a forked child. It is what most systems allow at most.
const TRACKED_DESCRIPTORS: usize = 1 << 16;

static OPEN: [AtomicU64; TRACKED_DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; TRACKED_DESCRIPTORS / 64];
static FORKED: AtomicBool = AtomicBool::new(false);
static FORKS: AtomicU64 = AtomicU64::new(0);
static HANDLER: Once = Once::new();

/// Whether this process was forked from one in which [`install`] had been called.
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// From now on a forked child closes our descriptors and knows what it is.
pub fn install() {
    HANDLER.call_once(|| {
        // SAFETY: both are functions for the whole life of the process that only load and store atomics and call close,
        // all of which are async-signal-safe.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
    });
}

/// How often this process was forked since [`install`]: what a child may see of its memory.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn before_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    for (index, word) in OPEN.iter().enumerate() {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let number = index * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // SAFETY: the number was registered by a `Descriptor` that is alive in the parent; its copy here is never
            // used again, for `Descriptor` does not close in a forked child and every entry point refuses to work.
            unsafe { libc::close(number as RawFd) };
        }
    }
}

/// A descriptor of ours, closed in a forked child.
#[derive(Debug)]
pub struct Descriptor(Option<OwnedFd>);

impl Descriptor {
    /// Take over a descriptor.
    pub fn new(fd: OwnedFd) -> Self {
        track(fd.as_raw_fd());
        Self(Some(fd))
    }

    /// Give the descriptor away; a forked child keeps it from now on.
    pub fn into_inner(mut self) -> OwnedFd {
        let fd = self.0.take().unwrap_or_else(|| unreachable!("taken only here and in drop, which both consume"));
        untrack(fd.as_raw_fd());
        fd
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Some(fd) => fd.as_fd(),
            None => unreachable!("taken only by methods that consume"),
        }
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(fd) = self.0.take() else { return };
        if is_forked_child() {
            // Closed by `in_child`; the number may be somebody else's by now.
            std::mem::forget(fd);
            return;
        }
        untrack(fd.as_raw_fd());
    }
}

/// Let a forked child close this descriptor, which is not ours to own.
pub fn track(fd: RawFd) {
    if let Some(word) = OPEN.get(fd as usize / 64) {
        word.fetch_or(1 << (fd as usize % 64), Ordering::Relaxed);
    }
}

fn untrack(fd: RawFd) {
    if let Some(word) = OPEN.get(fd as usize / 64) {
        word.fetch_and(!(1 << (fd as usize % 64)), Ordering::Relaxed);
    }
}

/// Take over a descriptor that this process was started with.
///
/// Fails where no descriptor has this number.
pub fn adopt(number: RawFd) -> std::io::Result<OwnedFd> {
    // SAFETY: F_GETFD only looks whether the number is that of an open descriptor.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the convention with whoever started this process it is ours alone.
    let fd = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) };
    super::socket::close_on_exec(&fd)?;
    Ok(fd)
}
