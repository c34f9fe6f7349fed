//! What the agent knows of the processes of its host. Neither sockets nor clocks: state and its changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::death::{Cause, Death};
use crate::id::{MeshId, PortId, ProcId};
use crate::link::Link;
use crate::wire::header::SpawnProcs;

/// All process meshes of a host.
#[derive(Default)]
pub(super) struct Table {
    meshes: HashMap<MeshId, Mesh>,
    launches: HashMap<u64, ProcId>,
    next_launch: u64,
    linked: HashSet<(ProcId, ProcId)>,
    awaited: Vec<(ProcId, ProcId)>,
}

struct Mesh {
    /// How its processes are started, also when they are started again.
    spawn: SpawnProcs,
    procs: Vec<Record>,
    /// Set when somebody stopped it; its processes' ends are then no failures.
    stopped: Option<String>,
    waiters: Vec<PortId>,
}

/// One place and the process that holds it.
#[derive(Default)]
pub(super) struct Record {
    generation: u32,
    launch: Option<u64>,
    pid: i32,
    /// Who had a link to earlier processes at this place.
    acquainted: HashSet<ProcId>,
    /// Who waits for a new process to take the place of this one, which was told to end.
    replacement: Vec<PortId>,
    pub(super) control: Option<Arc<Link>>,
    pub(super) death: Option<Death>,
}

/// What follows from the end of a process.
pub(super) struct End {
    pub(super) death: Death,
    pub(super) control: Option<Arc<Link>>,
    /// The control links of those that have a link to it.
    pub(super) linked: Vec<Arc<Link>>,
    /// Who waits for the end of its mesh, if it was the last.
    pub(super) waiters: Vec<PortId>,
    /// The meshes that it owned.
    pub(super) orphans: Vec<MeshId>,
    /// Who waits for a new process in its place.
    pub(super) replacement: Vec<PortId>,
}

impl Table {
    pub(super) fn add_mesh(&mut self, spawn: &SpawnProcs) {
        let procs = (0..spawn.count).map(|_| Record::default()).collect();
        let mesh = Mesh { spawn: spawn.clone(), procs, stopped: None, waiters: Vec::new() };
        self.meshes.insert(spawn.mesh, mesh);
    }

    pub(super) fn add_launch(&mut self, proc: ProcId, control: Arc<Link>) -> u64 {
        let launch = self.next_launch;
        self.next_launch += 1;
        self.launches.insert(launch, proc);
        if let Some(record) = self.find_mut(proc) {
            record.launch = Some(launch);
            record.control = Some(control);
        }
        launch
    }

    pub(super) fn started(&mut self, launch: u64, pid: i32) {
        if let Some(record) = self.launches.get(&launch).copied().and_then(|proc| self.find_mut(proc)) {
            record.pid = pid;
        }
    }

    pub(super) fn find(&self, proc: ProcId) -> Option<&Record> {
        self.meshes.get(&proc.mesh)?.procs.get(proc.rank as usize)
    }

    fn find_mut(&mut self, proc: ProcId) -> Option<&mut Record> {
        self.meshes.get_mut(&proc.mesh)?.procs.get_mut(proc.rank as usize)
    }

    pub(super) fn control(&self, proc: ProcId) -> Option<Arc<Link>> {
        self.find(proc).filter(|record| record.generation == proc.generation)?.control.clone()
    }

    pub(super) fn proc_of(&self, launch: u64) -> Option<ProcId> {
        self.launches.get(&launch).copied()
    }

    /// The process that holds a place now.
    pub(super) fn current(&self, proc: ProcId) -> ProcId {
        self.find(proc).map_or(proc, |record| ProcId { generation: record.generation, ..proc })
    }

    pub(super) fn spawn_of(&self, mesh: MeshId) -> Option<SpawnProcs> {
        self.meshes.get(&mesh).filter(|mesh| mesh.stopped.is_none()).map(|mesh| mesh.spawn.clone())
    }

    /// The places of a mesh whose process is dead.
    pub(super) fn dead_ranks(&self, mesh: MeshId) -> Vec<u32> {
        let Some(mesh) = self.meshes.get(&mesh) else { return Vec::new() };
        (0..).zip(&mesh.procs).filter(|(_, record)| record.death.is_some()).map(|(rank, _)| rank).collect()
    }

    /// Let a living process be replaced when it has ended; false if it has.
    pub(super) fn replace_later(&mut self, proc: ProcId, waiter: PortId) -> bool {
        let Some(record) = self.find_mut(proc).filter(|record| record.death.is_none()) else { return false };
        record.replacement.push(waiter);
        true
    }

    /// A new process takes the place of a dead one: who it is, and who had to do with its predecessors.
    pub(super) fn succeed(&mut self, proc: ProcId) -> Option<(ProcId, HashSet<ProcId>)> {
        let record = self.find_mut(proc).filter(|record| record.death.is_some())?;
        record.death = None;
        record.pid = 0;
        record.generation += 1;
        let next = ProcId { generation: record.generation, ..proc };
        Some((next, std::mem::take(&mut record.acquainted)))
    }

    /// Note that somebody heard of the death of a process, and so has to hear of its successor.
    pub(super) fn acquaint(&mut self, who: ProcId, with: ProcId) {
        if let Some(record) = self.find_mut(with) {
            record.acquainted.insert(who);
        }
    }

    pub(super) fn launch_of(&self, proc: ProcId) -> Option<u64> {
        self.find(proc).filter(|record| record.death.is_none())?.launch
    }

    pub(super) fn pids(&self, mesh: MeshId) -> Vec<i32> {
        let pid = |record: &Record| if record.death.is_none() { record.pid } else { 0 };
        self.meshes.get(&mesh).map_or_else(Vec::new, |mesh| mesh.procs.iter().map(pid).collect())
    }

    /// Note that two processes have a link; false if they had one.
    pub(super) fn link(&mut self, a: ProcId, b: ProcId) -> bool {
        self.linked.insert((a.min(b), a.max(b)))
    }

    pub(super) fn await_mesh(&mut self, from: ProcId, to: ProcId) {
        self.awaited.push((from, to));
    }

    pub(super) fn take_awaited(&mut self, mesh: MeshId) -> Vec<(ProcId, ProcId)> {
        let (taken, kept) = std::mem::take(&mut self.awaited).into_iter().partition(|(_, to)| to.mesh == mesh);
        self.awaited = kept;
        taken
    }

    pub(super) fn stop_awaiting(&mut self, from: ProcId, to: ProcId) -> bool {
        let before = self.awaited.len();
        self.awaited.retain(|entry| *entry != (from, to));
        self.awaited.len() < before
    }

    pub(super) fn stop(&mut self, mesh: MeshId, reason: &str, waiter: PortId) {
        self.set_reason(mesh, reason);
        if let Some(mesh) = self.meshes.get_mut(&mesh) {
            mesh.waiters.push(waiter);
        }
    }

    pub(super) fn set_reason(&mut self, mesh: MeshId, reason: &str) {
        if let Some(mesh) = self.meshes.get_mut(&mesh) {
            mesh.stopped.get_or_insert_with(|| reason.into());
        }
    }

    /// The processes of a mesh that have not ended, with their control links.
    pub(super) fn living(&self, mesh: MeshId) -> Vec<(ProcId, Arc<Link>)> {
        let Some(found) = self.meshes.get(&mesh) else { return Vec::new() };
        let ranked = (0..).zip(&found.procs).filter(|(_, record)| record.death.is_none());
        let proc = |rank, record: &Record| ProcId { generation: record.generation, ..ProcId::first(mesh, rank) };
        ranked.filter_map(|(rank, record)| Some((proc(rank, record), record.control.clone()?))).collect()
    }

    pub(super) fn all_living(&self) -> Vec<ProcId> {
        self.meshes.keys().flat_map(|mesh| self.living(*mesh)).map(|(proc, _)| proc).collect()
    }

    pub(super) fn any_living(&self) -> bool {
        self.meshes
            .values()
            .flat_map(|mesh| &mesh.procs)
            .any(|record| record.launch.is_some() && record.death.is_none())
    }

    /// From now on every end is wanted.
    pub(super) fn end_all(&mut self, reason: &str) -> Vec<Arc<Link>> {
        let meshes: Vec<MeshId> = self.meshes.keys().copied().collect();
        meshes.iter().for_each(|mesh| self.set_reason(*mesh, reason));
        self.linked.clear();
        meshes.into_iter().flat_map(|mesh| self.living(mesh)).map(|(_, control)| control).collect()
    }

    /// A process ended; none if that was known.
    pub(super) fn end(&mut self, proc: ProcId, cause: Cause, host: &str) -> Option<End> {
        let mesh = self.meshes.get_mut(&proc.mesh)?;
        let record = mesh.procs.get_mut(proc.rank as usize)?;
        if record.death.is_some() || record.generation != proc.generation {
            return None;
        }
        let cause = match &mesh.stopped {
            Some(reason) => Cause::Stopped(reason.clone()),
            None if !record.replacement.is_empty() => Cause::Stopped("another process takes its place".into()),
            None => cause,
        };
        let death = Death { proc, name: mesh.spawn.name.clone(), host: host.into(), pid: record.pid, cause };
        record.death = Some(death.clone());
        let control = record.control.take();
        let launch = record.launch.take();
        let replacement = std::mem::take(&mut record.replacement);
        let all_ended = mesh.procs.iter().all(|record| record.death.is_some());
        let waiters = if all_ended { std::mem::take(&mut mesh.waiters) } else { Vec::new() };
        if let Some(launch) = launch {
            self.launches.remove(&launch);
        }
        Some(End { death, control, linked: self.unlink(proc), waiters, orphans: self.owned_by(proc), replacement })
    }

    fn unlink(&mut self, proc: ProcId) -> Vec<Arc<Link>> {
        let (gone, kept): (HashSet<_>, HashSet<_>) =
            std::mem::take(&mut self.linked).into_iter().partition(|(a, b)| *a == proc || *b == proc);
        self.linked = kept;
        let others: Vec<ProcId> = gone.into_iter().map(|(a, b)| if a == proc { b } else { a }).collect();
        others.iter().for_each(|other| self.acquaint(*other, proc));
        others.into_iter().filter_map(|other| self.control(other)).collect()
    }

    fn owned_by(&self, proc: ProcId) -> Vec<MeshId> {
        self.meshes.iter().filter(|(_, mesh)| mesh.spawn.owner.proc == proc).map(|(id, _)| *id).collect()
    }
}
