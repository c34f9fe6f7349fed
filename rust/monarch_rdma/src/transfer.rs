//! Transfers: any number of copies that are started together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::RdmaError;
use crate::handle::BufferHandle;
use crate::peers::{MAY_NOT, Peer};
use crate::pool;
use crate::sys::Piece;
use crate::table::Pin;

/// What one step copies: memory of the owner is pinned for no longer, and between two steps a transfer looks whether it
/// should go on.
const STEP_BYTES: u64 = 4 << 20;

/// How many small copies one step takes together.
const STEP_COPIES: usize = 256;

/// Transfers of up to so many bytes are done by whoever starts them: waking another thread takes longer.
const INLINE_BYTES: u64 = 2 << 20;

/// A copy between memory here and a buffer.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The buffer.
    pub handle: Arc<BufferHandle>,
    /// Where it begins in the buffer.
    pub offset_bytes: u64,
    /// Where it begins here.
    pub address: u64,
    /// How long it is.
    pub size_bytes: u64,
    /// Into the buffer, rather than out of it.
    pub writes: bool,
}

/// Copies that are on their way.
pub struct Transfer {
    copies: Vec<Copy>,
    /// Parts of copies, or several whole ones that have an owner and a direction in common.
    steps: Vec<Step>,
    deadline: Option<Instant>,
    cancelled: AtomicBool,
    next: AtomicUsize,
    ended: AtomicUsize,
    bytes: u64,
    done_bytes: AtomicU64,
    errors: Mutex<Vec<(usize, RdmaError)>>,
    done: Box<dyn Fn() + Send + Sync>,
}

enum Step {
    /// Whole copies: from one index to another.
    Whole(usize, usize),
    /// A part of the copy at an index.
    Part { copy: usize, skip: u64, bytes: u64 },
}

impl Transfer {
    /// Start; small ones are over when this returns. `done` is called once, by whichever thread is last.
    ///
    /// # Safety
    /// The memory here stays allocated until `done` is called, and may be written to where copies read buffers.
    #[allow(unsafe_code)] // What it is given are addresses.
    pub unsafe fn start(
        copies: Vec<Copy>,
        deadline: Option<Instant>,
        threads: usize,
        done: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let bytes = copies.iter().map(|copy| copy.size_bytes).sum();
        let steps = steps(&copies);
        let transfer = Arc::new(Self {
            copies,
            steps,
            deadline,
            cancelled: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            bytes,
            done_bytes: AtomicU64::new(0),
            errors: Mutex::default(),
            done: Box::new(done),
        });
        if transfer.steps.is_empty() {
            (transfer.done)();
        } else if bytes <= INLINE_BYTES || !pool::run(&transfer, threads.min(transfer.steps.len())) {
            transfer.work();
        }
        transfer
    }

    /// Give up what has not begun; it is over soon after.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether nothing of it goes on.
    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire) == self.steps.len()
    }

    /// What `tell` says of what went wrong, by the number of the copy.
    pub fn errors<T>(&self, tell: impl Fn(&RdmaError) -> T) -> Vec<(usize, T)> {
        let mut errors: Vec<_> = self.errors.lock().iter().map(|(copy, error)| (*copy, tell(error))).collect();
        errors.sort_by_key(|(copy, _)| *copy);
        errors.dedup_by_key(|(copy, _)| *copy);
        errors
    }

    /// What went wrong, by the number of the copy; said once.
    pub fn take_errors(&self) -> Vec<(usize, RdmaError)> {
        let mut errors = std::mem::take(&mut *self.errors.lock());
        errors.sort_by_key(|(copy, _)| *copy);
        errors.dedup_by_key(|(copy, _)| *copy);
        errors
    }

    /// Take steps until there are none.
    pub(crate) fn work(&self) {
        while let Some(step) = self.steps.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            match *step {
                Step::Whole(first, end) => self.copy_whole(first, end),
                Step::Part { copy, skip, bytes } => self.copy_part(copy, skip, bytes),
            }
            if self.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.steps.len() {
                (self.done)();
            }
        }
    }

    fn copy_part(&self, index: usize, skip: u64, bytes: u64) {
        let whole = &self.copies[index];
        let part = Copy {
            offset_bytes: whole.offset_bytes + skip,
            address: whole.address + skip,
            size_bytes: bytes,
            ..whole.clone()
        };
        if let Err(error) = self.go_on().and_then(|()| self.copy(&[&part])) {
            self.errors.lock().push((index, error));
        }
    }

    /// Together, which is one call of the system; where that fails one by one, to know which failed.
    fn copy_whole(&self, first: usize, end: usize) {
        let copies: Vec<_> = self.copies[first..end].iter().collect();
        if copies.len() > 1 && self.go_on().and_then(|()| self.copy(&copies)).is_ok() {
            return;
        }
        for (number, copy) in copies.into_iter().enumerate() {
            if let Err(error) = self.go_on().and_then(|()| self.copy(&[copy])) {
                self.errors.lock().push((first + number, error));
            }
        }
    }

    fn go_on(&self) -> Result<(), RdmaError> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(RdmaError::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(RdmaError::TimedOut { done_bytes: self.done_bytes.load(Ordering::Relaxed), bytes: self.bytes });
        }
        Ok(())
    }

    /// All copies have one owner and one direction.
    fn copy(&self, copies: &[&Copy]) -> Result<(), RdmaError> {
        let (handle, writes) = (&copies[0].handle, copies[0].writes);
        let peer = Peer::owner_of(handle)?;
        let process = std::process::id();
        let mut pins = Vec::with_capacity(copies.len());
        let mut there = Vec::with_capacity(copies.len());
        for copy in copies {
            let pin = self.pin(&peer, &copy.handle, process)?;
            there.push(remote(copy, &pin)?);
            pins.push(pin);
        }
        let mut here: Vec<_> =
            copies.iter().map(|copy| Piece { address: copy.address, bytes: copy.size_bytes }).collect();
        if peer.copier.has_ended() {
            return Err(lost(handle));
        }
        let mut left: u64 = here.iter().map(|piece| piece.bytes).sum();
        while left > 0 {
            // SAFETY: the memory here is valid until the transfer is over, says whoever started it; that of the owner
            // stays while it is pinned, and the owner allowed this direction.
            #[allow(unsafe_code)]
            let copied = unsafe { peer.copier.copy(&here, &there, writes) };
            let copied = copied.map_err(|error| failure(handle, writes, error))? as u64;
            if copied == 0 {
                return Err(failure(handle, writes, std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.done_bytes.fetch_add(copied, Ordering::Relaxed);
            left -= copied;
            if left > 0 {
                skip(&mut here, copied);
                skip(&mut there, copied);
            }
        }
        Ok(())
    }

    fn pin<'a>(&self, peer: &'a Peer, handle: &BufferHandle, process: u32) -> Result<Pin<'a>, RdmaError> {
        loop {
            if let Some(pin) = peer.table.pin(handle.registration, process) {
                return Ok(pin);
            }
            self.go_on()?;
            peer.table.forget_the_dead();
            std::thread::yield_now();
        }
    }
}

/// Where a copy lies in the owner, which is checked against what the owner says, not the handle.
fn remote(copy: &Copy, pin: &Pin<'_>) -> Result<Piece, RdmaError> {
    let handle = &copy.handle;
    let region = pin.region(handle.rights, handle.capability).ok_or_else(|| gone(handle))?;
    if copy.writes && !handle.rights.can_write() {
        return Err(RdmaError::ReadOnly { owner: handle.owner.clone() });
    }
    let region = region.part(copy.offset_bytes, copy.size_bytes)?;
    Ok(Piece { address: region.address(), bytes: region.size_bytes() })
}

/// Have the owner let a buffer go, from any process that may write to it.
pub fn drop_remotely(handle: &BufferHandle) -> Result<(), RdmaError> {
    handle.check(0, 0, true)?;
    match Peer::owner_of(handle) {
        Ok(peer) => {
            peer.table.revoke_as_other(handle.registration, handle.capability);
            Ok(())
        }
        // It went with its owner.
        Err(RdmaError::PeerLost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn steps(copies: &[Copy]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut index = 0;
    while index < copies.len() {
        let first = &copies[index];
        if first.size_bytes > STEP_BYTES {
            let parts = (0..first.size_bytes).step_by(STEP_BYTES as usize);
            let part = |skip| Step::Part { copy: index, skip, bytes: STEP_BYTES.min(first.size_bytes - skip) };
            steps.extend(parts.map(part));
            index += 1;
            continue;
        }
        let mut bytes = 0;
        let together = copies[index..].iter().take(STEP_COPIES).take_while(|copy| {
            bytes += copy.size_bytes;
            bytes <= STEP_BYTES && copy.writes == first.writes && copy.handle.place == first.handle.place
        });
        let end = index + together.count();
        steps.push(Step::Whole(index, end));
        index = end;
    }
    steps
}

fn skip(pieces: &mut Vec<Piece>, mut bytes: u64) {
    pieces.retain_mut(|piece| {
        let taken = bytes.min(piece.bytes);
        bytes -= taken;
        *piece = Piece { address: piece.address + taken, bytes: piece.bytes - taken };
        piece.bytes > 0
    });
}

fn gone(handle: &BufferHandle) -> RdmaError {
    RdmaError::Gone { owner: handle.owner.clone() }
}

fn lost(handle: &BufferHandle) -> RdmaError {
    RdmaError::PeerLost { owner: handle.owner.clone(), pid: handle.place.pid() }
}

fn failure(handle: &BufferHandle, writes: bool, source: std::io::Error) -> RdmaError {
    let owner = handle.owner.clone();
    match source.raw_os_error() {
        Some(libc::ESRCH) => lost(handle),
        Some(libc::EPERM | libc::ENOSYS) => RdmaError::NoBackend { owner, reason: MAY_NOT.to_owned() },
        _ => RdmaError::Copy { direction: if writes { "to" } else { "from" }, owner, source },
    }
}
