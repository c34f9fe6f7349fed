//! How a thread waits: for a condition that other threads bring about, and meanwhile for a link that it reads itself.
//!
//! A wake-up of another thread is most of what a small message costs. A thread that waits for an answer therefore
//! takes the *read lease* of the link that the answer will come by, and reads it itself; see [`crate::link`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::sys::{poll, wake::WakeFd};

/// Nobody waits and nobody woke.
const EMPTY: u8 = 0;
/// The thread is in `poll`, or about to be: waking it takes a system call.
const PARKED: u8 = 1;
/// The thread was woken; its next `park` returns at once.
const NOTIFIED: u8 = 2;

/// How soon a wait with an interrupt looks again whether it is interrupted.
///
/// A signal ends `poll` at once, so this only bounds the rare signal that arrives just before it. Each look costs a
/// wake-up, so the slices of a long wait grow, up to [`LONGEST_SLICE`]: an idle process should cost nothing.
const FIRST_SLICE: Duration = Duration::from_millis(100);

/// See [`FIRST_SLICE`].
const LONGEST_SLICE: Duration = Duration::from_secs(3);

/// What one thread waits on.
pub struct Parker {
    state: AtomicU8,
    fd: WakeFd,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<E> {
    /// The interrupt check failed with this.
    Interrupted(E),
    /// The condition holds.
    Ready,
    /// The deadline passed first.
    TimedOut,
}

/// Why a thread goes on.
#[derive(PartialEq, Eq)]
enum Unparked {
    /// The descriptor is readable.
    Readable,
    /// A signal was handled.
    Signal,
    /// Somebody woke it, or it has waited long enough.
    Woken,
}

thread_local! {
    static CURRENT: io::Result<Arc<Parker>> = Parker::new().map(Arc::new);
}

impl Parker {
    fn new() -> io::Result<Self> {
        Ok(Self { state: AtomicU8::new(EMPTY), fd: WakeFd::new()? })
    }

    /// That of the calling thread.
    pub fn current() -> io::Result<Arc<Self>> {
        CURRENT.with(|parker| match parker {
            Ok(parker) => Ok(parker.clone()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        })
    }

    /// End the wait that its thread is in, or the next one. Free where the thread does not wait.
    pub fn unpark(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            self.fd.wake();
        }
    }

    /// Wait to be woken, for `fd` to be readable, for a signal, or for `timeout`.
    fn park(&self, fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<Unparked> {
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.state.store(EMPTY, Ordering::Release);
            return Ok(Unparked::Woken);
        }
        let outcome = match fd {
            Some(fd) => poll::readable([self.fd.as_fd(), fd], timeout),
            None => poll::readable([self.fd.as_fd()], timeout).map(|found| found.map(|[woken]| [woken, false])),
        };
        self.state.store(EMPTY, Ordering::Release);
        let Some([woken, readable]) = outcome? else { return Ok(Unparked::Signal) };
        if woken {
            self.fd.clear();
        }
        Ok(if readable { Unparked::Readable } else { Unparked::Woken })
    }
}

/// A check that may end a wait early, such as a look for signals.
pub type Interrupt<'a, E> = Option<&'a mut dyn FnMut() -> Result<(), E>>;

/// Wait on `parker` until `ready`, reading `link` meanwhile if its lease is to be had.
///
/// The caller has registered the parker with whoever makes the condition true. The interrupt is called without any
/// lock or lease held.
pub fn wait_until<E>(
    parker: &Parker,
    mut ready: impl FnMut() -> bool,
    link: Option<&Arc<Link>>,
    deadline: Option<Instant>,
    mut interrupt: Interrupt<'_, E>,
) -> io::Result<Waited<E>> {
    let mut slice = FIRST_SLICE;
    loop {
        let slice_end = interrupt.is_some().then(|| Instant::now() + slice);
        slice = LONGEST_SLICE.min(slice * 2);
        let until = [deadline, slice_end].into_iter().flatten().min();
        if wait_slice(parker, &mut ready, link, until)? {
            return Ok(Waited::Ready);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(Waited::TimedOut);
        }
        if let Some(Err(error)) = interrupt.as_mut().map(|check| check()) {
            return Ok(Waited::Interrupted(error));
        }
    }
}

/// Wait until `ready`, a signal, or `until`; true if ready.
fn wait_slice(
    parker: &Parker,
    ready: &mut impl FnMut() -> bool,
    link: Option<&Arc<Link>>,
    until: Option<Instant>,
) -> io::Result<bool> {
    loop {
        if ready() {
            return Ok(true);
        }
        let lease = link.and_then(Link::try_lease);
        // While we tried, whoever had the lease may have read what we wait for.
        if lease.is_some() && ready() {
            return Ok(true);
        }
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let unparked = match lease {
            None => parker.park(None, timeout)?,
            Some(mut lease) => {
                let unparked = parker.park(Some(lease.socket()), timeout)?;
                if unparked == Unparked::Readable {
                    lease.read();
                }
                unparked
            }
        };
        if unparked == Unparked::Signal {
            return Ok(ready());
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(ready());
        }
    }
}
