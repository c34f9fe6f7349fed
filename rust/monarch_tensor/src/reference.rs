//! Names that a controller gives to what its workers hold.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A tensor that every worker of the engine holds a shard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorRef(u64);

/// A named, ordered lane of execution on every worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamRef(u64);

/// The position of an invocation in the controller's program. A failure of an earlier one is the cause of a later one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sequence(u64);

impl fmt::Display for TensorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for StreamRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// The source of names of one engine. A name is given once; references of all kinds share one counter, so that a number
/// in a log means one thing.
#[derive(Debug, Default)]
pub struct References {
    next_reference: u64,
    next_sequence: u64,
}

impl References {
    /// A name for a tensor to come.
    pub fn tensor(&mut self) -> TensorRef {
        TensorRef(take(&mut self.next_reference))
    }

    /// A name for a stream to come.
    pub fn stream(&mut self) -> StreamRef {
        StreamRef(take(&mut self.next_reference))
    }

    /// The position of the next invocation.
    pub fn sequence(&mut self) -> Sequence {
        Sequence(take(&mut self.next_sequence))
    }
}

fn take(counter: &mut u64) -> u64 {
    let taken = *counter;
    *counter += 1;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_all_kinds_have_different_numbers() {
        let mut references = References::default();
        let (tensor, stream, another) = (references.tensor(), references.stream(), references.tensor());
        assert_eq!((tensor.0, stream.0, another.0), (0, 1, 2));
    }

    #[test]
    fn a_later_invocation_has_a_greater_sequence_whatever_was_named_between() {
        let mut references = References::default();
        let first = references.sequence();
        references.tensor();
        assert!(first < references.sequence());
    }
}
