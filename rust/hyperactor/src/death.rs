//! Why somebody cannot answer any more.

use serde::{Deserialize, Serialize};

use crate::id::ProcId;
use crate::keeper::protocol::ExitStatus;
use crate::logs::Tail;

/// The end of a process, or of one actor in it, as everybody who waited for it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// The process.
    pub proc: ProcId,
    /// The label of its mesh.
    pub name: String,
    /// The host that it ran on.
    pub host: String,
    /// Its process id; 0 where it never ran.
    pub pid: i32,
    /// What ended it.
    pub cause: Cause,
    /// The labels of the process meshes that were stopped because of it: what it owned, what those owned, and so on.
    pub fell: Vec<String>,
    /// What it said last, where that is known and nobody had stopped it.
    pub tail: Option<Box<Tail>>,
}

/// What ended a process or an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// An actor ended while its process lives: by failure or because it was stopped.
    Actor {
        /// Whether somebody stopped it.
        stopped: bool,
        /// One sentence.
        reason: String,
        /// What the actor's runtime has to say about it; opaque here.
        detail: Vec<u8>,
    },
    /// The process returned this code although nobody had stopped it.
    Exit(i32),
    /// The process was killed because something in it could not be stopped: a sentence of what and why.
    KilledForStop(String),
    /// The process could not be started.
    Launch(String),
    /// Nothing is known of such a process, or the way to it is gone.
    Lost(String),
    /// A signal ended the process.
    Signal(i32),
    /// Somebody stopped the process.
    Stopped(String),
    /// Its host is gone, or the way to it.
    HostLost(String),
}

impl From<ExitStatus> for Cause {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(code) => Self::Exit(code),
            ExitStatus::Signal(signal) => Self::Signal(signal),
        }
    }
}

impl Cause {
    /// The cause as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Actor { stopped: true, .. } | Self::Stopped(_) => "stopped",
            Self::Actor { .. } => "actor",
            Self::Exit(_) => "exit",
            Self::KilledForStop(_) => "killed",
            Self::Launch(_) => "launch",
            Self::Lost(_) | Self::HostLost(_) => "lost",
            Self::Signal(_) => "signal",
        }
    }
}

impl Death {
    /// The end of a process of which no more is known.
    pub fn new(proc: ProcId, cause: Cause) -> Self {
        Self { proc, name: String::new(), host: String::new(), pid: 0, cause, fell: Vec::new(), tail: None }
    }

    /// One sentence for a person.
    pub fn reason(&self) -> String {
        match &self.cause {
            Cause::Actor { reason, .. } => reason.clone(),
            Cause::Exit(code) => format!("{} exited with status {code}", self.place()),
            Cause::KilledForStop(reason) => format!("{} was killed: {reason}", self.place()),
            Cause::Launch(error) => format!("{} could not be started: {error}", self.place()),
            Cause::Lost(reason) => format!("{} cannot be reached: {reason}", self.place()),
            Cause::HostLost(reason) => format!("{} was lost: {reason}", self.place()),
            Cause::Signal(signal) => {
                format!("{} was killed by signal {signal} ({})", self.place(), crate::sys::signals::name(*signal))
            }
            Cause::Stopped(reason) => format!("{} was stopped: {reason}", self.place()),
        }
    }

    /// What ended it, without who: the continuation of a sentence, empty where [`Death::reason`] says all.
    pub fn why(&self) -> &str {
        match &self.cause {
            Cause::Actor { reason: why, .. }
            | Cause::HostLost(why)
            | Cause::KilledForStop(why)
            | Cause::Launch(why)
            | Cause::Lost(why)
            | Cause::Stopped(why) => why,
            Cause::Exit(_) | Cause::Signal(_) => "",
        }
    }

    fn place(&self) -> String {
        let name = if self.name.is_empty() { "?" } else { &self.name };
        if self.pid == 0 && self.host.is_empty() {
            return format!("process `{name}` rank {}", self.proc.rank);
        }
        if self.pid == 0 {
            return format!("process `{name}` rank {} (on {})", self.proc.rank, self.host);
        }
        format!("process `{name}` rank {} (pid {} on {})", self.proc.rank, self.pid, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MeshId;

    #[test]
    fn a_reason_names_process_host_and_signal() {
        let proc = ProcId::first(MeshId([1; 16]), 2);
        let death =
            Death { name: "trainers".into(), host: "node".into(), pid: 42, ..Death::new(proc, Cause::Signal(9)) };
        assert_eq!(death.reason(), "process `trainers` rank 2 (pid 42 on node) was killed by signal 9 (SIGKILL)");
    }
}
