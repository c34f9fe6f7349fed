//! What a handle allows, and the secret that proves it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the holder of a handle may do with the memory it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rights {
    /// Copy out of the memory. What read-only memory gives.
    Read,
    /// Copy out of and into the memory.
    ReadWrite,
}

impl Rights {
    /// Whether the holder may copy into the memory.
    pub fn can_write(self) -> bool {
        matches!(self, Self::ReadWrite)
    }
}

/// An unguessable key: 128 bits that its maker drew from the kernel, one for each registration and kind of right.
///
/// Whoever holds it may use the memory, so it is never shown: `Debug` prints no byte of it, and a comparison takes the
/// same time wherever two keys differ.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Capability([u8; 16]);

impl Capability {
    /// The key made of `bytes`, which must be random.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A new key, from the kernel.
    ///
    /// # Errors
    ///
    /// Where the kernel gives no random bytes.
    pub fn draw() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        u128::from_ne_bytes(self.0) ^ u128::from_ne_bytes(other.0) == 0
    }
}

impl Eq for Capability {}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Capability(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_equal_only_if_every_byte_is() {
        let key = Capability::from_random([7; 16]);
        assert_eq!(key, Capability::from_random([7; 16]));
        for position in 0..16 {
            let mut other = [7; 16];
            other[position] = 8;
            assert_ne!(key, Capability::from_random(other));
        }
    }

    #[test]
    fn debug_output_shows_no_byte_of_a_capability() {
        assert_eq!(format!("{:?}", Capability::from_random([0xab; 16])), "Capability(..)");
    }

    #[test]
    fn only_read_write_allows_writing() {
        assert!(Rights::ReadWrite.can_write());
        assert!(!Rights::Read.can_write());
    }
}
