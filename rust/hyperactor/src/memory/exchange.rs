//! What the two ends of one link know of each other's slabs: which were shown, what is lent, what was given back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Part;
use super::pool::{Receivers, Slot};
use super::view::{Lease, View};
use crate::link::Link;
use crate::message;
use crate::reactor::Reactor;
use crate::sys::fork::Descriptor;
use crate::sys::memory::{self, Mapping};
use crate::wire::header::{Control, Lent, MemoryNotice, MessageHeader, Returned, SlabNotice};
use crate::wire::{Frame, FrameError, Priority};

/// The memory that two processes share by one link, as one of them sees it.
pub struct Exchange {
    ours: Mutex<Ours>,
    theirs: Mutex<Theirs>,
    /// Messages wait for bytes that could not be seen.
    holds_back: AtomicBool,
    returns: Arc<Returns>,
}

/// What the peer has of our pool.
#[derive(Default)]
struct Ours {
    next_lease: u64,
    leases: HashMap<u64, Arc<Slot>>,
    shown: HashSet<u64>,
    /// The peer could not see something, or the link has ended: nothing is lent any more.
    closed: bool,
}

/// What we have of the peer's.
#[derive(Default)]
struct Theirs {
    slabs: HashMap<u64, Seen>,
    supplied: HashMap<u64, Bytes>,
    held_back: VecDeque<(MessageHeader, Vec<Waiting>)>,
}

/// A part of a message that is held back.
enum Waiting {
    Here(Part),
    /// The peer was asked for the bytes under this lease.
    Fetched(u64),
}

/// A slab of the peer's.
enum Seen {
    /// Its slots are handed over.
    Shared(Arc<Mapping>),
    /// Its slots are seen by many, each of which maps them for itself; what only reads can do so in the whole slab.
    Private(Descriptor, Option<Arc<Mapping>>),
}

/// Leases that have ended, on their way back to the peer: with the next message, or soon on their own.
pub struct Returns {
    ended: Mutex<Vec<Returned>>,
    /// A timer will send what is there.
    is_timed: AtomicBool,
    reactor: Weak<Reactor>,
    link: OnceLock<Weak<Link>>,
}

impl Exchange {
    /// Of a link that is about to be opened; nothing is shared yet.
    pub fn new(reactor: &Arc<Reactor>) -> Arc<Self> {
        Arc::new(Self {
            ours: Mutex::default(),
            theirs: Mutex::default(),
            holds_back: AtomicBool::new(false),
            returns: Arc::new(Returns {
                ended: Mutex::default(),
                is_timed: AtomicBool::new(false),
                reactor: Arc::downgrade(reactor),
                link: OnceLock::new(),
            }),
        })
    }

    /// Send a message by `link`, its slots by what says where they lie.
    pub fn send(&self, link: &Arc<Link>, mut header: MessageHeader, parts: Vec<Part>) -> Result<(), FrameError> {
        let mut notice = MemoryNotice { returned: self.returns.take(), ..MemoryNotice::default() };
        let parts = parts.into_iter().enumerate().map(|(index, part)| match part {
            Part::Slot(slot) => match self.lend(link, index, &slot) {
                Some(lent) => {
                    notice.lent.push(lent);
                    Bytes::new()
                }
                None => slot.to_bytes(),
            },
            other => other.to_bytes(),
        });
        let parts = parts.collect();
        if !notice.lent.is_empty() || !notice.returned.is_empty() {
            header.memory = Some(Box::new(notice));
        }
        link.send(&message::frame(&header, parts)?, Vec::new());
        Ok(())
    }

    /// Give the peer a lease on a slot, whose slab it is shown if it has not seen it; none where it cannot be.
    fn lend(&self, link: &Arc<Link>, part: usize, slot: &Arc<Slot>) -> Option<Lent> {
        let mut ours = self.ours.lock();
        if ours.closed {
            return None;
        }
        let slab = slot.slab();
        if !ours.shown.contains(&slab.id) {
            let descriptor = slab.descriptor().ok()?;
            let shown = SlabNotice {
                id: slab.id,
                bytes: slab.bytes() as u64,
                identity: slab.identity,
                is_handed_over: slab.receivers == Receivers::One,
            };
            tell(link, MemoryNotice { slabs: vec![shown], ..MemoryNotice::default() }, Vec::new(), vec![descriptor]);
            ours.shown.insert(slab.id);
        }
        let lease = ours.next_lease;
        ours.next_lease += 1;
        ours.leases.insert(lease, slot.clone());
        Some(Lent {
            part: u16::try_from(part).ok()?,
            slab: slab.id,
            offset: slot.offset() as u64,
            bytes: slot.len() as u64,
            lease,
        })
    }

    /// A message came by `link`: what it says about memory is heeded, and what it brings is given to `deliver`, unless a
    /// part of it, or of one before, has to be fetched first.
    pub fn accept(
        &self,
        link: &Arc<Link>,
        mut header: MessageHeader,
        parts: Vec<Bytes>,
        deliver: impl Fn(MessageHeader, Vec<Part>),
    ) {
        let notice = header.memory.take();
        if notice.is_none() && !self.holds_back.load(Ordering::Relaxed) {
            deliver(header, parts.into_iter().map(Part::Inline).collect());
            return;
        }
        let notice = notice.map(|notice| *notice).unwrap_or_default();
        self.end_leases(&notice.returned);
        let missing: Vec<u64> = {
            let mut theirs = self.theirs.lock();
            let waiting = theirs.open(parts, &notice.lent, &self.returns);
            let missing = waiting.iter().filter_map(|part| match part {
                Waiting::Fetched(lease) => Some(*lease),
                Waiting::Here(_) => None,
            });
            let missing = missing.collect();
            theirs.held_back.push_back((header, waiting));
            missing
        };
        if !missing.is_empty() {
            self.holds_back.store(true, Ordering::Relaxed);
            tell(link, MemoryNotice { missing, ..MemoryNotice::default() }, Vec::new(), Vec::new());
        }
        self.deliver_ready(deliver);
    }

    /// A frame came that is about nothing but memory.
    pub fn heed(
        &self,
        link: &Arc<Link>,
        notice: MemoryNotice,
        mut parts: Vec<Bytes>,
        descriptors: Vec<OwnedFd>,
        deliver: impl Fn(MessageHeader, Vec<Part>),
    ) {
        self.see(&notice.slabs, descriptors);
        self.end_leases(&notice.returned);
        if !notice.gone.is_empty() {
            let mut theirs = self.theirs.lock();
            notice.gone.iter().for_each(|slab| drop(theirs.slabs.remove(slab)));
        }
        for lease in notice.missing {
            self.supply(link, lease);
        }
        if let (Some(lease), Some(bytes)) = (notice.supplied, parts.pop()) {
            self.theirs.lock().supplied.insert(lease, bytes);
            self.deliver_ready(deliver);
        }
    }

    /// The peer shows slabs. Those that cannot be mapped are missed when something lies in them.
    fn see(&self, slabs: &[SlabNotice], descriptors: Vec<OwnedFd>) {
        for (slab, descriptor) in slabs.iter().zip(descriptors) {
            if !memory::identity(&descriptor).is_ok_and(|identity| identity == slab.identity) {
                continue;
            }
            let seen = if slab.is_handed_over {
                let Ok(mapping) = Mapping::shared(&descriptor, slab.bytes as usize) else { continue };
                Seen::Shared(Arc::new(mapping))
            } else {
                let whole = Mapping::readable(&descriptor, slab.bytes as usize).map(Arc::new).ok();
                Seen::Private(Descriptor::new(descriptor), whole)
            };
            self.theirs.lock().slabs.insert(slab.id, seen);
        }
    }

    /// The peer cannot see a slot: give it the bytes, and lend it nothing more.
    fn supply(&self, link: &Arc<Link>, lease: u64) {
        let slot = {
            let mut ours = self.ours.lock();
            ours.closed = true;
            ours.leases.remove(&lease)
        };
        if let Some(slot) = slot {
            let notice = MemoryNotice { supplied: Some(lease), ..MemoryNotice::default() };
            tell(link, notice, vec![slot.to_bytes()], Vec::new());
        }
    }

    fn end_leases(&self, returned: &[Returned]) {
        if returned.is_empty() {
            return;
        }
        let mut ours = self.ours.lock();
        let ended: Vec<_> = returned.iter().map(|end| (ours.leases.remove(&end.lease), end.is_retired)).collect();
        drop(ours);
        // Slots go back to the pool without a lock of ours.
        for (slot, is_retired) in ended {
            if let (Some(slot), true) = (&slot, is_retired) {
                slot.retire();
            }
        }
    }

    /// Deliver what waits, up to the first message that still lacks something.
    fn deliver_ready(&self, deliver: impl Fn(MessageHeader, Vec<Part>)) {
        loop {
            let ready = {
                let mut theirs = self.theirs.lock();
                let ready = theirs.next_ready();
                self.holds_back.store(!theirs.held_back.is_empty(), Ordering::Relaxed);
                ready
            };
            let Some((header, parts)) = ready else { return };
            deliver(header, parts);
        }
    }

    /// The link that leases are given back by.
    pub fn set_link(&self, link: &Arc<Link>) {
        let _ = self.returns.link.set(Arc::downgrade(link));
    }

    /// Slabs of ours are gone: the peer need not keep them.
    pub fn forget(&self, link: &Arc<Link>, slabs: &[u64]) {
        let gone: Vec<u64> = {
            let mut ours = self.ours.lock();
            slabs.iter().copied().filter(|slab| ours.shown.remove(slab)).collect()
        };
        if !gone.is_empty() {
            tell(link, MemoryNotice { gone, ..MemoryNotice::default() }, Vec::new(), Vec::new());
        }
    }

    /// The link has ended: what the peer had is never used again, and what we have of the peer's lives with its views.
    pub fn end(&self) {
        let leases = {
            let mut ours = self.ours.lock();
            ours.closed = true;
            std::mem::take(&mut ours.leases)
        };
        leases.values().for_each(|slot| slot.retire());
        drop(leases);
        *self.theirs.lock() = Theirs::default();
    }
}

impl Theirs {
    /// Put what lies in slabs into the places of its parts.
    fn open(&self, parts: Vec<Bytes>, lent: &[Lent], returns: &Arc<Returns>) -> Vec<Waiting> {
        let mut waiting: Vec<_> = parts.into_iter().map(|part| Waiting::Here(Part::Inline(part))).collect();
        for lent in lent {
            let Some(place) = waiting.get_mut(usize::from(lent.part)) else { continue };
            *place = match self.view(lent, returns) {
                Some(view) => Waiting::Here(Part::View(Arc::new(view))),
                None => Waiting::Fetched(lent.lease),
            };
        }
        waiting
    }

    fn view(&self, lent: &Lent, returns: &Arc<Returns>) -> Option<View> {
        let (offset, bytes) = (usize::try_from(lent.offset).ok()?, usize::try_from(lent.bytes).ok()?);
        let lease = || Lease::borrowed(returns, lent.lease);
        let fits = |whole: &Mapping| offset.checked_add(bytes).is_some_and(|end| end <= whole.len());
        match self.slabs.get(&lent.slab)? {
            Seen::Shared(whole) if fits(whole) => Some(View::new(whole.clone(), offset, bytes, lease())),
            Seen::Shared(_) => None,
            Seen::Private(descriptor, whole) => {
                let own = Arc::new(Mapping::private(descriptor, offset, bytes).ok()?);
                let whole = whole.clone().filter(|whole| fits(whole));
                Some(View::new(own, 0, bytes, lease()).with_sent(whole, offset))
            }
        }
    }

    /// The first message that waits, if nothing of it is missing.
    fn next_ready(&mut self) -> Option<(MessageHeader, Vec<Part>)> {
        let (_, waiting) = self.held_back.front()?;
        if !waiting.iter().all(|part| part.is_here(&self.supplied)) {
            return None;
        }
        let (header, waiting) = self.held_back.pop_front()?;
        let parts = waiting.into_iter().map(|part| match part {
            Waiting::Here(part) => part,
            Waiting::Fetched(lease) => Part::Inline(self.supplied.remove(&lease).unwrap_or_default()),
        });
        Some((header, parts.collect()))
    }
}

impl Waiting {
    fn is_here(&self, supplied: &HashMap<u64, Bytes>) -> bool {
        match self {
            Self::Here(_) => true,
            Self::Fetched(lease) => supplied.contains_key(lease),
        }
    }
}

impl Returns {
    /// A lease has ended. Called where objects die, so it neither waits nor sends.
    pub(super) fn push(self: &Arc<Self>, lease: u64, is_retired: bool) {
        self.ended.lock().push(Returned { lease, is_retired });
        if self.is_timed.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(reactor) = self.reactor.upgrade() else { return };
        let returns = self.clone();
        reactor.after(RETURN_DELAY, move || returns.send());
    }

    fn take(&self) -> Vec<Returned> {
        std::mem::take(&mut *self.ended.lock())
    }

    fn send(&self) {
        self.is_timed.store(false, Ordering::Relaxed);
        let returned = self.take();
        if let (false, Some(link)) = (returned.is_empty(), self.link.get().and_then(Weak::upgrade)) {
            tell(&link, MemoryNotice { returned, ..MemoryNotice::default() }, Vec::new(), Vec::new());
        }
    }
}

/// How long the end of a lease waits for a message to go with.
///
/// Long against a call, so that a dialogue needs no frames of its own; short against how long slots stay warm.
const RETURN_DELAY: Duration = Duration::from_millis(5);

fn tell(link: &Arc<Link>, notice: MemoryNotice, parts: Vec<Bytes>, descriptors: Vec<OwnedFd>) {
    // Plain data, which always encodes.
    if let Ok(mut frame) = Frame::new(Priority::Control, &Control::Memory(Box::new(notice)), parts) {
        frame.descriptors = descriptors.len() as u8;
        link.send(&frame, descriptors);
    }
}
