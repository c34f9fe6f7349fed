//! The value that names registered memory in messages.

use hyperactor::id::ProcId;
use serde::{Deserialize, Serialize};

use crate::{Capability, RdmaError, Region, Rights};

/// Number of a registration in its owner. Never used again, so that a handle of memory that was released names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RegistrationId(pub u64);

/// Names a piece of registered memory of one process.
///
/// A copy is as good as the original, and none of them keeps the memory alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferHandle {
    /// The process whose memory this is.
    pub owner: ProcId,
    /// Which of the owner's registrations.
    pub registration: RegistrationId,
    /// The bytes, in the owner's address space.
    pub region: Region,
    /// What `capability` proves.
    pub rights: Rights,
    /// The secret that the owner asks for.
    pub capability: Capability,
}

impl BufferHandle {
    /// The bytes to copy out of: `size_bytes` of them, from `offset_bytes` on.
    ///
    /// # Errors
    ///
    /// As [`Region::part`].
    pub fn readable(&self, offset_bytes: u64, size_bytes: u64) -> Result<Region, RdmaError> {
        self.region.part(offset_bytes, size_bytes)
    }

    /// The bytes to copy into: `size_bytes` of them, from `offset_bytes` on.
    ///
    /// # Errors
    ///
    /// [`RdmaError::ReadOnly`] for a handle that only allows reading, otherwise as [`Region::part`].
    pub fn writable(&self, offset_bytes: u64, size_bytes: u64) -> Result<Region, RdmaError> {
        if !self.rights.can_write() {
            return Err(RdmaError::ReadOnly);
        }
        self.region.part(offset_bytes, size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use hyperactor::id::MeshId;

    use super::*;

    fn handle(rights: Rights) -> BufferHandle {
        BufferHandle {
            owner: ProcId::first(MeshId([5; 16]), 7),
            registration: RegistrationId(9),
            region: Region::new(1 << 20, 256).unwrap(),
            rights,
            capability: Capability::from_random([3; 16]),
        }
    }

    #[test]
    fn a_handle_survives_the_wire_in_less_than_64_bytes() {
        let handle = handle(Rights::ReadWrite);
        let wire = postcard::to_allocvec(&handle).unwrap();
        assert!(wire.len() < 64, "{} bytes", wire.len());
        assert_eq!(postcard::from_bytes::<BufferHandle>(&wire).unwrap(), handle);
    }

    #[test]
    fn a_read_only_handle_can_be_read_and_not_written() {
        let handle = handle(Rights::Read);
        assert_eq!(handle.readable(0, 256).unwrap(), handle.region);
        assert!(matches!(handle.writable(0, 256), Err(RdmaError::ReadOnly)));
    }

    #[test]
    fn a_transfer_stays_inside_the_handle_in_both_directions() {
        let handle = handle(Rights::ReadWrite);
        assert!(matches!(handle.readable(200, 57), Err(RdmaError::OutOfRange { .. })));
        assert!(matches!(handle.writable(200, 57), Err(RdmaError::OutOfRange { .. })));
    }
}
