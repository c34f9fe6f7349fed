//! The actor runtime of Monarch: identities, framed links, mailboxes, replies, processes and the keeper that ends them.
//!
//! The main types are [`runtime::Runtime`] (one per process), [`targets::Targets`] (whom to send to),
//! [`mailbox::Mailbox`] (where requests arrive) and [`replies::Replies`] (the answers to one call).
//!
//! This crate never knows that Python exists: payloads are bytes, and whoever waits may pass a check that interrupts
//! the wait. Only [`sys`] contains `unsafe` code.

pub mod agent;
pub mod cast;
pub mod death;
pub mod error;
pub mod flow;
pub mod id;
#[cfg(all(test, shuttle))]
mod interleavings;
pub mod keeper;
pub mod link;
pub mod logs;
pub mod mailbox;
pub mod memory;
pub mod message;
pub mod named;
pub mod net;
pub mod notifier;
pub mod ownership;
pub mod park;
pub mod peer;
pub mod reactor;
mod remembered;
pub mod replies;
pub mod runtime;
pub mod stacks;
mod sync;
pub mod sys;
pub mod targets;
pub mod wire;
