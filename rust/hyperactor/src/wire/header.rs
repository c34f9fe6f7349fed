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
    /// What it says about memory that the two processes share. A message that leaves the host says nothing of it.
    pub memory: Option<Box<MemoryNotice>>,
}

/// What one process tells another about memory of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNotice {
    /// Slabs of the sender's, whose descriptors come with the frame.
    pub slabs: Vec<SlabNotice>,
    /// Parts of the message that lie in slabs of the sender's.
    pub lent: Vec<Lent>,
    /// Leases on the receiver's slots that have ended.
    pub returned: Vec<Returned>,
    /// Slabs of the sender's that are gone.
    pub gone: Vec<u64>,
    /// Leases on the receiver's slots that could not be seen: their bytes are wanted instead.
    pub missing: Vec<u64>,
    /// The lease whose bytes are the frame's part.
    pub supplied: Option<u64>,
}

/// Memory that a process shows to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlabNotice {
    /// Its name; never used twice by one process.
    pub id: u64,
    /// Its length.
    pub bytes: u64,
    /// Tells the right descriptor from a wrong one: where a limit lets one get lost, the next would take its place.
    pub identity: u64,
    /// Whether the receiver sees a slot alone, and may write to it.
    pub is_handed_over: bool,
}

/// A part of a message in a slab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent {
    /// Which part.
    pub part: u16,
    /// In which slab.
    pub slab: u64,
    /// Where in it.
    pub offset: u64,
    /// How long.
    pub bytes: u64,
    /// Under which name it is given back.
    pub lease: u64,
}

/// The end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Which lease.
    pub lease: u64,
    /// Whether others may still see the memory.
    pub is_retired: bool,
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
    /// A request to many: the first part says to whom, see [`crate::cast`].
    Cast,
    /// Many answers to calls of one process, see [`crate::cast::Batcher`].
    Batch,
    /// One answer in the place of those of so many members.
    Combined(u64),
}

impl Kind {
    /// Whether it stands for the messages of many: gateways take that apart.
    pub fn is_for_many(&self) -> bool {
        matches!(self, Self::Cast | Self::Batch | Self::Combined(_))
    }
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
        /// From which level on it logs, where that was set.
        log_level: Option<u8>,
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
    /// Agent to process, on the link that messages take: this process is reached by the agent as its gateway.
    Route {
        /// Who is reached.
        peer: ProcId,
    },
    /// Process to process, on the link that messages take: word of memory that has no message to go with.
    Memory(Box<MemoryNotice>),
}

/// Start the processes of a mesh, or those of them that lie on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnProcs {
    /// The new mesh.
    pub mesh: MeshId,
    /// Its label.
    pub name: String,
    /// The first rank to start.
    pub first: u32,
    /// How many processes.
    pub count: u32,
    /// How many the mesh has, on all hosts.
    pub size: u32,
    /// The hosts that they are spread over, in order; none: the host of whoever spawns.
    pub hosts: Vec<MeshId>,
    /// The actor that owns it.
    pub owner: Sender,
    /// What each process runs: one command for all, or one for each.
    pub commands: Vec<ProcCommand>,
    /// How the output of the processes is treated.
    pub logs: LogOptions,
    /// The directory of their files among those of the run; empty: to be chosen.
    pub folder: String,
    /// What it would be good to have loaded already in them, see [`Launch`](crate::keeper::protocol::Launch).
    pub variant: String,
    /// What each process is given to start with.
    #[serde(skip)]
    pub welcome: bytes::Bytes,
}

impl SpawnProcs {
    /// The ranks to start.
    pub fn ranks(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }

    /// What one of its hosts starts of it, which is the `at`th of them.
    pub fn part(&self, at: u32) -> Self {
        let count = self.size.checked_div(self.hosts.len() as u32).unwrap_or(self.size);
        let first = at * count;
        let commands = match &self.commands[..] {
            many @ [_, _, ..] => many.iter().skip(first as usize).take(count as usize).cloned().collect(),
            few => few.to_vec(),
        };
        Self { first, count, hosts: Vec::new(), commands, ..self.clone() }
    }

    /// What a process runs.
    pub fn command(&self, rank: u32) -> ProcCommand {
        let index = if self.commands.len() > 1 { rank.saturating_sub(self.first) as usize } else { 0 };
        self.commands.get(index).cloned().unwrap_or_default()
    }
}

/// The program of a process and what it starts with. What is left open is as its host has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcCommand {
    /// Another program and its arguments, which starts this command: `taskset -c 0`.
    pub prefix: Vec<OsString>,
    /// The program; empty: the host's.
    pub program: OsString,
    /// Its arguments; with the host's program, the host's.
    pub arguments: Vec<OsString>,
    /// Variables, on top of the host's if it inherits those; none removes one.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// Whether the host's variables are inherited.
    pub inherits: bool,
    /// Its working directory; empty: the host's.
    pub directory: OsString,
}

impl ProcCommand {
    /// This command on a host whose own is `host`, with nothing left open.
    pub fn on(&self, host: &Self) -> Self {
        let inherited = host.environment.iter().filter(|_| self.inherits);
        let is_set = |name: &OsString| self.environment.iter().any(|(other, _)| other == name);
        let inherited = inherited.filter(|(name, _)| !is_set(name));
        let runs_host_program = self.program.is_empty();
        let (program, arguments) =
            if runs_host_program { (&host.program, &host.arguments) } else { (&self.program, &self.arguments) };
        let mut words = self.prefix.iter().chain([program]).chain(arguments).cloned();
        Self {
            prefix: Vec::new(),
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            environment: inherited.chain(&self.environment).cloned().collect(),
            inherits: false,
            directory: if self.directory.is_empty() { host.directory.clone() } else { self.directory.clone() },
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_leaves_open_is_as_its_host_has_it() {
        let variable = |name: &str, value: &str| (OsString::from(name), Some(OsString::from(value)));
        let host = ProcCommand {
            prefix: Vec::new(),
            program: "python".into(),
            arguments: vec!["-m".into()],
            environment: vec![variable("A", "1"), variable("B", "2")],
            inherits: false,
            directory: "/h".into(),
        };
        assert_eq!(ProcCommand { inherits: true, ..Default::default() }.on(&host), host);
        let own = ProcCommand {
            program: "mine".into(),
            environment: vec![variable("B", "3"), ("A".into(), None)],
            inherits: true,
            ..Default::default()
        };
        let on_host = own.on(&host);
        assert_eq!((on_host.program, on_host.directory), ("mine".into(), "/h".into()));
        assert_eq!(on_host.environment, own.environment);
        let bound = ProcCommand { prefix: vec!["taskset".into(), "-c".into()], ..Default::default() }.on(&host);
        assert_eq!(bound.program, "taskset");
        assert_eq!(bound.arguments, ["-c", "python", "-m"]);
        assert_eq!(ProcCommand { environment: vec![], inherits: false, ..own }.on(&host).environment, []);
    }
}
