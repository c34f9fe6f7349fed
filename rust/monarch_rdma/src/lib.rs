//! One-sided memory: a process registers a piece of its memory, and whoever holds the handle reads or writes it
//! without the owner's code running.
//!
//! This release holds the vocabulary that the transfers will share, and no transfer yet:
//!
//! - [`Region`]: a range of bytes that cannot be empty or wrap around the address space;
//! - [`BufferHandle`]: the small value that travels in messages and names a registered region;
//! - [`Rights`] and [`Capability`]: what a handle allows, and the secret that proves it;
//! - [`Backend`]: the ways of moving bytes, best first, and how a pair of processes agrees on one;
//! - [`RdmaError`]: why a transfer did not happen.
#![forbid(unsafe_code)]

mod backend;
mod capability;
mod error;
mod handle;
mod region;

pub use backend::{Backend, UnknownBackend};
pub use capability::{Capability, Rights};
pub use error::RdmaError;
pub use handle::{BufferHandle, RegistrationId};
pub use region::Region;
