//! The keeper: one small process per agent that is the parent of every worker, reports how each ended, and ends all of
//! them and what they started when the agent's process is gone.

pub mod protocol;
