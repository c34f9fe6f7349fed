//! The pool: slabs that this process fills and lends.
//!
//! Buffers of up to [`SMALL_SLOT_BYTES`] share slabs, cut into slots of one power of two; larger ones have a slab each.
//! Slabs stay warm for a while after they were used, and go back to the system when nobody wants them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::reactor::Reactor;
use crate::sys::fork::{Descriptor, is_forked_child};
use crate::sys::limits;
use crate::sys::memory::{self, Mapping, PAGE_BYTES};

/// From so many bytes on a buffer is worth a slot.
pub const SLOT_FROM_BYTES: usize = 64 << 10;

/// Largest slot that shares its slab with others.
const SMALL_SLOT_BYTES: usize = 1 << 20;

/// Slabs of small slots: long enough that descriptors are few, short enough that an unused rest is no loss.
const SMALL_SLAB_BYTES: usize = 4 << 20;

/// Most slabs. Each costs a descriptor here, and a mapping at its receivers.
const MAX_SLABS: usize = 128;

/// How long a slab that nobody uses stays.
///
/// A training step that sends the same tensors again takes seconds; what stays longer is waste.
const IDLE: Duration = Duration::from_secs(10);

/// Largest share of the bound that a spare slab takes, so that guessing wrong costs little.
const SPARE_SHARE: usize = 8;

/// Who gets what is in a slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receivers {
    /// One process, which may write to it.
    One,
    /// Any number, which see their own copies of what they write.
    Many,
}

/// The slabs of this process.
pub struct Pool {
    inner: Mutex<Inner>,
    bound: usize,
    reactor: Weak<Reactor>,
    on_gone: OnceLock<Box<dyn Fn(Vec<u64>) + Send + Sync>>,
}

#[derive(Default)]
struct Inner {
    entries: Vec<Entry>,
    next_id: u64,
    /// Slabs that had to make room, of which nobody was told yet.
    gone: Vec<u64>,
    /// A timer looks for idle slabs.
    trimming: bool,
    /// A thread prepares a spare slab.
    preparing: bool,
}

struct Entry {
    slab: Arc<Slab>,
    free: Vec<usize>,
    retired: usize,
    used_at: Instant,
}

/// Memory behind a descriptor, divided into slots of one size.
pub struct Slab {
    /// Its name in messages; never used twice in one process.
    pub id: u64,
    /// Who gets what is in it.
    pub receivers: Receivers,
    /// Tells its memory from any other.
    pub identity: u64,
    fd: Descriptor,
    bytes: usize,
    slot_bytes: usize,
    is_filled: AtomicBool,
    /// Made when the memory is filled again.
    mapping: OnceLock<Arc<Mapping>>,
}

/// One slot with what was copied into it, free again when the last holder drops it.
pub struct Slot {
    pool: Arc<Pool>,
    slab: Arc<Slab>,
    offset: usize,
    bytes: usize,
    is_retired: AtomicBool,
}

impl Pool {
    /// An empty pool, whose memory is bounded by a share of what this process may use.
    pub fn new(reactor: &Arc<Reactor>) -> Arc<Self> {
        Self::with_bound(limits::memory() / BOUND_SHARE, Arc::downgrade(reactor))
    }

    fn with_bound(bound: usize, reactor: Weak<Reactor>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), bound, reactor, on_gone: OnceLock::new() })
    }

    /// Who is told of slabs that are gone, once: their receivers may forget them.
    pub(crate) fn on_gone(&self, tell: impl Fn(Vec<u64>) + Send + Sync + 'static) {
        let _ = self.on_gone.set(Box::new(tell));
    }

    /// A slot that holds a copy of `source`; none where there is no room, or no descriptor.
    pub fn fill(self: &Arc<Self>, source: &[u8], receivers: Receivers) -> Option<Arc<Slot>> {
        self.fill_for(source, receivers, true)
    }

    /// The same for receivers that make a copy of their own at once, as of `bytes`: then the slot is soon free again.
    pub fn fill_briefly(self: &Arc<Self>, source: &[u8], receivers: Receivers) -> Option<Arc<Slot>> {
        self.fill_for(source, receivers, false)
    }

    fn fill_for(self: &Arc<Self>, source: &[u8], receivers: Receivers, is_kept: bool) -> Option<Arc<Slot>> {
        let mut slot = self.take(source.len(), receivers, is_kept)?;
        slot.write(source).ok()?;
        // A slot that could not be filled went back with the error.
        slot.bytes = source.len();
        Some(Arc::new(slot))
    }

    fn take(self: &Arc<Self>, bytes: usize, receivers: Receivers, is_kept: bool) -> Option<Slot> {
        let (slot_bytes, slab_bytes) = sizes(bytes);
        let mut inner = self.inner.lock();
        let fitting = inner.fitting(slot_bytes, receivers);
        let index = match fitting {
            Some(index) => index,
            None => inner.add(slot_bytes, slab_bytes, receivers, self.bound)?,
        };
        if fitting.is_none() || is_kept && inner.is_only_one(index) {
            self.get_ready(&mut inner, index, is_kept);
        }
        if !inner.gone.is_empty() {
            self.trim_later(&mut inner, Duration::ZERO);
        }
        let entry = &mut inner.entries[index];
        let number = entry.free.pop()?;
        entry.used_at = Instant::now();
        let slab = entry.slab.clone();
        let offset = number * slab.slot_bytes;
        Some(Slot { pool: self.clone(), slab, offset, bytes: 0, is_retired: false.into() })
    }

    /// A large slab had to be made, or is the only one for what receivers keep until the next arrives: a thread maps it
    /// for its next use, while nobody waits for that. Of what is kept there is another one, whose pages the thread makes;
    /// whoever wants it earlier makes those that it lacks.
    fn get_ready(self: &Arc<Self>, inner: &mut Inner, made: usize, is_kept: bool) {
        let made = inner.entries[made].slab.clone();
        if made.slots() > 1 || inner.preparing {
            return;
        }
        let spare = if is_kept { self.add_spare(inner, &made) } else { None };
        let pool = Arc::downgrade(self);
        let prepare = move || {
            if let Some(spare) = spare {
                spare.populate();
            }
            let _ = made.mapping();
            drop(made);
            if let Some(pool) = pool.upgrade() {
                pool.inner.lock().preparing = false;
            }
        };
        // Without a thread that is left to the next use.
        inner.preparing = std::thread::Builder::new().name("monarch-slabs".into()).spawn(prepare).is_ok();
    }

    /// One more slab like `made`, if there is room for so much that may never be wanted; as it is mapped here.
    fn add_spare(self: &Arc<Self>, inner: &mut Inner, made: &Slab) -> Option<Arc<Mapping>> {
        if made.bytes > self.bound / SPARE_SHARE || !inner.has_room(made.bytes, self.bound) {
            return None;
        }
        let spare = Slab::new(inner.next_id(), made.slot_bytes, made.bytes, made.receivers).ok()?;
        let mapping = spare.map_unfilled().ok()?;
        inner.entries.push(Entry::new(spare));
        self.trim_later(inner, IDLE);
        Some(mapping)
    }

    fn give_back(self: &Arc<Self>, slot: &Slot) {
        let mut inner = self.inner.lock();
        let Some(entry) = inner.entries.iter_mut().find(|entry| entry.slab.id == slot.slab.id) else { return };
        let is_retired = slot.is_retired.load(Ordering::Relaxed);
        if is_retired {
            entry.retired += 1;
        } else {
            entry.free.push(slot.offset / slot.slab.slot_bytes);
        }
        entry.used_at = Instant::now();
        let is_gone = entry.is_retired();
        self.trim_later(&mut inner, if is_gone { Duration::ZERO } else { IDLE });
    }

    /// Let a timer look for what nobody uses, unless one does so already.
    fn trim_later(self: &Arc<Self>, inner: &mut Inner, delay: Duration) {
        if inner.trimming && !delay.is_zero() {
            return;
        }
        let Some(reactor) = self.reactor.upgrade() else { return };
        inner.trimming = true;
        let pool = Arc::downgrade(self);
        reactor.after(delay, move || {
            if let Some(pool) = pool.upgrade() {
                pool.trim(IDLE);
            }
        });
    }

    /// Give slabs back to the system that nobody used for `idle`.
    fn trim(self: &Arc<Self>, idle: Duration) {
        let mut inner = self.inner.lock();
        inner.trimming = false;
        inner.remove(|entry| entry.is_retired() || entry.is_free() && entry.used_at.elapsed() >= idle);
        let gone = std::mem::take(&mut inner.gone);
        if inner.entries.iter().any(Entry::is_free) {
            self.trim_later(&mut inner, IDLE);
        }
        drop(inner);
        if let (false, Some(tell)) = (gone.is_empty(), self.on_gone.get()) {
            tell(gone);
        }
    }

    /// How many bytes its slabs have, and how many of their slots are taken.
    pub fn usage(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        let taken = |entry: &Entry| entry.slab.slots() - entry.free.len() - entry.retired;
        (inner.bytes(), inner.entries.iter().map(taken).sum())
    }
}

impl Inner {
    /// The tightest slab with a free slot, if it is not much too long.
    fn fitting(&self, slot_bytes: usize, receivers: Receivers) -> Option<usize> {
        let fits = |entry: &Entry| {
            let has = entry.slab.slot_bytes;
            entry.slab.receivers == receivers && !entry.free.is_empty() && has >= slot_bytes && has / 2 <= slot_bytes
        };
        let fitting = self.entries.iter().enumerate().filter(|(_, entry)| fits(entry));
        fitting.min_by_key(|(_, entry)| (entry.slab.slot_bytes, entry.free.len())).map(|(index, _)| index)
    }

    /// Make a slab, if need be in the place of others that nobody uses; where it is.
    fn add(&mut self, slot_bytes: usize, slab_bytes: usize, receivers: Receivers, bound: usize) -> Option<usize> {
        if !self.has_room(slab_bytes, bound) {
            self.remove(Entry::is_free);
        }
        if !self.has_room(slab_bytes, bound) {
            return None;
        }
        let id = self.next_id();
        let slab = Slab::new(id, slot_bytes, slab_bytes, receivers).ok()?;
        self.entries.push(Entry::new(slab));
        Some(self.entries.len() - 1)
    }

    /// It is a large slab, and no other would do in its place.
    fn is_only_one(&self, index: usize) -> bool {
        let slab = &self.entries[index].slab;
        if slab.slots() > 1 {
            return false;
        }
        let replaces = |other: &Slab| {
            other.receivers == slab.receivers && (slab.slot_bytes..=2 * slab.slot_bytes).contains(&other.slot_bytes)
        };
        self.entries.iter().filter(|entry| replaces(&entry.slab)).count() == 1
    }

    fn has_room(&self, slab_bytes: usize, bound: usize) -> bool {
        self.entries.len() < MAX_SLABS && self.bytes() + slab_bytes <= bound
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.slab.bytes).sum()
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn remove(&mut self, is_gone: impl Fn(&Entry) -> bool) {
        let gone = &mut self.gone;
        self.entries.retain(|entry| {
            if is_gone(entry) {
                gone.push(entry.slab.id);
            }
            !is_gone(entry)
        });
    }
}

impl Entry {
    fn new(slab: Slab) -> Self {
        Self { free: (0..slab.slots()).rev().collect(), slab: Arc::new(slab), retired: 0, used_at: Instant::now() }
    }

    /// Nobody has a slot of it.
    fn is_free(&self) -> bool {
        self.free.len() + self.retired == self.slab.slots()
    }

    /// It can never be used again.
    fn is_retired(&self) -> bool {
        self.retired == self.slab.slots()
    }
}

impl Slab {
    fn new(id: u64, slot_bytes: usize, bytes: usize, receivers: Receivers) -> io::Result<Self> {
        let fd = memory::create(bytes)?;
        let identity = memory::identity(&fd)?;
        let fd = Descriptor::new(fd);
        Ok(Self { id, receivers, identity, fd, bytes, slot_bytes, is_filled: false.into(), mapping: OnceLock::new() })
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The descriptor that receivers map.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        if self.receivers == Receivers::Many {
            // Ours first: afterwards nobody can map it for writing.
            self.mapping()?;
            memory::forbid_writes(&self.fd);
        }
        self.fd.as_fd().try_clone_to_owned()
    }

    fn slots(&self) -> usize {
        self.bytes / self.slot_bytes
    }

    /// Its memory here, with all its pages where it is wanted whole.
    fn mapping(&self) -> io::Result<Arc<Mapping>> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping.clone());
        }
        let mapping = self.map()?;
        if self.slots() == 1 {
            mapping.populate();
        }
        Ok(mapping)
    }

    fn map(&self) -> io::Result<Arc<Mapping>> {
        let mapping = Arc::new(Mapping::shared(&self.fd, self.bytes)?);
        Ok(self.mapping.get_or_init(|| mapping).clone())
    }

    /// Have it written by way of its mapping from the start.
    fn map_unfilled(&self) -> io::Result<Arc<Mapping>> {
        self.is_filled.store(true, Ordering::Relaxed);
        self.map()
    }
}

impl Slot {
    /// A large slab that is filled for the first time has no pages yet: to make them while writing through the
    /// descriptor takes half as long as to fault them in.
    fn write(&mut self, source: &[u8]) -> io::Result<()> {
        let is_first = !self.slab.is_filled.swap(true, Ordering::Relaxed);
        if is_first && self.slab.slots() == 1 {
            return memory::write(&self.slab.fd, source);
        }
        self.slab.mapping()?.write(self.offset, source);
        Ok(())
    }

    /// The slab that it lies in.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Where in its slab.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many bytes were copied into it.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Let it never be used again: somebody may see its memory of whom we do not hear.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// What is in it, for whoever cannot be lent it; the slot stays taken until the bytes are gone.
    pub fn to_bytes(self: &Arc<Self>) -> Bytes {
        match self.slab.mapping() {
            Ok(mapping) => mapping.bytes(self.offset..self.offset + self.bytes, self.clone()),
            // What is not mapped was written through the descriptor, so it can be read through it too.
            Err(_) => memory::read(&self.slab.fd, self.offset, self.bytes).unwrap_or_default().into(),
        }
    }

    /// Its memory in this process, for a receiver that lives here.
    pub(crate) fn own_mapping(&self) -> io::Result<(Arc<Mapping>, usize)> {
        match self.slab.receivers {
            Receivers::One => Ok((self.slab.mapping()?, self.offset)),
            Receivers::Many => Ok((Arc::new(Mapping::private(&self.slab.fd, self.offset, self.bytes)?), 0)),
        }
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({}:{}+{})", self.slab.id, self.offset, self.bytes)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // In a forked child the pool's lock may be held for ever.
        if !is_forked_child() {
            self.pool.give_back(self);
        }
    }
}

/// The length of a slot for so many bytes, and of its slab.
fn sizes(bytes: usize) -> (usize, usize) {
    if bytes <= SMALL_SLOT_BYTES {
        return (bytes.next_power_of_two().max(PAGE_BYTES), SMALL_SLAB_BYTES);
    }
    let slot_bytes = bytes.next_multiple_of(PAGE_BYTES);
    (slot_bytes, slot_bytes)
}

/// Which part of the memory that this process may use its pool may take.
const BOUND_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUND: usize = 24 << 20;

    fn pool() -> Arc<Pool> {
        Pool::with_bound(BOUND, Weak::new())
    }

    fn content(number: usize, bytes: usize) -> Vec<u8> {
        vec![number as u8; bytes]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn slab_1_slots_keep_their_content_until_they_are_given_back_and_memory_stays_bounded(
            steps in prop::collection::vec((1usize..3_000_000, any::<bool>(), 0usize..6, any::<bool>()), 1..40),
        ) {
            let pool = pool();
            let mut taken: Vec<(usize, usize, Arc<Slot>)> = Vec::new();
            for (number, (bytes, is_for_one, drops, retires)) in steps.into_iter().enumerate() {
                let receivers = if is_for_one { Receivers::One } else { Receivers::Many };
                if let Some(slot) = pool.fill(&content(number, bytes), receivers) {
                    taken.push((number, bytes, slot));
                }
                for _ in 0..drops.min(taken.len()) {
                    let (_, _, slot) = taken.swap_remove(number % taken.len());
                    if retires {
                        slot.retire();
                    }
                }
                prop_assert!(pool.usage().0 <= BOUND);
                prop_assert_eq!(pool.usage().1, taken.len());
                for (number, bytes, slot) in &taken {
                    prop_assert!(slot.to_bytes() == content(*number, *bytes));
                }
            }
            taken.clear();
            pool.trim(Duration::ZERO);
            prop_assert_eq!(pool.usage(), (0, 0));
        }
    }

    #[test]
    fn slab_2_a_retired_slot_is_never_used_again() {
        let pool = pool();
        let slot = pool.fill(&[1; 2 << 20], Receivers::One).unwrap();
        let first = slot.slab().id;
        slot.retire();
        drop(slot);
        let next = pool.fill(&[1; 2 << 20], Receivers::One).unwrap();
        assert_ne!(next.slab().id, first);
    }

    #[test]
    fn slab_3_what_finds_no_room_gets_no_slot() {
        let pool = pool();
        assert!(pool.fill(&vec![1; BOUND + 1], Receivers::One).is_none());
        let slots: Vec<_> = std::iter::from_fn(|| pool.fill(&[1; 5 << 20], Receivers::One)).collect();
        assert_eq!(slots.len(), 4);
    }

    #[test]
    fn a_slot_that_was_given_back_is_used_again_by_what_is_not_much_shorter() {
        let pool = pool();
        let id = |bytes: usize, receivers| pool.fill(&vec![1; bytes], receivers).unwrap().slab().id;
        let first = id(4 << 20, Receivers::One);
        assert_eq!(id(3 << 20, Receivers::One), first);
        assert_ne!(id(4 << 20, Receivers::Many), first);
        assert_ne!(id(3 << 19, Receivers::One), first);
    }

    #[test]
    fn slabs_that_nobody_uses_make_room_for_others() {
        let pool = pool();
        drop(pool.fill(&vec![1; BOUND], Receivers::One));
        assert!(pool.fill(&[1; 2 << 20], Receivers::Many).is_some());
    }

    #[test]
    fn a_large_slab_that_had_to_be_made_has_a_spare_unless_it_is_wanted_briefly() {
        let pool = pool();
        let first = pool.fill(&[1; 2 << 20], Receivers::One).unwrap();
        assert_eq!(pool.usage(), (4 << 20, 1));
        let second = pool.fill(&[2; 2 << 20], Receivers::One).unwrap();
        assert_eq!(pool.usage(), (4 << 20, 2));
        let brief = pool.fill_briefly(&[3; 2 << 20], Receivers::Many).unwrap();
        assert_eq!(pool.usage(), (6 << 20, 3));
        for (slot, value) in [(&first, 1), (&second, 2), (&brief, 3)] {
            assert!(slot.to_bytes() == vec![value; 2 << 20]);
        }
        drop(brief);
        // One slab is prepared at a time.
        while pool.inner.lock().preparing {
            std::thread::yield_now();
        }
        let kept = pool.fill(&[4; 2 << 20], Receivers::Many).unwrap();
        assert_eq!((pool.usage(), kept.slab().slots()), ((8 << 20, 3), 1));
    }

    #[test]
    fn many_small_slots_share_a_slab() {
        let pool = pool();
        let slots: Vec<_> = (0..64).map(|_| pool.fill(&[1; 60_000], Receivers::One).unwrap()).collect();
        assert_eq!(pool.usage(), (SMALL_SLAB_BYTES, slots.len()));
    }
}
