//! Memory that carries large buffers between the processes of one host, so that the sender's copy is the only one.
//!
//! A sender copies a buffer into a *slot* of a *slab* (memory behind a descriptor, see [`crate::sys::memory`]) of its
//! [`pool::Pool`], and sends where it lies. The descriptor travels once for each slab and receiver. What only one
//! receiver gets is handed over to it: it maps the slab, and reads and writes the slot itself. What many get each of them
//! maps privately: they see the sender's copy, and what one writes only it sees.
//!
//! # Invariants
//! - **SLAB-1** A slot is written by the pool's process only while nobody else has a lease on it.
//! - **SLAB-2** A lease ends when the last view of the slot dies at the receiver, or with the link. Only a lease that was
//!   returned makes its slot free again: memory of a receiver that died, or that was forked meanwhile, is never used
//!   again, for others may still see it.
//! - **SLAB-3** Nobody ever waits for memory: what finds no slot, no descriptor or no room travels inside its frame.
//! - **SLAB-4** Memory lives as long as anybody has it mapped, and no longer: it has no name.

pub mod exchange;
pub mod pool;
pub mod view;

use std::sync::Arc;

use bytes::Bytes;

pub use pool::{Pool, Slot};
pub use view::View;

/// A part of a message: the bytes themselves, or where they lie.
#[derive(Clone, Debug)]
pub enum Part {
    /// Travels inside the frame.
    Inline(Bytes),
    /// Lies in this process's pool.
    Slot(Arc<Slot>),
    /// Lies in memory that this process has a lease on; taken by whoever takes the message's buffers.
    View(Arc<View>),
}

impl Part {
    /// The bytes, which are copied only where they lie in memory of another process.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Inline(bytes) => bytes.clone(),
            Self::Slot(slot) => slot.to_bytes(),
            Self::View(view) => view.to_vec().into(),
        }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Slot(slot) => slot.len(),
            Self::View(view) => view.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Part {
    fn from(bytes: Bytes) -> Self {
        Self::Inline(bytes)
    }
}
