//! Distributed tensors: one controller describes the work, every worker of a mesh does it on its own shard.
//!
//! This release holds the vocabulary of that conversation, and no engine yet:
//!
//! - [`TensorRef`], [`StreamRef`] and [`Sequence`]: how controller and workers name tensors, lanes and invocations
//!   without waiting for each other;
//! - [`References`]: hands those names out;
//! - [`Command`]: what a controller tells its workers.
//!
//! Nothing here knows torch: an operation is a name, its arguments are bytes that the workers' Python side made.
#![forbid(unsafe_code)]

mod command;
mod reference;

pub use command::Command;
pub use reference::{References, Sequence, StreamRef, TensorRef};
