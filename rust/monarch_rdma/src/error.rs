//! Why a transfer did not happen.

use thiserror::Error;

/// What can be wrong with a region or a transfer, as far as the values themselves can tell.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
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
    #[error("the buffer is read-only for this handle: ask its owner for a handle that allows writing")]
    ReadOnly,
}
