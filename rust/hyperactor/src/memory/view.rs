//! Views: what a receiver has of a slot, and what ends with them.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::exchange::Returns;
use super::pool::Slot;
use crate::sys::fork;
use crate::sys::memory::Mapping;

/// Memory of this process's address space that one receiver has to itself, until it drops it.
pub struct View {
    memory: Arc<Mapping>,
    offset: usize,
    bytes: usize,
    /// Where it can be read as it was sent, in memory that is warm.
    sent: Option<(Arc<Mapping>, usize)>,
    /// Ends with the view.
    _lease: Lease,
}

/// The right to see a slot.
pub(super) enum Lease {
    /// Of this process's own pool.
    Own { slot: Arc<Slot>, forks: u64 },
    /// Of another process's.
    Borrowed { returns: Arc<Returns>, id: u64, forks: u64 },
}

impl View {
    /// What a receiver in this process has of a slot.
    ///
    /// Fails where the system lets nothing more be mapped.
    pub fn of_own(slot: Arc<Slot>) -> io::Result<Self> {
        let (memory, offset) = slot.own_mapping()?;
        let lease = Lease::Own { slot: slot.clone(), forks: fork::forks() };
        Ok(Self::new(memory, offset, slot.len(), lease))
    }

    pub(super) fn new(memory: Arc<Mapping>, offset: usize, bytes: usize, lease: Lease) -> Self {
        Self { memory, offset, bytes, sent: None, _lease: lease }
    }

    /// Of memory that others see too, who read what was sent at `offset` of `sent`.
    pub(super) fn with_sent(self, sent: Option<Arc<Mapping>>, offset: usize) -> Self {
        Self { sent: sent.map(|sent| (sent, offset)), ..self }
    }

    /// Where it starts; valid for reads and writes of [`View::len`] bytes as long as the view lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.at(self.offset)
    }

    /// Where what was sent can be read as long as the view lives and nobody has written to it.
    ///
    /// A private mapping is new with each message and has no pages yet; this one lasts as long as the slab.
    pub fn sent_ptr(&self) -> *const u8 {
        self.sent.as_ref().map_or_else(|| self.as_ptr(), |(sent, offset)| sent.at(*offset))
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A copy of what it holds now.
    pub fn to_vec(&self) -> Vec<u8> {
        self.memory.read(self.offset..self.offset + self.bytes)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.bytes)
    }
}

impl Lease {
    pub(super) fn borrowed(returns: &Arc<Returns>, id: u64) -> Self {
        Self::Borrowed { returns: returns.clone(), id, forks: fork::forks() }
    }
}

impl Drop for Lease {
    /// What a child was forked with it goes on seeing.
    fn drop(&mut self) {
        if fork::is_forked_child() {
            return;
        }
        match self {
            Self::Own { slot, forks } if fork::forks() != *forks => slot.retire(),
            Self::Own { .. } => {}
            Self::Borrowed { returns, id, forks } => returns.push(*id, fork::forks() != *forks),
        }
    }
}
