//! The thread that follows the files of processes and hands on whole lines.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::console::Console;
use super::files::LogFile;
use super::outlet::Outlet;
use super::{LogOptions, Origin, Said, Stream};
use crate::id::{MeshId, ProcId};
use crate::sys::poll::readable;
use crate::sys::signals;
use crate::sys::wake::WakeFd;
use crate::sys::watch::{Notice, Watcher};

/// The handle of the thread, which ends with it.
pub(super) struct Follower {
    shared: Arc<Shared>,
}

struct Shared {
    ended: AtomicBool,
    orders: Mutex<Vec<Order>>,
    arrivals: Mutex<Vec<Arrival>>,
    wake: WakeFd,
    progress: Mutex<Progress>,
    moved: Condvar,
}

/// What the thread is told.
pub(super) enum Order {
    /// Say something to the user.
    Complain(String),
    /// A process has written all that it will ever write.
    Ended(ProcId),
    /// Hand on all that was written until now, and then do this.
    Flush(Then),
    /// Follow the standard output and the standard error of a process.
    Follow(Arc<Origin>, [Arc<LogFile>; 2], LogOptions),
    /// Treat the lines of a mesh otherwise from where its files ended when that was asked for.
    Treat(MeshId, LogOptions, Ends),
}

type Then = Box<dyn FnOnce() + Send>;

/// Lines of another host's processes, and what to do when they are shown.
pub(super) struct Arrival {
    pub(super) said: Vec<Said>,
    pub(super) text: Bytes,
    pub(super) taken: Then,
}

/// How long files were.
pub(super) type Ends = HashMap<(ProcId, Stream), u64>;

#[derive(Default)]
struct Progress {
    ordered: u64,
    flushed: u64,
    writes: u64,
}

struct Thread {
    shared: Arc<Shared>,
    watcher: Watcher,
    outlet: Outlet,
    sources: HashMap<(ProcId, Stream), Source>,
    armed: HashMap<Notice, (ProcId, Stream)>,
    /// How long to wait before unwatched files are looked at again.
    pause: Duration,
}

/// What a turn has found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Nothing,
    /// All that there was.
    All,
    /// As much as a turn takes.
    More,
}

/// A file that is followed.
struct Source {
    origin: Arc<Origin>,
    stream: Stream,
    file: Arc<LogFile>,
    options: LogOptions,
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    partial: Vec<u8>,
    notice: Option<Notice>,
    /// Whether there may be something to read.
    news: bool,
}

/// How long much output is collected before it is read again, so that a burst costs few reads.
const COLLECT: Duration = Duration::from_millis(20);

/// How often a file is looked at where the system does not tell, at least, while nobody prints.
const LAZIEST_LOOK: Duration = Duration::from_millis(200);

/// How much is read, and written, at once.
const TURN_BYTES: usize = 64 << 10;

/// A longer line comes in pieces.
const LONGEST_LINE: usize = 64 << 10;

impl Follower {
    pub(super) fn start(outlet: Outlet) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            ended: AtomicBool::new(false),
            orders: Mutex::default(),
            arrivals: Mutex::default(),
            wake: WakeFd::new()?,
            progress: Mutex::default(),
            moved: Condvar::new(),
        });
        let mut thread = Thread {
            shared: shared.clone(),
            watcher: Watcher::new(),
            outlet,
            sources: HashMap::new(),
            armed: HashMap::new(),
            pause: COLLECT,
        };
        std::thread::Builder::new().name("monarch-logs".into()).spawn(move || thread.run())?;
        Ok(Self { shared })
    }

    pub(super) fn order(&self, order: Order) {
        self.shared.orders.lock().push(order);
        self.shared.wake.wake();
    }

    pub(super) fn arrived(&self, arrival: Arrival) {
        self.shared.arrivals.lock().push(arrival);
        self.shared.wake.wake();
    }

    /// Wait until all that was written until now is handed on; false if nothing moved for as long as `patience`.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let mut progress = self.shared.progress.lock();
        progress.ordered += 1;
        let (wanted, mut writes) = (progress.ordered, progress.writes);
        let shared = self.shared.clone();
        self.order(Order::Flush(Box::new(move || shared.progress.lock().flushed += 1)));
        while progress.flushed < wanted {
            if self.shared.moved.wait_for(&mut progress, patience).timed_out() && progress.writes == writes {
                return progress.flushed >= wanted;
            }
            writes = progress.writes;
        }
        true
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.wake.wake();
    }
}

impl Thread {
    fn run(&mut self) {
        signals::block_all();
        while !self.shared.ended.load(Ordering::Relaxed) {
            self.shared.wake.clear();
            self.take_arrivals();
            let flushed = self.take_orders();
            let read = self.read_news();
            if let Some(console) = self.outlet.console() {
                console.let_out_due(Instant::now());
            }
            self.write();
            if !flushed.is_empty() {
                flushed.into_iter().for_each(|then| then());
                self.shared.moved.notify_all();
            }
            if read != Read::More {
                self.wait(read == Read::All);
            }
        }
    }

    /// Show what came from other hosts.
    fn take_arrivals(&mut self) {
        let arrivals = std::mem::take(&mut *self.shared.arrivals.lock());
        for Arrival { said, text, taken } in arrivals {
            if let Some(console) = self.outlet.console() {
                console.hear(said, &text, Instant::now());
            }
            self.write();
            taken();
        }
    }

    /// What is to be done when what was written until now is handed on.
    fn take_orders(&mut self) -> Vec<Then> {
        let orders = std::mem::take(&mut *self.shared.orders.lock());
        let mut flushed = Vec::new();
        for order in orders {
            match order {
                Order::Complain(text) => self.outlet.complain(&text),
                Order::Ended(proc) => self.end(proc),
                Order::Flush(then) => {
                    self.take_arrivals();
                    self.catch_up(|source| Some(source.file.len()));
                    self.outlet.console().into_iter().for_each(Console::let_out_all);
                    flushed.push(then);
                }
                Order::Follow(origin, [stdout, stderr], options) => {
                    self.follow(&origin, Stream::Stdout, stdout, &options);
                    self.follow(&origin, Stream::Stderr, stderr, &options);
                }
                Order::Treat(mesh, options, ends) => self.treat(mesh, &options, &ends),
            }
        }
        flushed
    }

    fn follow(&mut self, origin: &Arc<Origin>, stream: Stream, file: Arc<LogFile>, options: &LogOptions) {
        let source = Source {
            origin: origin.clone(),
            stream,
            offset: file.begin,
            file,
            options: options.clone(),
            partial: Vec::new(),
            notice: None,
            news: true,
        };
        self.sources.insert((origin.proc, stream), source);
    }

    fn treat(&mut self, mesh: MeshId, options: &LogOptions, ends: &Ends) {
        self.catch_up(|source| ends.get(&(source.origin.proc, source.stream)).copied());
        self.outlet.let_out_mesh(mesh);
        for (key, source) in self.sources.iter_mut().filter(|(key, _)| key.0.mesh == mesh) {
            if options.shown && !source.options.shown {
                source.offset = ends.get(key).copied().unwrap_or(source.offset);
            } else if !options.shown {
                source.end_line(&mut self.outlet);
            }
            source.options = options.clone();
            source.news = true;
        }
    }

    fn end(&mut self, proc: ProcId) {
        // What the others of its mesh said before is read too: its last lines are let out, and may be equal to theirs.
        self.catch_up(|source| (source.origin.proc.mesh == proc.mesh).then(|| source.file.len()));
        for stream in [Stream::Stdout, Stream::Stderr] {
            let Some(mut source) = self.sources.remove(&(proc, stream)) else { continue };
            source.end_line(&mut self.outlet);
            if let Some(notice) = source.notice {
                self.armed.remove(&notice);
                self.watcher.disarm(notice);
            }
        }
        self.outlet.let_out_mesh(proc.mesh);
    }

    /// Hand on what some files have up to an end.
    fn catch_up(&mut self, end: impl Fn(&Source) -> Option<u64>) {
        for source in self.sources.values_mut().filter(|source| source.options.shown) {
            let Some(end) = end(source) else { continue };
            while source.offset < end {
                let text = source.read(end - source.offset);
                if text.is_empty() {
                    break;
                }
                source.take(&text, &mut self.outlet);
                write(&mut self.outlet, &self.shared);
            }
        }
    }

    /// Read one turn where there may be something.
    fn read_news(&mut self) -> Read {
        for notice in self.watcher.notices() {
            let source = self.armed.remove(&notice).and_then(|key| self.sources.get_mut(&key));
            if let Some(source) = source {
                source.notice = None;
                source.news = true;
            }
        }
        let mut most = 0;
        for (key, source) in self.sources.iter_mut().filter(|(_, source)| source.news && source.options.shown) {
            // What is written after this gives a notice, and what was before is read now.
            if source.notice.is_none() {
                source.notice = self.watcher.arm(source.file.as_fd());
                self.armed.extend(source.notice.map(|notice| (notice, *key)));
            }
            let text = source.read(TURN_BYTES as u64);
            if !self.shared.orders.lock().is_empty() {
                return Read::More; // an order may be about what was read, and comes first
            }
            source.take(&text, &mut self.outlet);
            source.news = source.notice.is_none() || text.len() == TURN_BYTES;
            most = most.max(text.len());
            if self.outlet.unwritten_bytes() >= TURN_BYTES {
                write(&mut self.outlet, &self.shared);
            }
        }
        match most {
            0 => Read::Nothing,
            TURN_BYTES => Read::More,
            _ => Read::All,
        }
    }

    fn write(&mut self) {
        write(&mut self.outlet, &self.shared);
    }

    fn wait(&mut self, has_read: bool) {
        let unwatched = self.sources.values().any(|source| source.news && source.options.shown);
        self.pause = if has_read { COLLECT } else { (self.pause * 2).min(LAZIEST_LOOK) };
        let due = self.outlet.console().and_then(|console| console.next_due());
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let look = (has_read || unwatched).then_some(self.pause);
        let timeout = [due, look].into_iter().flatten().min();
        let wake = self.shared.wake.as_fd();
        // A failed wait is a pause that was too short.
        match self.watcher.descriptor().filter(|_| !has_read) {
            Some(watcher) => drop(readable([wake, watcher], timeout)),
            None => drop(readable([wake], timeout)),
        }
    }
}

/// Write what is ready, and let those know who wait for progress.
fn write(outlet: &mut Outlet, shared: &Shared) {
    if outlet.unwritten_bytes() > 0 {
        outlet.write();
        shared.progress.lock().writes += 1;
        shared.moved.notify_all();
    }
}

impl Source {
    /// What comes next, at most one turn.
    fn read(&self, at_most: u64) -> Vec<u8> {
        let mut text = vec![0; at_most.min(TURN_BYTES as u64) as usize];
        let count = self.file.read(&mut text, self.offset);
        text.truncate(count);
        text
    }

    /// Go on behind `text`, and hand on the lines that are whole.
    fn take(&mut self, text: &[u8], outlet: &mut Outlet) {
        self.offset += text.len() as u64;
        let now = Instant::now();
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(line) if self.partial.is_empty() => self.hand_on(outlet, line, now),
                Some(end) => {
                    let mut line = std::mem::take(&mut self.partial);
                    line.extend_from_slice(end);
                    self.hand_on(outlet, &line, now);
                }
                None => self.partial.extend_from_slice(piece),
            }
        }
        if self.partial.len() >= LONGEST_LINE {
            self.end_line(outlet);
        }
    }

    /// Hand on what has no end of line as if it had.
    fn end_line(&mut self, outlet: &mut Outlet) {
        if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            self.hand_on(outlet, &line, Instant::now());
        }
    }

    fn hand_on(&self, outlet: &mut Outlet, line: &[u8], now: Instant) {
        outlet.line(&self.origin, self.stream, last_state(line), &self.options, now);
    }
}

/// What a terminal shows of a line in the end: a progress bar writes over itself.
fn last_state(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line)
}
