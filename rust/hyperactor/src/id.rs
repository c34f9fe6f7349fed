//! Identities. They never carry a readable label, so two things that were named alike are still two things.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process mesh: 128 random bits, drawn by whoever creates it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MeshId(#[serde(with = "serde_bytes")] pub [u8; 16]);

/// An actor mesh: 128 random bits, the same in every process that has a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActorId(#[serde(with = "serde_bytes")] pub [u8; 16]);

/// One process: its place in a mesh, and which of the processes that held this place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcId {
    /// The mesh that the process belongs to.
    pub mesh: MeshId,
    /// The place in that mesh, row-major.
    pub rank: u32,
    /// How many processes held this place before. A receiver refuses frames for another generation.
    pub generation: u32,
}

/// A place in a mesh, whichever process holds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Place {
    /// The mesh.
    pub mesh: MeshId,
    /// The place in it, row-major.
    pub rank: u32,
}

/// Where the answers to one call are collected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PortId {
    /// The process that made the call.
    pub proc: ProcId,
    /// Unique in that process; never used twice.
    pub index: u64,
}

/// Under this id every process answers requests to itself.
pub const PROCESS_ACTOR: ActorId = ActorId([0; 16]);

/// Under this id every process tells what its threads are doing: see [`crate::stacks`].
pub const STACKS_ACTOR: ActorId = ActorId([1; 16]);

/// The actor under which processes tell each other how much of what was sent is served.
pub const FLOW_ACTOR: ActorId = ActorId([2; 16]);

impl MeshId {
    /// A new identity from the kernel's generator, which a fork does not copy.
    pub fn random() -> Result<Self, getrandom::Error> {
        random_bytes().map(Self)
    }
}

impl PortId {
    /// As bytes that travel.
    pub fn to_bytes(self) -> Vec<u8> {
        // Plain data of fixed shape, which always encodes.
        postcard::to_allocvec(&self).unwrap_or_default()
    }

    /// From what [`PortId::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

impl ProcId {
    /// The first process at a place.
    pub fn first(mesh: MeshId, rank: u32) -> Self {
        Self { mesh, rank, generation: 0 }
    }

    /// The process that takes its place when it is dead.
    pub fn next(self) -> Self {
        Self { generation: self.generation + 1, ..self }
    }

    /// Its place.
    pub fn place(self) -> Place {
        Place { mesh: self.mesh, rank: self.rank }
    }

    /// Whether this is `other`, or held its place before.
    pub fn is_or_was_before(self, other: Self) -> bool {
        self.place() == other.place() && self.generation <= other.generation
    }
}

/// 16 bytes from the kernel's generator.
pub fn random_bytes() -> Result<[u8; 16], getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn write_hex(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().take(6).try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Debug for MeshId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}]", self.mesh, self.rank)?;
        if self.generation > 0 {
            write!(f, "#{}", self.generation)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_random_meshes_differ() {
        assert_ne!(MeshId::random().unwrap(), MeshId::random().unwrap());
    }

    #[test]
    fn a_port_survives_its_bytes_and_garbage_is_none() {
        let port = PortId { proc: ProcId::first(MeshId([7; 16]), 3), index: 1 << 40 };
        assert_eq!(PortId::from_bytes(&port.to_bytes()), Some(port));
        assert_eq!(PortId::from_bytes(b"short"), None);
    }

    #[test]
    fn another_generation_is_another_process() {
        let mesh = MeshId([7; 16]);
        let old = ProcId::first(mesh, 3);
        assert_ne!(old, ProcId { generation: 1, ..old });
    }
}
