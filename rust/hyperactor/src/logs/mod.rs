//! The output of processes: files that they write to, and their lines at the client.
//!
//! Standard output and standard error of a process are files that it appends to, opened by the agent that starts it. So
//! nobody who reads can hold up a process that prints, what a process wrote is there after its death, and output of
//! native libraries and of child processes is there, too. [`files`] says where they are. A thread of the agent follows
//! them ([`follow`]) and hands whole lines to the client's side: [`fold`] folds equal lines of several ranks into one,
//! and [`console`] writes them to the client's own streams. The agent of another host has a [`Courier`] in the place of
//! the console, which takes the lines to the client's. Nothing happens while nobody prints.
//!
//! # Invariants
//! - **LOGS-1** Every line that a process wrote while it was shown is handed on once, those of a stream in order.
//! - **LOGS-2** At its death, what a process wrote last is handed on, also without an end of line.
//! - **LOGS-3** Memory is bounded, however much is written and however slowly it is taken.
//! - **LOGS-4** Lines on their way from another host are few: what is sent to that host or from it does not wait for them.

mod console;
mod courier;
mod files;
mod fold;
mod follow;
mod outlet;
mod tail;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::id::{MeshId, ProcId};
use crate::wire::header::SpawnProcs;
use files::{LogFile, Run};
use follow::{Arrival, Follower, Order};
use outlet::Outlet;

pub use console::Console;
pub(crate) use courier::cost;
pub use courier::{Courier, Credit, Said};
pub use files::RunPlace;
pub use tail::Tail;

/// How the output of a mesh is treated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOptions {
    /// Whether it is shown at the client.
    pub shown: bool,
    /// Whether a shown line says which rank it is from.
    pub ranks: bool,
    /// How long lines wait for equal ones of other ranks; 0: not at all.
    pub window_ms: u32,
    /// Whether lines that differ only in numbers count as equal.
    pub merge_numbers: bool,
    /// How many last lines of its standard error the death of a process quotes.
    pub tail_lines: u32,
    /// From which level on its processes log, where that was set.
    pub level: Option<u8>,
}

/// What changes in the treatment of a mesh that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChange {
    /// Whether it is shown at the client; none: as before.
    pub shown: Option<bool>,
    /// How long lines wait for equal ones, which may differ in numbers; 0: not at all.
    pub window_ms: u32,
    /// From which level on its processes log.
    pub level: u8,
}

impl LogOptions {
    /// These after a change.
    pub fn changed(&self, change: &LogChange) -> Self {
        let (shown, level) = (change.shown.unwrap_or(self.shown), Some(change.level));
        Self { shown, window_ms: change.window_ms, merge_numbers: true, level, ..*self }
    }
}

/// Which stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whose output it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The process.
    pub proc: ProcId,
    /// The label of its mesh.
    pub mesh: String,
    /// The host that it runs on.
    pub host: String,
}

/// The output of all processes that an agent starts.
pub struct Logs {
    host: String,
    place: Mutex<Option<RunPlace>>,
    outlet: Mutex<Option<Outlet>>,
    run: OnceLock<Run>,
    /// None where it could not be started.
    follower: OnceLock<Option<Follower>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    meshes: HashMap<MeshId, Mesh>,
    /// Standard output and standard error of every process that lives.
    files: HashMap<ProcId, [Arc<LogFile>; 2]>,
}

struct Mesh {
    name: String,
    size: u32,
    folder: String,
    options: LogOptions,
}

impl Logs {
    /// For the processes of an agent on `host`. Without anything else said, their output is neither kept nor shown.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            place: Mutex::default(),
            outlet: Mutex::default(),
            run: OnceLock::new(),
            follower: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Where output is kept (without a place: nowhere for good) and shown. Has no effect after the first process.
    pub fn set_up(&self, place: Option<RunPlace>, outlet: impl Into<Outlet>) {
        *self.place.lock() = place;
        *self.outlet.lock() = Some(outlet.into());
    }

    /// The name of a directory for the output of a mesh whose processes are on other hosts.
    pub fn reserve_folder(&self, name: &str) -> String {
        self.run().reserve(name)
    }

    /// A mesh is about to be started. Those that are not `known` any more are forgotten.
    pub fn add_mesh(&self, spawn: &SpawnProcs, known: impl Fn(MeshId) -> bool) {
        let folder = match &spawn.folder {
            none if none.is_empty() => self.run().add_mesh(&spawn.name),
            folder => self.run().join_mesh(folder),
        };
        let options = for_so_many(spawn.size, spawn.logs.clone());
        let mesh = Mesh { name: spawn.name.clone(), size: spawn.size, folder, options };
        let mut state = self.state.lock();
        state.meshes.retain(|mesh, _| known(*mesh));
        state.meshes.insert(spawn.mesh, mesh);
    }

    /// What a process that is about to start gets as standard output and standard error. None: those of the keeper.
    pub fn open(&self, proc: ProcId) -> Option<[OwnedFd; 2]> {
        let mut state = self.state.lock();
        let mesh = state.meshes.get(&proc.mesh)?;
        self.follower()?;
        let (stdout, stdout_theirs) = self.run().open(&mesh.folder, proc.rank, Stream::Stdout)?;
        let (stderr, stderr_theirs) = self.run().open(&mesh.folder, proc.rank, Stream::Stderr)?;
        let origin = Arc::new(Origin { proc, mesh: mesh.name.clone(), host: self.host.clone() });
        let files = [Arc::new(stdout), Arc::new(stderr)];
        self.order(Order::Follow(origin, files.clone(), mesh.options.clone()));
        state.files.insert(proc, files);
        Some([stdout_theirs, stderr_theirs])
    }

    /// A process has ended, and nothing will write to its files any more. What it said last on standard error.
    pub fn ended(&self, proc: ProcId) -> Option<Box<Tail>> {
        let mut state = self.state.lock();
        let [_, stderr] = state.files.remove(&proc)?;
        let lines = state.meshes.get(&proc.mesh).map_or(0, |mesh| mesh.options.tail_lines);
        drop(state);
        self.order(Order::Ended(proc));
        Tail::of(&stderr, lines)
    }

    /// Treat the output of a mesh otherwise from now on.
    pub fn change(&self, mesh: MeshId, change: &LogChange) {
        let mut state = self.state.lock();
        let Some(known) = state.meshes.get_mut(&mesh) else { return };
        known.options = for_so_many(known.size, known.options.changed(change));
        let options = known.options.clone();
        let files = state.files.iter().filter(|(proc, _)| proc.mesh == mesh);
        let ends = files.flat_map(|(proc, [stdout, stderr])| {
            [((*proc, Stream::Stdout), stdout.len()), ((*proc, Stream::Stderr), stderr.len())]
        });
        self.order(Order::Treat(mesh, options, ends.collect()));
    }

    /// From which level on a process of a mesh logs, where that was set.
    pub fn level_of(&self, mesh: MeshId) -> Option<u8> {
        self.state.lock().meshes.get(&mesh)?.options.level
    }

    /// Show what came from another host; `taken` is called when that is done.
    pub fn show(&self, said: Vec<Said>, text: Bytes, taken: impl FnOnce() + Send + 'static) {
        if let Some(follower) = self.follower() {
            follower.arrived(Arrival { said, text, taken: Box::new(taken) });
        }
    }

    /// Call `then` when everything that was written until now is handed on.
    pub fn when_flushed(&self, then: impl FnOnce() + Send + 'static) {
        match self.follower.get().and_then(Option::as_ref) {
            Some(follower) => follower.order(Order::Flush(Box::new(then))),
            None => then(),
        }
    }

    /// Show everything that was written until now. False if that took too long, as at a console that takes nothing.
    pub fn flush(&self, patience: Duration) -> bool {
        self.follower.get().and_then(Option::as_ref).is_none_or(|follower| follower.flush(patience))
    }

    fn run(&self) -> &Run {
        self.run.get_or_init(|| {
            let (run, complaint) = Run::begin(self.place.lock().take());
            if let Some(complaint) = complaint {
                self.order(Order::Complain(complaint));
            }
            run
        })
    }

    fn order(&self, order: Order) {
        if let Some(follower) = self.follower() {
            follower.order(order);
        }
    }

    fn follower(&self) -> Option<&Follower> {
        let start = || Follower::start(self.outlet.lock().take().unwrap_or_default()).ok();
        self.follower.get_or_init(start).as_ref()
    }
}

/// The only rank of a mesh does not wait for others.
fn for_so_many(size: u32, options: LogOptions) -> LogOptions {
    LogOptions { window_ms: if size > 1 { options.window_ms } else { 0 }, ..options }
}
