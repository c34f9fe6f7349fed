//! Why a registration or a transfer did not happen.

use std::io;

use thiserror::Error;

/// What can go wrong with a region, a registration or a transfer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// The caller (or a message) named a range of memory that cannot exist.
    #[error("{size_bytes} bytes at address {address:#x} are no memory region: it is empty or wraps around")]
    InvalidRegion {
        /// Where it was said to begin.
        address: u64,
        /// How long it was said to be.
        size_bytes: u64,
    },
    /// The caller asked for bytes outside the buffer.
    #[error(
        "{size_bytes} bytes from offset {offset_bytes} on are outside the buffer, which has {available_bytes} bytes"
    )]
    OutOfRange {
        /// Where the transfer would begin in the buffer.
        offset_bytes: u64,
        /// How long it would be.
        size_bytes: u64,
        /// How long the buffer is.
        available_bytes: u64,
    },
    /// The caller wants to write through a handle that only allows reading.
    #[error("the buffer of {owner} is read-only for this handle: ask its owner for a handle that allows writing")]
    ReadOnly {
        /// Whose memory it is.
        owner: String,
    },
    /// The registration has ended, or the handle proves nothing.
    #[error(
        "buffer not found: {owner} has no such buffer (any more); it was dropped, or its last object was collected"
    )]
    Gone {
        /// Whose memory it was.
        owner: String,
    },
    /// The owner's process has ended, and its memory with it.
    #[error("{owner} (pid {pid}), the owner of the buffer, has ended, and its memory with it")]
    PeerLost {
        /// Whose memory it was.
        owner: String,
        /// Its process.
        pid: i32,
    },
    /// The two processes share no way of moving bytes.
    #[error("no way to reach the memory of {owner}: {reason}")]
    NoBackend {
        /// Whose memory it is.
        owner: String,
        /// What is missing, and the way out.
        reason: String,
    },
    /// The system refused to copy, for a reason that is neither's end.
    #[error("copying {direction} the memory of {owner} failed: {source}")]
    Copy {
        /// `from` or `to`.
        direction: &'static str,
        /// Whose memory it is.
        owner: String,
        /// What the system says.
        source: io::Error,
    },
    /// The time was over before the last byte had moved.
    #[error("the transfer timed out: {done_bytes} of {bytes} bytes had moved")]
    TimedOut {
        /// What had moved by then.
        done_bytes: u64,
        /// What was to move.
        bytes: u64,
    },
    /// Somebody gave the transfer up.
    #[error("the transfer was cancelled")]
    Cancelled,
    /// There is no room for another registration.
    #[error("{limit} buffers are registered in this process, which is the most: drop some, or register larger pieces")]
    Full {
        /// The most that there can be.
        limit: usize,
    },
    /// The system refused what registrations need.
    #[error("memory for registrations cannot be had: {0}")]
    System(#[from] io::Error),
}
