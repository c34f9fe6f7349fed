//! One-sided memory: a process registers a piece of its memory, and whoever holds the handle reads or writes it
//! without the owner's code running.
//!
//! - [`Registration`]: memory of this process that others may use, until it is released;
//! - [`BufferHandle`]: the small value that travels in messages and names it;
//! - [`Rights`] and [`Capability`]: what a handle allows, and the secret that proves it;
//! - [`Transfer`]: copies between memory here and buffers, started together;
//! - [`Backend`]: the ways of moving bytes, best first. So far there is one, between processes of one Linux host;
//! - [`RdmaError`]: why something did not happen.
//!
//! What the owner allows stands in its lease table (`table`, with the invariants), which others of its host map.
//! `unsafe` code is in `sys`, and where `transfer` is given addresses.

mod backend;
mod capability;
mod error;
mod handle;
mod peers;
mod place;
mod pool;
mod region;
mod registry;
mod sys;
mod table;
mod transfer;

pub use backend::{Backend, UnknownBackend};
pub use capability::{Capability, Rights};
pub use error::RdmaError;
pub use handle::{BufferHandle, RegistrationId};
pub use place::Place;
pub use region::Region;
pub use registry::{Registration, drops_of_others};
pub use sys::CAN_COPY;
pub use transfer::{Copy, Transfer, drop_remotely};
