//! What the agents of two hosts say to each other over an edge, beside the messages that they pass on.
//!
//! The client's agent is the *hub*: it attaches hosts, and all of them meet there. A host has one edge, to its hub.
//! Positional (postcard): enums only grow at the end.

use serde::{Deserialize, Serialize};

use crate::death::Death;
use crate::id::{MeshId, ProcId};
use crate::logs::{LogChange, Said};
use crate::wire::header::{RespawnProcs, Sender, SpawnProcs, StopProcs};

/// Why a host cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// Whether nobody listens there: its program may just be starting.
    pub is_nobody_there: bool,
    /// In words.
    pub reason: String,
}

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
        /// The name of its run, under which hosts keep the output of processes.
        run: String,
        /// What its code has set of the keys that matter to hosts: names, and values as variables have them.
        settings: Vec<(String, String)>,
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
        /// How long processes may take before they are killed.
        grace_ms: u64,
    },
    /// Host to hub: what its processes print. The text of the lines is the frame's part.
    Output(Vec<Said>),
    /// Hub to host: so much of what it said is shown.
    Taken(u64),
    /// Either way: treat the output of a mesh otherwise. Hub to host: its part of it.
    ChangeLogs {
        /// Which mesh.
        mesh: MeshId,
        /// How.
        change: LogChange,
    },
    /// Hub to host: answer by [`Net::Flushed`] when all that was printed until now has been said.
    Flush(u64),
    /// Host to hub: that is done.
    Flushed(u64),
    /// Hub to host, which has the place of one that was lost: these processes were there, and may be respawned here. What
    /// they are given to start with is the frame's part.
    Adopt {
        /// Its part of a mesh.
        spawn: Box<SpawnProcs>,
        /// The generation of each that was lost.
        generations: Vec<u32>,
        /// The name of the lost host.
        lost: String,
    },
    /// Client to host, in the place of [`Net::Attach`]: pass this connection on to another host. Answered by
    /// [`Net::Relayed`].
    Relay {
        /// Where that listens.
        address: String,
    },
    /// Host to client: what follows goes there, or why it cannot.
    Relayed(Result<(), Unreachable>),
}
