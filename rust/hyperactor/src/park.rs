//! How a thread waits: for a condition that other threads bring about, and meanwhile for a link that it reads itself.
//!
//! A wake-up of another thread is most of what a small message costs. A thread that waits for an answer therefore
//! takes the *read lease* of the link that the answer will come by, and reads it itself; see [`crate::link`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::thread::{self, Thread};
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

/// How long a thread without a descriptor waits at once: signals do not wake it.
const BLIND_SLICE: Duration = Duration::from_millis(100);

/// What one thread waits on.
pub struct Parker {
    state: AtomicU8,
    wake: Wake,
}

/// How a thread that waits is woken.
#[cfg_attr(all(test, shuttle), allow(dead_code))]
enum Wake {
    /// By a descriptor, beside which it can wait for a link.
    Descriptor(WakeFd),
    /// Without one, as there was none left: then the I/O thread reads for it.
    Thread(Thread),
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

#[cfg(not(all(test, shuttle)))]
thread_local! {
    static CURRENT: Arc<Parker> = Arc::new(Parker::new());
}

impl Parker {
    #[cfg(not(all(test, shuttle)))]
    fn new() -> Self {
        let wake = WakeFd::new().map_or_else(|_| Wake::Thread(thread::current()), Wake::Descriptor);
        Self { state: AtomicU8::new(EMPTY), wake }
    }

    /// That of the calling thread.
    #[cfg(not(all(test, shuttle)))]
    pub fn current() -> Arc<Self> {
        CURRENT.with(Arc::clone)
    }

    /// One for the calling thread: those of shuttle share one thread of the system.
    #[cfg(all(test, shuttle))]
    pub fn current() -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(EMPTY), wake: Wake::Thread(thread::current()) })
    }

    /// End the wait that its thread is in, or the next one. Free where the thread does not wait.
    pub fn unpark(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            match &self.wake {
                Wake::Descriptor(fd) => fd.wake(),
                Wake::Thread(thread) => thread.unpark(),
            }
        }
    }

    /// Forget that the thread was woken; what it was woken for it has to look for after this.
    fn forget(&self) {
        self.state.swap(EMPTY, Ordering::AcqRel);
    }

    /// Whether it can wait for a link, too.
    fn can_read(&self) -> bool {
        matches!(self.wake, Wake::Descriptor(_))
    }

    /// Wait to be woken, for `fd` to be readable, for a signal, or for `timeout`.
    fn park(&self, fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<Unparked> {
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.state.store(EMPTY, Ordering::Release);
            return Ok(Unparked::Woken);
        }
        let own = match &self.wake {
            Wake::Descriptor(own) => own,
            Wake::Thread(_) => {
                // May return early, also when a signal was handled; whoever waits looks again.
                thread::park_timeout(timeout.map_or(BLIND_SLICE, |timeout| timeout.min(BLIND_SLICE)));
                self.state.store(EMPTY, Ordering::Release);
                return Ok(Unparked::Signal);
            }
        };
        let outcome = match fd {
            Some(fd) => poll::readable([own.as_fd(), fd], timeout),
            None => poll::readable([own.as_fd()], timeout).map(|found| found.map(|[woken]| [woken, false])),
        };
        self.state.store(EMPTY, Ordering::Release);
        let Some([woken, readable]) = outcome? else { return Ok(Unparked::Signal) };
        if woken {
            own.clear();
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
        // A thread that reads the link for itself wakes itself, too.
        parker.forget();
        if ready() {
            return Ok(true);
        }
        let lease = link.filter(|_| parker.can_read()).and_then(Link::try_lease);
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_thread_for_which_no_descriptor_is_left_is_woken_all_the_same() {
        let parker = Arc::new(Parker { state: AtomicU8::new(EMPTY), wake: Wake::Thread(thread::current()) });
        for _ in 0..100 {
            let done = Arc::new(AtomicBool::new(false));
            let (waking, is_done) = (parker.clone(), done.clone());
            let other = thread::spawn(move || {
                is_done.store(true, Ordering::SeqCst);
                waking.unpark();
            });
            let ready = || done.load(Ordering::SeqCst);
            assert_eq!(wait_until::<Infallible>(&parker, ready, None, None, None).unwrap(), Waited::Ready);
            other.join().unwrap();
        }
    }

    #[test]
    fn a_thread_for_which_no_descriptor_is_left_is_interrupted_and_meets_its_deadline() {
        let parker = Parker { state: AtomicU8::new(EMPTY), wake: Wake::Thread(thread::current()) };
        let mut interrupt = || Err("interrupted");
        let waited = wait_until(&parker, || false, None, None, Some(&mut interrupt)).unwrap();
        assert_eq!(waited, Waited::Interrupted("interrupted"));
        let deadline = Some(Instant::now() + Duration::from_millis(5));
        assert_eq!(wait_until::<Infallible>(&parker, || false, None, deadline, None).unwrap(), Waited::TimedOut);
    }
}
