//! The value that names registered memory in messages.

use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::{Capability, RdmaError, Rights};

/// Number of a registration in its owner: a row of the lease table, and how often it was used before. Never given twice,
/// so that a handle of memory that was released names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RegistrationId {
    pub(crate) row: u32,
    pub(crate) generation: u32,
}

/// Names a piece of registered memory of one process.
///
/// A copy is as good as the original, and none of them keeps the memory alive. It has no address: only the owner's table
/// says where the memory lies, for as long as it may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferHandle {
    /// Whose memory it is, in words.
    pub owner: String,
    /// Where its lease table is found.
    pub place: Place,
    /// Which of the owner's registrations.
    pub registration: RegistrationId,
    /// How long the memory is.
    pub size_bytes: u64,
    /// What `capability` proves.
    pub rights: Rights,
    /// The secret for those rights.
    pub capability: Capability,
}

impl BufferHandle {
    /// Check that `size_bytes` bytes from `offset_bytes` on can be read, or written to.
    ///
    /// # Errors
    ///
    /// [`RdmaError::ReadOnly`] for writing with a handle that only allows reading, [`RdmaError::OutOfRange`].
    pub fn check(&self, offset_bytes: u64, size_bytes: u64, writes: bool) -> Result<(), RdmaError> {
        if writes && !self.rights.can_write() {
            return Err(RdmaError::ReadOnly { owner: self.owner.clone() });
        }
        match offset_bytes.checked_add(size_bytes) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(RdmaError::OutOfRange { offset_bytes, size_bytes, available_bytes: self.size_bytes }),
        }
    }

    /// As it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a handle of plain values can be written")
    }

    /// What [`BufferHandle::to_bytes`] gave; None for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(rights: Rights) -> BufferHandle {
        BufferHandle {
            owner: "trainers-3".to_owned(),
            place: Place { host: [1; 16], namespace: 1 << 31, pid: 12345, fd: 17, nonce: [2; 16] },
            registration: RegistrationId { row: 9, generation: 3 },
            size_bytes: 256,
            rights,
            capability: Capability::from_random([3; 16]),
        }
    }

    #[test]
    fn a_handle_survives_the_wire_in_less_than_100_bytes() {
        let handle = handle(Rights::ReadWrite);
        let wire = handle.to_bytes();
        assert!(wire.len() < 100, "{} bytes", wire.len());
        assert_eq!(BufferHandle::from_bytes(&wire), Some(handle));
        assert_eq!(BufferHandle::from_bytes(&wire[..wire.len() - 1]), None);
    }

    #[test]
    fn a_read_only_handle_can_be_read_and_not_written() {
        let handle = handle(Rights::Read);
        assert!(handle.check(0, 256, false).is_ok());
        assert!(matches!(handle.check(0, 256, true), Err(RdmaError::ReadOnly { .. })));
    }

    #[test]
    fn a_transfer_stays_inside_the_handle_in_both_directions() {
        for writes in [false, true] {
            for (offset, size) in [(200, 57), (257, 0), (u64::MAX, 2)] {
                let checked = handle(Rights::ReadWrite).check(offset, size, writes);
                assert!(matches!(checked, Err(RdmaError::OutOfRange { available_bytes: 256, .. })));
            }
        }
    }
}
