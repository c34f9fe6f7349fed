//! The keeper: one small process per agent that is the parent of every worker, reports how each ended, and ends all of
//! them and what they started when the agent's process is gone.
//!
//! The agent's side is [`start`], which gives it a socket that carries [`protocol`] as frames; the keeper's side is
//! [`run`]. Without an agent a keeper ends by itself, so whoever closes the socket or dies needs to do nothing else.

pub mod protocol;

mod agent;
mod channel;
mod client;
mod launch;
mod server;
mod workers;

pub use client::{KeeperCommand, KeeperProcess, start};
pub use server::run;
