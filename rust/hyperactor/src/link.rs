//! Links: framed, ordered streams between two processes of one host.
//!
//! # Who reads, who writes
//! - **LINK-1** Whoever holds the *read lease* reads the socket and delivers what arrives, in order. The I/O thread
//!   takes the lease whenever the socket is readable and nobody has it; a thread that waits for something to arrive by
//!   this link may take it instead, and gives it back before user code runs.
//! - **LINK-2** A sender writes in its own thread, under the writer's lock, and only if nothing is queued before it.
//!   What the socket does not take is queued, and the I/O thread writes it.
//! - **LINK-3** One-way messages that follow each other closely leave together. The first goes at once; the next wait until
//!   they are [`BATCH_BYTES`], the I/O thread comes by (within 0.2 to 1 ms, the longer the more links wait), or something
//!   follows that cannot wait.
//! - **LINK-4** Nothing is delivered after the end of the stream. That the stream ended is a hint that the peer died;
//!   only the agent's word decides.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use parking_lot::{Mutex, MutexGuard};

use crate::reactor::Reactor;
use crate::sys::fork::Descriptor;
use crate::sys::poll::Interest;
use crate::sys::socket;
use crate::wire::Frame;

mod reader;

pub use reader::Reader;

/// Most slices that go into one write; the system's limit is higher everywhere.
const WRITE_SLICES: usize = 64;

/// One-way messages that a process sends closer to each other than this are a burst, whoever they are for. Most of what
/// one costs is to wake its receiver: in a burst that is paid once for many.
const BURST_GAP: Duration = Duration::from_micros(100);

/// How much of a burst is sent without waiting for more.
const BATCH_BYTES: usize = 16 << 10;

/// Where a link delivers. Called by whoever holds the read lease, so it must not block or run user code.
pub trait Sink: Send + Sync {
    /// A frame arrived, with the descriptors that came with it.
    fn frame(&self, link: &Arc<Link>, frame: Frame, descriptors: Vec<OwnedFd>);
    /// The stream ended, with an error where the peer broke the protocol or the socket failed.
    fn ended(&self, link: &Arc<Link>, error: Option<String>);
}

/// One end of a stream of frames.
pub struct Link {
    socket: Descriptor,
    key: usize,
    reactor: Weak<Reactor>,
    /// How many one-way messages this process has sent by all its links.
    one_ways: Arc<AtomicU64>,
    sink: Arc<dyn Sink>,
    interest: Mutex<Interest>,
    reader: Mutex<Reader>,
    writer: Mutex<Writer>,
    ended: AtomicBool,
}

#[derive(Default)]
struct Writer {
    queue: VecDeque<Chunk>,
    /// How long the queue is.
    bytes: usize,
    /// What is queued waits for the socket to take more.
    blocked: bool,
    /// When a one-way message was last sent here, as which of all of this process.
    last_one_way: Option<(Instant, u64)>,
    closed: bool,
}

struct Chunk {
    bytes: Bytes,
    descriptors: Vec<OwnedFd>,
}

impl Link {
    /// A link over `socket`, read by the I/O thread of `reactor` from now on. `reader` holds what was read before.
    pub fn open(socket: OwnedFd, reader: Reader, sink: Arc<dyn Sink>, reactor: &Arc<Reactor>) -> io::Result<Arc<Self>> {
        let link = Self::open_later(socket, reader, sink, reactor);
        link.start()?;
        Ok(link)
    }

    /// A link that nobody reads until [`Link::start`].
    pub fn open_later(socket: OwnedFd, reader: Reader, sink: Arc<dyn Sink>, reactor: &Arc<Reactor>) -> Arc<Self> {
        Arc::new(Self {
            socket: Descriptor::new(socket),
            key: reactor.next_key(),
            reactor: Arc::downgrade(reactor),
            one_ways: reactor.one_ways().clone(),
            sink,
            interest: Mutex::new(Interest { read: true, write: false }),
            reader: Mutex::new(reader),
            writer: Mutex::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// Let the I/O thread read from now on.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        if let Some(reactor) = self.reactor.upgrade() {
            reactor.register(self)?;
        }
        // What was read before would otherwise wait for more to arrive.
        self.deliver_buffered(&mut self.reader.lock());
        Ok(())
    }

    /// Under which the reactor knows it.
    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Send a frame after all that was sent before; never waits. On a closed link the frame is dropped.
    pub fn send(self: &Arc<Self>, frame: &Frame, descriptors: Vec<OwnedFd>) {
        let mut writer = self.writer.lock();
        if writer.closed {
            return;
        }
        let is_burst = frame.can_wait && writer.continues_burst(&self.one_ways);
        let is_first = writer.queue.is_empty();
        writer.push(frame, descriptors);
        if writer.blocked {
            return;
        }
        if !is_burst || writer.bytes >= BATCH_BYTES {
            self.write_queued(&mut writer);
        } else if is_first && let Some(reactor) = self.reactor.upgrade() {
            reactor.flush_later(self.clone());
        }
    }

    /// Write what is queued. The I/O thread calls it when the socket takes more, and when a burst has waited long enough.
    pub(crate) fn flush(&self) {
        self.write_queued(&mut self.writer.lock());
    }

    /// Write as much as the socket takes; the rest is the I/O thread's.
    fn write_queued(&self, writer: &mut Writer) {
        self.write(writer);
        let blocked = !writer.queue.is_empty();
        if blocked != writer.blocked {
            writer.blocked = blocked;
            self.want(|interest| interest.write = blocked);
        }
    }

    /// Whether everything that was sent has gone to the system.
    pub fn is_flushed(&self) -> bool {
        self.writer.lock().queue.is_empty()
    }

    /// How many bytes wait for the system to take them.
    pub fn backlog(&self) -> usize {
        self.writer.lock().bytes
    }

    fn write(&self, writer: &mut Writer) {
        while !writer.queue.is_empty() {
            match self.write_some(&writer.queue) {
                Ok(count) => writer.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The reader meets the end of the stream too, and tells the sink.
                    writer.close();
                }
            }
        }
    }

    /// One system call: descriptors go with the first byte of their chunk, so a chunk that has some starts a call.
    fn write_some(&self, queue: &VecDeque<Chunk>) -> io::Result<usize> {
        let descriptors = queue.front().map_or(&[][..], |chunk| &chunk.descriptors);
        let mut slices = [IoSlice::new(&[]); WRITE_SLICES];
        let mut used = 0;
        for (slot, chunk) in slices.iter_mut().zip(queue) {
            if used > 0 && !chunk.descriptors.is_empty() {
                break;
            }
            *slot = IoSlice::new(&chunk.bytes);
            used += 1;
        }
        socket::send(self.socket.as_fd(), &slices[..used], descriptors)
    }

    /// The right to read, if nobody has it.
    pub fn try_lease(self: &Arc<Self>) -> Option<ReadLease<'_>> {
        if self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let reader = self.reader.try_lock()?;
        self.want(|interest| interest.read = false);
        Some(ReadLease { link: self, reader: Some(reader) })
    }

    /// Whether somebody has the read lease, or the I/O thread reads right now.
    pub fn is_being_read(&self) -> bool {
        self.reader.is_locked()
    }

    /// Read what there is, unless somebody else is reading; called by the I/O thread.
    pub(crate) fn read_if_free(self: &Arc<Self>) {
        if let Some(mut reader) = self.reader.try_lock() {
            self.read(&mut reader);
        }
    }

    /// Read all that the peer sent before it died, to the end of the stream or of what is there.
    pub fn drain(self: &Arc<Self>) {
        let mut reader = self.reader.try_lock().unwrap_or_else(|| {
            // A thread waits with the lease, perhaps for ever: a child of the dead peer may keep the stream open. This
            // wakes it, and leaves what has arrived to be read.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read);
            self.reader.lock()
        });
        while self.read(&mut reader) {}
    }

    /// Read once and deliver; false when there was nothing or the stream is at its end.
    fn read(self: &Arc<Self>, reader: &mut Reader) -> bool {
        if self.ended.load(Ordering::Relaxed) {
            return false;
        }
        match reader.fill(self.socket.as_fd()) {
            Ok(0) => self.end(None),
            Ok(_) => return self.deliver_buffered(reader),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.end(Some(error.to_string())),
        }
        false
    }

    fn deliver_buffered(self: &Arc<Self>, reader: &mut Reader) -> bool {
        loop {
            match reader.next() {
                Ok(Some((frame, descriptors))) => self.sink.frame(self, frame, descriptors),
                Ok(None) => return true,
                Err(error) => {
                    self.end(Some(error.to_string()));
                    return false;
                }
            }
        }
    }

    fn end(self: &Arc<Self>, error: Option<String>) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.close();
        self.sink.ended(self, error);
    }

    /// Send and receive nothing any more; the peer meets the end of the stream.
    pub fn close(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(reactor) = self.reactor.upgrade() {
            reactor.deregister(self);
        }
        let mut writer = self.writer.lock();
        if !writer.blocked {
            self.write(&mut writer);
        }
        writer.close();
        // Copies of the descriptor may live in forked children; shutting down ends the stream for all of them.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn want(&self, change: impl FnOnce(&mut Interest)) {
        let mut interest = self.interest.lock();
        change(&mut interest);
        if let Some(reactor) = self.reactor.upgrade() {
            reactor.set_interest(self, *interest);
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The right to read a link. While it is held the I/O thread does not look at the link.
pub struct ReadLease<'a> {
    link: &'a Arc<Link>,
    /// Taken only by drop, which lets the I/O thread look again before it unlocks.
    reader: Option<MutexGuard<'a, Reader>>,
}

impl ReadLease<'_> {
    /// What to wait for.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.link.socket.as_fd()
    }

    /// Read once and deliver.
    pub fn read(&mut self) {
        if let Some(reader) = &mut self.reader {
            self.link.read(reader);
        }
    }
}

impl Drop for ReadLease<'_> {
    fn drop(&mut self) {
        self.link.want(|interest| interest.read = true);
        self.reader.take();
    }
}

impl Writer {
    fn push(&mut self, frame: &Frame, descriptors: Vec<OwnedFd>) {
        let head = Chunk { bytes: frame.encode_head(), descriptors };
        let parts = frame.parts.iter().filter(|part| !part.is_empty());
        let before = self.queue.len();
        self.queue.push_back(head);
        self.queue.extend(parts.map(|part| Chunk { bytes: part.clone(), descriptors: Vec::new() }));
        self.bytes += self.queue.range(before..).map(|chunk| chunk.bytes.len()).sum::<usize>();
    }

    /// Whether the process's one-way messages, of which the next one is sent now, have followed each other closely since
    /// the last one here. In a cast to many those to the others lie between, and the receivers that they woke have run.
    fn continues_burst(&mut self, one_ways: &AtomicU64) -> bool {
        let now = Instant::now();
        let number = one_ways.fetch_add(1, Ordering::Relaxed);
        let Some((last, its_number)) = self.last_one_way.replace((now, number)) else { return false };
        let count = u32::try_from(number - its_number).unwrap_or(u32::MAX);
        now.duration_since(last) < BURST_GAP.saturating_mul(count)
    }

    fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
        self.bytes = 0;
    }

    fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some(front) = self.queue.front_mut() {
            if count > 0 {
                // They went with the first byte.
                front.descriptors.clear();
            }
            if count < front.bytes.len() {
                front.bytes.advance(count);
                return;
            }
            count -= front.bytes.len();
            self.queue.pop_front();
        }
    }
}
