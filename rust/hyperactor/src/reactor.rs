//! The I/O thread of a process: reads links that nobody else reads, writes what a socket did not take or what waited for
//! company, and runs timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use polling::Events;

use crate::link::Link;
use crate::sys::poll::{Interest, Set};
use crate::sys::{fork, signals};

/// The I/O thread and what it looks after.
pub struct Reactor {
    links: Set<Link>,
    next_key: AtomicUsize,
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    next_timer: AtomicU64,
    batch: Mutex<Batch>,
    one_ways: Arc<AtomicU64>,
    stopped: AtomicBool,
}

/// Links with messages that wait for others to leave with.
#[derive(Default)]
struct Batch {
    links: Vec<Arc<Link>>,
    /// Since when the first of them waits.
    since: Option<Instant>,
}

struct Timer {
    at: Instant,
    number: u64,
    action: Box<dyn FnOnce() + Send>,
}

impl Reactor {
    /// Start the thread.
    pub fn start() -> io::Result<Arc<Self>> {
        let reactor = Arc::new(Self {
            links: Set::new()?,
            next_key: AtomicUsize::new(0),
            timers: Mutex::default(),
            next_timer: AtomicU64::new(0),
            batch: Mutex::default(),
            one_ways: Arc::default(),
            stopped: AtomicBool::new(false),
        });
        let running = reactor.clone();
        std::thread::Builder::new().name("monarch-io".into()).spawn(move || running.run())?;
        Ok(reactor)
    }

    /// End the thread; links are not read any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = self.links.notify();
    }

    /// Run `action` on the I/O thread after `delay`. It must not block.
    pub fn after(&self, delay: Duration, action: impl FnOnce() + Send + 'static) {
        let number = self.next_timer.fetch_add(1, Ordering::Relaxed);
        let timer = Timer { at: Instant::now() + delay, number, action: Box::new(action) };
        self.timers.lock().push(Reverse(timer));
        let _ = self.links.notify();
    }

    /// Flush a link before long, together with others for which that is asked meanwhile.
    pub(crate) fn flush_later(self: &Arc<Self>, link: Arc<Link>) {
        let mut batch = self.batch.lock();
        batch.links.push(link);
        if batch.links.len() == 1 {
            batch.since = Some(Instant::now());
            self.flush_batch_after(BATCH_TIME_MIN);
        }
    }

    fn flush_batch_after(self: &Arc<Self>, delay: Duration) {
        let reactor = Arc::downgrade(self);
        self.after(delay, move || {
            if let Some(reactor) = reactor.upgrade() {
                reactor.flush_batch();
            }
        });
    }

    fn flush_batch(self: &Arc<Self>) {
        let mut batch = self.batch.lock();
        let left = batch.time().saturating_sub(batch.since.map_or(Duration::ZERO, |since| since.elapsed()));
        if !left.is_zero() {
            return self.flush_batch_after(left);
        }
        let links = std::mem::take(&mut batch.links);
        drop(batch);
        links.iter().for_each(|link| link.flush());
    }

    /// How many one-way messages have been sent by all links.
    pub(crate) fn one_ways(&self) -> &Arc<AtomicU64> {
        &self.one_ways
    }

    pub(crate) fn next_key(&self) -> usize {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn register(&self, link: &Arc<Link>) -> io::Result<()> {
        self.links.add(link.key(), link.clone(), Interest { read: true, write: false })
    }

    pub(crate) fn deregister(&self, link: &Link) {
        self.links.remove(link.key());
    }

    pub(crate) fn set_interest(&self, link: &Link, interest: Interest) {
        // Fails only for a link that was taken out meanwhile.
        let _ = self.links.modify(link.key(), link, interest);
    }

    fn run(&self) {
        signals::block_all();
        let mut events = Events::new();
        while !self.stopped.load(Ordering::Relaxed) && !fork::is_forked_child() {
            if self.links.wait(&mut events, self.until_next_timer()).is_err() {
                return;
            }
            for event in events.iter() {
                let Some(link) = self.links.get(event.key) else { continue };
                if event.writable {
                    link.flush();
                }
                if event.readable {
                    link.read_if_free();
                }
            }
            self.run_timers();
        }
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let timers = self.timers.lock();
        timers.peek().map(|Reverse(timer)| timer.at.saturating_duration_since(Instant::now()))
    }

    fn run_timers(&self) {
        while let Some(action) = self.due_timer() {
            action();
        }
    }

    fn due_timer(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let mut timers = self.timers.lock();
        if timers.peek().is_some_and(|Reverse(timer)| timer.at <= Instant::now()) {
            return timers.pop().map(|Reverse(timer)| timer.action);
        }
        None
    }
}

impl Batch {
    /// How long they wait: as long as it takes to wake all their readers, so that no more than half of the time goes there.
    fn time(&self) -> Duration {
        let count = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        WAKING.saturating_mul(count).clamp(BATCH_TIME_MIN, BATCH_TIME_MAX)
    }
}

/// About what it takes to wake a reader.
const WAKING: Duration = Duration::from_micros(30);

/// The bounds of how long messages wait for others to leave with.
const BATCH_TIME_MIN: Duration = Duration::from_micros(200);
const BATCH_TIME_MAX: Duration = Duration::from_millis(1);

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
