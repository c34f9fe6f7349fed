//! Ranges of a process's memory.

use serde::{Deserialize, Serialize};

use crate::RdmaError;

/// A range of bytes in the address space of one process: never empty, never past the end of the address space.
///
/// Both hold for one that came in a message, too: a violation is an error of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64)", into = "(u64, u64)")]
pub struct Region {
    address: u64,
    size_bytes: u64,
}

impl Region {
    /// The `size_bytes` bytes from `address` on.
    ///
    /// # Errors
    ///
    /// [`RdmaError::InvalidRegion`] if it is empty or would wrap around the address space.
    pub fn new(address: u64, size_bytes: u64) -> Result<Self, RdmaError> {
        if size_bytes == 0 || address.checked_add(size_bytes).is_none() {
            return Err(RdmaError::InvalidRegion { address, size_bytes });
        }
        Ok(Self { address, size_bytes })
    }

    /// Where it begins, in the owner's address space.
    pub fn address(self) -> u64 {
        self.address
    }

    /// How long it is; at least 1.
    pub fn size_bytes(self) -> u64 {
        self.size_bytes
    }

    /// The `size_bytes` bytes that begin `offset_bytes` into this region.
    ///
    /// # Errors
    ///
    /// [`RdmaError::OutOfRange`] if they are not all inside; [`RdmaError::InvalidRegion`] if there are none.
    pub fn part(self, offset_bytes: u64, size_bytes: u64) -> Result<Self, RdmaError> {
        match offset_bytes.checked_add(size_bytes) {
            Some(end) if end <= self.size_bytes => Self::new(self.address + offset_bytes, size_bytes),
            _ => Err(RdmaError::OutOfRange { offset_bytes, size_bytes, available_bytes: self.size_bytes }),
        }
    }
}

impl TryFrom<(u64, u64)> for Region {
    type Error = RdmaError;

    fn try_from((address, size_bytes): (u64, u64)) -> Result<Self, Self::Error> {
        Self::new(address, size_bytes)
    }
}

impl From<Region> for (u64, u64) {
    fn from(region: Region) -> Self {
        (region.address, region.size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_region_is_refused() {
        assert!(matches!(Region::new(4096, 0), Err(RdmaError::InvalidRegion { .. })));
    }

    #[test]
    fn a_region_that_wraps_around_the_address_space_is_refused() {
        assert!(matches!(Region::new(u64::MAX, 1), Err(RdmaError::InvalidRegion { .. })));
        assert!(Region::new(u64::MAX - 1, 1).is_ok());
    }

    #[test]
    fn a_part_lies_at_its_offset() {
        let region = Region::new(1000, 100).unwrap();
        assert_eq!(region.part(20, 80).unwrap(), Region::new(1020, 80).unwrap());
        assert_eq!(region.part(0, 100).unwrap(), region);
    }

    #[test]
    fn a_part_that_reaches_beyond_the_region_is_out_of_range() {
        let region = Region::new(1000, 100).unwrap();
        for (offset_bytes, size_bytes) in [(20, 81), (101, 1), (u64::MAX, 2)] {
            let error = region.part(offset_bytes, size_bytes).unwrap_err();
            assert!(matches!(error, RdmaError::OutOfRange { available_bytes: 100, .. }), "{error}");
        }
    }

    #[test]
    fn a_region_survives_the_wire() {
        let region = Region::new(1 << 40, 1 << 30).unwrap();
        let wire = postcard::to_allocvec(&region).unwrap();
        assert_eq!(postcard::from_bytes::<Region>(&wire).unwrap(), region);
    }

    #[test]
    fn an_invalid_region_from_the_wire_is_an_error_of_the_decoder() {
        let wire = postcard::to_allocvec(&(u64::MAX, 16u64)).unwrap();
        assert!(postcard::from_bytes::<Region>(&wire).is_err());
    }
}
