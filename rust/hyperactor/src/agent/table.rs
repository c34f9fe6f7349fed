//! What the agent knows of the processes of its host. Neither sockets nor clocks: state and its changes.

use std::collections::{HashMap, HashSet};

use crate::death::{Cause, Death};
use crate::id::{MeshId, PortId, ProcId};
use crate::wire::header::SpawnProcs;

/// All process meshes of a host. `C` is how a process is talked to.
pub(super) struct Table<C> {
    meshes: HashMap<MeshId, Mesh<C>>,
    launches: HashMap<u64, ProcId>,
    next_launch: u64,
    linked: HashSet<(ProcId, ProcId)>,
    awaited: Vec<(ProcId, ProcId)>,
}

struct Mesh<C> {
    /// How its processes are started, also when they are started again.
    spawn: SpawnProcs,
    procs: Vec<Record<C>>,
    /// Set when somebody stopped it; its processes' ends are then no failures.
    stopped: Option<String>,
    waiters: Vec<PortId>,
}

/// One place and the process that holds it.
pub(super) struct Record<C> {
    generation: u32,
    launch: Option<u64>,
    pid: i32,
    /// Who had a link to earlier processes at this place.
    acquainted: HashSet<ProcId>,
    /// Who waits for a new process to take the place of this one, which was told to end.
    replacement: Vec<PortId>,
    pub(super) control: Option<C>,
    pub(super) death: Option<Death>,
}

/// What follows from the end of a process.
pub(super) struct End<C> {
    pub(super) death: Death,
    pub(super) control: Option<C>,
    /// How to talk to those that have a link to it.
    pub(super) linked: Vec<C>,
    /// Who waits for the end of its mesh, if it was the last.
    pub(super) waiters: Vec<PortId>,
    /// The meshes that it owned.
    pub(super) orphans: Vec<MeshId>,
    /// Who waits for a new process in its place.
    pub(super) replacement: Vec<PortId>,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self {
            meshes: HashMap::new(),
            launches: HashMap::new(),
            next_launch: 0,
            linked: HashSet::new(),
            awaited: Vec::new(),
        }
    }
}

impl<C> Default for Record<C> {
    fn default() -> Self {
        Self {
            generation: 0,
            launch: None,
            pid: 0,
            acquainted: HashSet::new(),
            replacement: Vec::new(),
            control: None,
            death: None,
        }
    }
}

impl<C: Clone> Table<C> {
    pub(super) fn add_mesh(&mut self, spawn: &SpawnProcs) {
        let procs = (0..spawn.count).map(|_| Record::default()).collect();
        let mesh = Mesh { spawn: spawn.clone(), procs, stopped: None, waiters: Vec::new() };
        self.meshes.insert(spawn.mesh, mesh);
    }

    pub(super) fn add_launch(&mut self, proc: ProcId, control: C) -> u64 {
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

    pub(super) fn find(&self, proc: ProcId) -> Option<&Record<C>> {
        self.meshes.get(&proc.mesh)?.procs.get(proc.rank as usize)
    }

    fn find_mut(&mut self, proc: ProcId) -> Option<&mut Record<C>> {
        self.meshes.get_mut(&proc.mesh)?.procs.get_mut(proc.rank as usize)
    }

    pub(super) fn control(&self, proc: ProcId) -> Option<C> {
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
        let pid = |record: &Record<C>| if record.death.is_none() { record.pid } else { 0 };
        self.meshes.get(&mesh).map_or_else(Vec::new, |mesh| mesh.procs.iter().map(pid).collect())
    }

    /// Note that two processes have a link; false if they had one.
    pub(super) fn link(&mut self, a: ProcId, b: ProcId) -> bool {
        self.linked.insert((a.min(b), a.max(b)))
    }

    /// Two processes have no link after all.
    pub(super) fn forget_link(&mut self, a: ProcId, b: ProcId) {
        self.linked.remove(&(a.min(b), a.max(b)));
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
    pub(super) fn living(&self, mesh: MeshId) -> Vec<(ProcId, C)> {
        let Some(found) = self.meshes.get(&mesh) else { return Vec::new() };
        let ranked = (0..).zip(&found.procs).filter(|(_, record)| record.death.is_none());
        let proc = |rank, record: &Record<C>| ProcId { generation: record.generation, ..ProcId::first(mesh, rank) };
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
    pub(super) fn end_all(&mut self, reason: &str) -> Vec<C> {
        let meshes: Vec<MeshId> = self.meshes.keys().copied().collect();
        meshes.iter().for_each(|mesh| self.set_reason(*mesh, reason));
        self.linked.clear();
        meshes.into_iter().flat_map(|mesh| self.living(mesh)).map(|(_, control)| control).collect()
    }

    /// A process ended; none if that was known.
    pub(super) fn end(&mut self, proc: ProcId, cause: Cause, host: &str) -> Option<End<C>> {
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

    fn unlink(&mut self, proc: ProcId) -> Vec<C> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::ActorId;
    use crate::wire::header::Sender;

    /// The client's process; workers own meshes, too.
    fn client() -> ProcId {
        ProcId::first(MeshId([0; 16]), 0)
    }

    fn spawn(mesh: u8, count: u32, owner: ProcId) -> SpawnProcs {
        SpawnProcs {
            mesh: MeshId([mesh; 16]),
            name: format!("mesh {mesh}"),
            count,
            owner: Sender { proc: owner, actor: ActorId([9; 16]) },
            program: Default::default(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: Default::default(),
            welcome: bytes::Bytes::new(),
        }
    }

    fn port(index: u64) -> PortId {
        PortId { proc: client(), index }
    }

    fn add(table: &mut Table<ProcId>, spawn: &SpawnProcs) -> Vec<ProcId> {
        table.add_mesh(spawn);
        let procs: Vec<ProcId> = (0..spawn.count).map(|rank| ProcId::first(spawn.mesh, rank)).collect();
        for proc in &procs {
            table.add_launch(*proc, *proc);
        }
        procs
    }

    #[derive(Clone, Debug)]
    enum Step {
        Connect(usize, usize),
        End(usize),
        Replace(usize),
        Stop(u8),
        Succeed(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..9, 0usize..9).prop_map(|(a, b)| Step::Connect(a, b)),
            (0usize..9).prop_map(Step::End),
            (0usize..9).prop_map(Step::Replace),
            (1u8..4).prop_map(Step::Stop),
            (0usize..9).prop_map(Step::Succeed),
        ]
    }

    proptest! {
        /// Three meshes of three, the second owned by a process of the first; random ends, links, stops, successions.
        #[test]
        fn agent_1_every_process_ends_once_and_all_that_had_to_do_with_it_hear_of_it(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut table = Table::default();
            let mut procs = add(&mut table, &spawn(1, 3, client()));
            procs.extend(add(&mut table, &spawn(2, 3, procs[0])));
            procs.extend(add(&mut table, &spawn(3, 3, client())));
            let mut dead: HashSet<ProcId> = HashSet::new();
            let mut links: HashSet<(ProcId, ProcId)> = HashSet::new();
            let mut stopped: HashSet<MeshId> = HashSet::new();
            let (mut asked, mut answered) = (0, Vec::new());
            for step in steps {
                match step {
                    Step::Connect(a, b) if a != b && !dead.contains(&procs[a]) && !dead.contains(&procs[b]) => {
                        let pair = (procs[a].min(procs[b]), procs[a].max(procs[b]));
                        prop_assert_eq!(table.link(procs[a], procs[b]), links.insert(pair));
                    }
                    Step::End(at) => {
                        let proc = procs[at];
                        let end = table.end(proc, Cause::Signal(9), "host");
                        prop_assert_eq!(end.is_some(), dead.insert(proc), "it ends exactly once");
                        let Some(end) = end else { continue };
                        let heard: HashSet<ProcId> = end.linked.iter().copied().collect();
                        let related = links.iter().filter(|(a, b)| *a == proc || *b == proc);
                        let others: HashSet<ProcId> = related.map(|(a, b)| if *a == proc { *b } else { *a }).collect();
                        prop_assert_eq!(heard, others);
                        links.retain(|(a, b)| *a != proc && *b != proc);
                        let owned = proc == ProcId::first(MeshId([1; 16]), 0);
                        prop_assert_eq!(end.orphans, if owned { vec![MeshId([2; 16])] } else { vec![] });
                        let is_stop = matches!(end.death.cause, Cause::Stopped(_));
                        prop_assert!(is_stop || !stopped.contains(&proc.mesh), "a wanted end is no failure");
                        answered.extend(end.waiters);
                        answered.extend(end.replacement);
                    }
                    Step::Replace(at) => {
                        asked += 1;
                        if !table.replace_later(procs[at], port(asked)) {
                            answered.push(port(asked));
                        }
                    }
                    Step::Stop(mesh) => {
                        let mesh = MeshId([mesh; 16]);
                        asked += 1;
                        if table.living(mesh).is_empty() {
                            answered.push(port(asked));
                        } else {
                            table.stop(mesh, "test", port(asked));
                            stopped.insert(mesh);
                        }
                    }
                    Step::Succeed(at) => {
                        let successor = table.succeed(procs[at]);
                        prop_assert_eq!(successor.is_some(), dead.contains(&procs[at]));
                        if let Some((next, _)) = successor {
                            prop_assert_eq!(next, procs[at].next());
                            table.add_launch(next, next);
                            procs[at] = next;
                        }
                    }
                    Step::Connect(..) => {}
                }
            }
            for proc in &procs {
                if let Some(end) = table.end(*proc, Cause::Exit(0), "host") {
                    answered.extend(end.waiters);
                    answered.extend(end.replacement);
                }
            }
            prop_assert!(!table.any_living());
            let mut indices: Vec<u64> = answered.iter().map(|port| port.index).collect();
            indices.sort_unstable();
            prop_assert_eq!(indices, (1..=asked).collect::<Vec<_>>(), "whoever asked is answered exactly once");
        }
    }

    #[test]
    fn the_end_of_an_earlier_process_is_not_the_end_of_its_successor() {
        let mut table = Table::default();
        let first = add(&mut table, &spawn(1, 1, client()))[0];
        assert!(table.end(first, Cause::Signal(9), "host").is_some());
        let (next, _) = table.succeed(first).unwrap();
        table.add_launch(next, next);
        assert!(table.end(first, Cause::Signal(9), "host").is_none());
        assert!(table.any_living());
    }
}
