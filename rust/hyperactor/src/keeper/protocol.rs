//! What the agent and its keeper say to each other, as headers of frames on one socket.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// From the agent to its keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Start a process. Its control socket travels with the frame and becomes descriptor 3 of the process. Two more
    /// descriptors may follow, for its standard output and standard error; without them it has the keeper's.
    Launch(Launch),
    /// Load modules that workers will need. What is to be started after all that has arrived with it finds them loaded.
    Load {
        /// Their names.
        modules: Vec<String>,
    },
    /// Send a signal to the process group of a launched process; nothing happens if it has ended.
    Signal {
        /// Which launch.
        launch: u64,
        /// Signal number.
        signal: i32,
    },
    /// End everything that still lives: SIGTERM, after `grace_ms` SIGKILL; then exit.
    Shutdown {
        /// How long processes may take to end by themselves.
        grace_ms: u64,
    },
}

/// How to start one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Chosen by the agent, unique for this keeper.
    pub launch: u64,
    /// The program's path.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: OsString,
    /// What it would be good to have loaded already where it starts as a copy of a template; empty: what all workers
    /// need.
    pub variant: String,
}

/// From the keeper to its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A process runs.
    Started {
        /// Which launch.
        launch: u64,
        /// Its process id.
        pid: i32,
    },
    /// A process could not be started.
    Failed {
        /// Which launch.
        launch: u64,
        /// The verb and the cause, for a person.
        error: String,
    },
    /// A process ended; what it left behind has been ended too.
    Exited {
        /// Which launch.
        launch: u64,
        /// Its process id.
        pid: i32,
        /// How.
        status: ExitStatus,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It returned this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}
