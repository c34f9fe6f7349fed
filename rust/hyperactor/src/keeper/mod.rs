//! The keeper: one small process per agent that is the parent of every worker, reports how each ended, and ends all of
//! them and what they started when the agent's process is gone.
//!
//! The agent's side is [`start`], which gives it a socket that carries [`protocol`] as frames; the keeper's side is
//! [`run`]. A keeper that is a [`Template`], too, starts workers as copies of itself. Without an agent a keeper ends by itself, so whoever closes the socket or dies needs to do nothing else.

pub mod protocol;

mod agent;
mod channel;
mod client;
mod launch;
mod server;
mod starter;
mod template;
mod variant;
mod workers;

pub use client::{KeeperCommand, KeeperProcess, start};
pub use launch::Fork;
pub use server::run;
pub use template::{Birth, End, Load, Template};
pub use variant::serve_variant;

use std::fmt::Display;
use std::io::{self, Write};

/// A message for the log of the agent, if anybody still reads it.
fn complain(what: &str, error: &dyn Display) {
    let _ = writeln!(io::stderr(), "monarch keeper {}: {what}: {error}", std::process::id());
}
