//! The headers of frames, by kind of link. Positional (postcard): enums only grow at the end.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::death::Death;
use crate::id::{ActorId, MeshId, PortId, ProcId};
use crate::logs::{LogChange, LogOptions};

/// The header of a frame between two processes that run actors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageHeader {
    /// Who shall get it.
    pub destination: Destination,
    /// Which actor sent it.
    pub sender: Sender,
    /// What it is.
    pub kind: Kind,
    /// Request: place of the receiver in the view as addressed. Answer: place of who answers.
    pub rank: u32,
    /// Request: where answers go, if anywhere. Cancellation: the call that is cancelled.
    pub reply: Option<PortId>,
    /// Position in the stream from the sending to the receiving process.
    pub sequence: u64,
    /// The route that the sender took it to be on; raised when a gateway dies.
    pub epoch: u32,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// An actor's mailbox.
    Actor(ProcId, ActorId),
    /// The place where the answers to a call are collected.
    Port(PortId),
}

impl Destination {
    /// The process that it lies in.
    pub fn proc(&self) -> ProcId {
        match self {
            Self::Actor(proc, _) => *proc,
            Self::Port(port) => port.proc,
        }
    }
}

/// The actor that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Its process.
    pub proc: ProcId,
    /// The actor in it.
    pub actor: ActorId,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A request to an actor.
    Call,
    /// An answer: a result.
    Value,
    /// An answer: an exception.
    Error,
    /// An answer in place of one that cannot come.
    Dead(Box<Death>),
    /// The caller no longer wants its answer.
    Cancel,
    /// Never on a link: tells a process of the end of another one.
    Death(Box<Death>),
}

/// The header of a frame between an agent and a process that it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Agent to process, first of all: who you are. Carries the link to the agent's own process, and as its part what
    /// the process was given to start with.
    Welcome {
        /// The process's identity.
        proc: ProcId,
        /// The process that the agent lives in.
        agent: ProcId,
        /// The host's name.
        host: String,
    },
    /// Agent to process: carries a link to `peer`.
    Link {
        /// Who is at its other end.
        peer: ProcId,
    },
    /// Agent to process: a process that it has to do with ended, or never was.
    Died(Box<Death>),
    /// Agent to process: end now.
    Stop,
    /// Process to agent: start a mesh that the process owns.
    Spawn(Box<SpawnProcs>),
    /// Process to agent: end a mesh.
    StopProcs(StopProcs),
    /// Process to agent: a link to `peer` is needed.
    Connect {
        /// To whom.
        peer: ProcId,
    },
    /// Process to agent: send a signal to a process.
    Signal {
        /// Which process.
        proc: ProcId,
        /// Signal number.
        signal: i32,
    },
    /// Process to agent: put new processes in the places of dead ones.
    Respawn(RespawnProcs),
    /// Process to agent: kill a process that something could not be stopped in.
    KillForStop {
        /// Which process.
        proc: ProcId,
        /// What that was, for whoever has something else there.
        reason: String,
    },
    /// Agent to process: what it asked for is done.
    Answered {
        /// Where it waits for that.
        port: PortId,
    },
    /// Process to agent: treat the output of a mesh otherwise from now on.
    ChangeLogs {
        /// Which mesh.
        mesh: MeshId,
        /// How.
        change: LogChange,
    },
}

/// Start the processes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnProcs {
    /// The new mesh.
    pub mesh: MeshId,
    /// Its label.
    pub name: String,
    /// How many processes.
    pub count: u32,
    /// The actor that owns it.
    pub owner: Sender,
    /// The program that each process runs.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: OsString,
    /// How the output of the processes is treated.
    pub logs: LogOptions,
    /// What it would be good to have loaded already in them, see [`Launch`](crate::keeper::protocol::Launch).
    pub variant: String,
    /// What each process is given to start with.
    #[serde(skip)]
    pub welcome: bytes::Bytes,
}

/// End the processes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopProcs {
    /// Which mesh.
    pub mesh: MeshId,
    /// Why, for whoever calls its members later.
    pub reason: String,
    /// How long processes may take before they are killed.
    pub grace_ms: u64,
    /// Who is told when all have ended.
    pub reply: PortId,
}

/// Put new processes in the places of dead ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RespawnProcs {
    /// Which mesh.
    pub mesh: MeshId,
    /// Which places, their processes dead or not; none: all whose process is dead.
    pub ranks: Option<Vec<u32>>,
    /// Who is told when the new processes run.
    pub reply: PortId,
}
