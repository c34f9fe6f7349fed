//! What the agents of two hosts say to each other over an edge, beside the messages that they pass on.
//!
//! The client's agent is the *hub*: it attaches hosts, and all of them meet there. A host has one edge, to its hub.
//! Positional (postcard): enums only grow at the end.

use serde::{Deserialize, Serialize};

use crate::death::Death;
use crate::id::{MeshId, ProcId};
use crate::wire::header::{RespawnProcs, Sender, SpawnProcs, StopProcs};

/// One word between agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Net {
    /// Hub to host, first of all: serve this client.
    Attach {
        /// The host's identity from now on.
        host: MeshId,
        /// The client's process.
        hub: ProcId,
        /// Who the client is, for a person.
        client: String,
    },
    /// Host to hub: it serves.
    Attached {
        /// The host's name.
        name: String,
    },
    /// Host to hub: it does not serve, and why.
    Refused(String),
    /// Hub to host: start these processes. Host to hub: have these processes started, for one of its own. What they are
    /// given to start with is the frame's part.
    Spawn(Box<SpawnProcs>),
    /// Either way: end a mesh. Hub to host: its part of it, answered by [`Net::Done`].
    Stop(StopProcs),
    /// Either way: put new processes in the places of dead ones. Hub to host: answered by [`Net::Done`], for each rank.
    Respawn(RespawnProcs),
    /// Host to hub: a request of the hub's was fulfilled.
    Done(u64),
    /// Either way: send a signal to a process.
    Signal {
        /// Which process.
        proc: ProcId,
        /// Signal number.
        signal: i32,
    },
    /// Host to hub: a process runs.
    Started {
        /// Which process.
        proc: ProcId,
        /// Its process id.
        pid: i32,
    },
    /// Either way: a process ended.
    Died(Box<Death>),
    /// Either way: this process took the place of a dead one.
    Succeeded(ProcId),
    /// Host to hub: one of its processes started a mesh on it.
    Announce {
        /// The mesh.
        mesh: MeshId,
        /// Its label.
        name: String,
        /// How many processes.
        count: u32,
        /// Who owns it.
        owner: Sender,
    },
    /// Host to hub: where is this mesh? Answered by [`Net::Located`] once it is known to be anywhere.
    Locate(MeshId),
    /// Hub to host: it lies beyond this edge. With the ranks whose first process was replaced, and its generation now.
    Located(MeshId, Vec<(u32, u32)>),
    /// Hub to host: the owner of a mesh is dead.
    Orphaned(MeshId),
    /// Hub to host: end all processes, answer by [`Net::Done`], and serve no more: this client, or anybody.
    Release {
        /// What to answer.
        request: u64,
        /// Whether the host's program shall end.
        exit: bool,
    },
}
