//! What can go wrong in the runtime, by who is to blame.

use std::io;

use crate::flow::Limits;
use crate::wire::FrameError;

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A send waits in vain: its receiver waits for the sender, and the hard limit does not allow more.
    #[error(
        "{under_way} bytes wait at a process whose actors wait for this sender, directly or through others: the message \
         of {cost} bytes would be beyond send_hard_limit_bytes, which is {}. Let one of them receive before it sends \
         more, or raise that limit", limits.hard
    )]
    BackPressure {
        /// What was sent and is not served.
        under_way: u64,
        /// What the message would add.
        cost: u64,
        /// What is allowed.
        limits: Limits,
    },
    /// The caller used the runtime after its end.
    #[error("this process's runtime was shut down; start a new program to use it again")]
    Closed,
    /// The caller is a forked child.
    #[error(
        "this process was forked from one that uses monarch; a fork does not inherit its threads and links. \
         Start processes with `spawn_procs`, with `subprocess`, or with multiprocessing's \"spawn\" or \"forkserver\""
    )]
    Forked,
    /// The peer broke the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The machine's limits do not allow it.
    #[error(
        "{what} needs {needed} {resource}, but {limit} allows {allowed}; raise it to at least {needed} with `{remedy}`"
    )]
    Limit {
        /// What was asked for.
        what: String,
        /// What it takes.
        resource: &'static str,
        /// How much of it.
        needed: u64,
        /// The limit's name.
        limit: String,
        /// Its value.
        allowed: u64,
        /// How to raise it.
        remedy: String,
    },
    /// The caller misused the runtime.
    #[error("{0}")]
    Misuse(String),
    /// A system call failed.
    #[error("cannot {verb}: {source}")]
    System {
        /// What was tried.
        verb: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Kernel randomness is not to be had.
    #[error("cannot draw an identity: {0}")]
    Random(#[from] getrandom::Error),
}

/// The crate's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failed system call.
    pub fn system(verb: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { verb: verb.into(), source: source.into() }
    }
}
