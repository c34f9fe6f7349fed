//! Waiting for descriptors: one call for a few of them, and a registered set for the I/O thread.

#![allow(unsafe_code)] // polling's registration, whose contract `Set` keeps.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use polling::{Event, Events, PollMode, Poller};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Which of `fds` are readable (or at their end), after at most `timeout`; nothing if a signal came first.
pub fn readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Option<Duration>) -> io::Result<Option<[bool; N]>> {
    let mut entries = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = timeout.map(|duration| Timespec {
        tv_sec: duration.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: duration.subsec_nanos() as _,
    });
    match poll(&mut entries, timeout.as_ref()) {
        Ok(_) => Ok(Some(entries.map(|entry| !entry.revents().is_empty()))),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the I/O thread wants to know of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Readable or at its end.
    pub read: bool,
    /// Writable.
    pub write: bool,
}

impl Interest {
    fn event(self, key: usize) -> Event {
        Event::new(key, self.read, self.write)
    }
}

/// Level-triggered readiness of sources, which it keeps open while they are registered.
pub struct Set<S> {
    poller: Poller,
    sources: Mutex<HashMap<usize, Arc<S>>>,
}

impl<S: AsFd> Set<S> {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        let poller = Poller::new()?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        super::fork::track(std::os::fd::AsRawFd::as_raw_fd(&poller));
        Ok(Self { poller, sources: Mutex::default() })
    }

    /// Register a source under a key that no other has.
    pub fn add(&self, key: usize, source: Arc<S>, interest: Interest) -> io::Result<()> {
        let mut sources = self.sources.lock();
        // SAFETY: the descriptor stays open while it is registered: `sources` keeps its owner until `remove` has taken
        // it out of the poller.
        unsafe { self.poller.add_with_mode(&source.as_fd(), interest.event(key), PollMode::Level)? };
        sources.insert(key, source);
        Ok(())
    }

    /// The source of a key.
    pub fn get(&self, key: usize) -> Option<Arc<S>> {
        self.sources.lock().get(&key).cloned()
    }

    /// Change what is wanted of a source; effective at once, also in a wait that is under way.
    pub fn modify(&self, key: usize, source: &S, interest: Interest) -> io::Result<()> {
        self.poller.modify_with_mode(source.as_fd(), interest.event(key), PollMode::Level)
    }

    /// Forget a source, if it is registered.
    pub fn remove(&self, key: usize) {
        let mut sources = self.sources.lock();
        if let Some(source) = sources.get(&key) {
            let _ = self.poller.delete(source.as_fd());
        }
        sources.remove(&key);
    }

    /// Wait for events, for at most `timeout`, or until [`Set::notify`].
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        match self.poller.wait(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other.map(drop),
        }
    }

    /// End the wait that is under way, or the next one.
    pub fn notify(&self) -> io::Result<()> {
        self.poller.notify()
    }
}
