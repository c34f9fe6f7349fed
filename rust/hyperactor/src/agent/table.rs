//! What the agent knows of the processes of its host. Neither sockets nor clocks: state and its changes.
//!
//! Who owns whom, who lives and who was stopped is the [`Tree`]'s to say; this adds how processes are reached, and who
//! waits for what of them.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::death::{Cause, Death};
use crate::id::{MeshId, PortId, ProcId};
use crate::logs::Tail;
use crate::ownership::{End, Mesh, ORPHANED, Tree};
use crate::wire::header::SpawnProcs;

/// All process meshes of a host. `C` is how a process is talked to.
pub(super) struct Table<C> {
    tree: Tree<Cause>,
    meshes: HashMap<MeshId, Procs<C>>,
    launches: HashMap<u64, ProcId>,
    next_launch: u64,
    linked: HashSet<(ProcId, ProcId)>,
    awaited: Vec<(ProcId, ProcId)>,
    /// Meshes that were stopped and are gone, the oldest first.
    gone: VecDeque<Gone>,
    /// Set when the client ends: from then on nothing is started.
    ended: bool,
}

struct Procs<C> {
    /// How they are started, also when they are started again.
    spawn: SpawnProcs,
    places: Vec<Record<C>>,
    /// Who waits for the end of all.
    waiters: Vec<PortId>,
}

/// One place and what is known of the process that holds it.
pub(super) struct Record<C> {
    launch: Option<u64>,
    pid: i32,
    /// Who had a link to earlier processes at this place.
    acquainted: HashSet<ProcId>,
    /// Who waits for a new process to take the place of this one, which was told to end.
    replacement: Vec<PortId>,
    /// What in it could not be stopped, where it is killed for that.
    killed_for: Option<String>,
    pub(super) control: Option<C>,
    pub(super) death: Option<Death>,
}

/// A mesh that was stopped and whose processes have all ended.
struct Gone {
    mesh: MeshId,
    name: String,
    reason: String,
}

/// What follows from the end of a process.
pub(super) struct Ended<C> {
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

/// So many meshes that are gone are still told apart from those that never were.
///
/// Whoever has a reference to a mesh that was stopped mostly knows it; this is for one that first uses it afterwards.
const REMEMBERED: usize = 1024;

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self {
            tree: Tree::default(),
            meshes: HashMap::new(),
            launches: HashMap::new(),
            next_launch: 0,
            linked: HashSet::new(),
            awaited: Vec::new(),
            gone: VecDeque::new(),
            ended: false,
        }
    }
}

impl<C> Default for Record<C> {
    fn default() -> Self {
        Self {
            launch: None,
            pid: 0,
            acquainted: HashSet::new(),
            replacement: Vec::new(),
            killed_for: None,
            control: None,
            death: None,
        }
    }
}

impl<C> Procs<C> {
    /// Where the record of a rank is: a mesh may begin on another host.
    fn index(&self, rank: u32) -> Option<usize> {
        rank.checked_sub(self.spawn.first).map(|index| index as usize)
    }
}

impl<C: Clone> Table<C> {
    /// A mesh is to be started; false if there is nobody any more who could own it.
    pub(super) fn add_mesh(&mut self, spawn: &SpawnProcs) -> bool {
        if self.ended || !self.tree.spawn_procs(spawn.owner.into(), spawn.mesh, spawn.ranks()) {
            return false;
        }
        let places = (0..spawn.count).map(|_| Record::default()).collect();
        self.meshes.insert(spawn.mesh, Procs { spawn: spawn.clone(), places, waiters: Vec::new() });
        true
    }

    /// A mesh has lost its host, and may go on here: each of its processes is dead, `deaths` says of which generation.
    pub(super) fn adopt(&mut self, spawn: &SpawnProcs, deaths: Vec<Death>) -> bool {
        if !self.add_mesh(spawn) {
            return false;
        }
        for death in deaths {
            self.tree.process_ended(death.proc, End::Failed(death.cause.clone()));
            if let Some(record) = self.find_mut(death.proc) {
                record.death = Some(death);
            }
        }
        true
    }

    /// Whether something of a mesh lives or may come.
    pub(super) fn knows(&self, mesh: MeshId) -> bool {
        self.meshes.contains_key(&mesh)
    }

    /// A process is about to be launched, under the number that this returns; none if its mesh was stopped meanwhile.
    pub(super) fn add_launch(&mut self, proc: ProcId, control: C) -> Option<u64> {
        if self.tree.stopped(Mesh::Procs(proc.mesh)).is_some() {
            return None;
        }
        let record = self.find_mut(proc)?;
        record.control = Some(control);
        let launch = self.next_launch;
        self.next_launch += 1;
        self.find_mut(proc)?.launch = Some(launch);
        self.launches.insert(launch, proc);
        Some(launch)
    }

    /// A launch has become a process; which.
    pub(super) fn started(&mut self, launch: u64, pid: i32) -> Option<ProcId> {
        let proc = self.proc_of(launch)?;
        self.find_mut(proc)?.pid = pid;
        Some(proc)
    }

    pub(super) fn find(&self, proc: ProcId) -> Option<&Record<C>> {
        let mesh = self.meshes.get(&proc.mesh)?;
        mesh.places.get(mesh.index(proc.rank)?)
    }

    fn find_mut(&mut self, proc: ProcId) -> Option<&mut Record<C>> {
        let mesh = self.meshes.get_mut(&proc.mesh)?;
        let index = mesh.index(proc.rank)?;
        mesh.places.get_mut(index)
    }

    /// The end of a process whose mesh is gone.
    pub(super) fn gone(&self, proc: ProcId, host: &str) -> Option<Death> {
        let gone = self.gone.iter().find(|gone| gone.mesh == proc.mesh)?;
        let death = Death::new(proc, Cause::Stopped(gone.reason.clone()));
        Some(Death { name: gone.name.clone(), host: host.into(), ..death })
    }

    pub(super) fn control(&self, proc: ProcId) -> Option<C> {
        self.find(proc).filter(|_| self.current(proc) == proc)?.control.clone()
    }

    pub(super) fn proc_of(&self, launch: u64) -> Option<ProcId> {
        self.launches.get(&launch).copied()
    }

    /// The process that holds a place now.
    pub(super) fn current(&self, proc: ProcId) -> ProcId {
        self.tree.process_at(proc.place())
    }

    /// The places of a mesh that are not held by their first process.
    pub(super) fn replaced(&self, mesh: MeshId) -> Vec<(u32, u32)> {
        let Some(found) = self.meshes.get(&mesh) else { return Vec::new() };
        let generations = found.spawn.ranks().map(|rank| (rank, self.current(ProcId::first(mesh, rank)).generation));
        generations.filter(|(_, generation)| *generation > 0).collect()
    }

    /// How the processes of a mesh are started; none where it was stopped.
    pub(super) fn spawn_of(&self, mesh: MeshId) -> Option<SpawnProcs> {
        let found = self.meshes.get(&mesh)?;
        self.tree.stopped(Mesh::Procs(mesh)).is_none().then(|| found.spawn.clone())
    }

    /// The places of a mesh whose process is dead.
    pub(super) fn dead_ranks(&self, mesh: MeshId) -> Vec<u32> {
        let id = Mesh::Procs(mesh);
        self.tree.ranks(id).into_iter().filter(|rank| self.tree.end_of(id, *rank).is_some()).collect()
    }

    /// Let a living process be replaced when it has ended; false if it has, or is to end without a successor.
    pub(super) fn replace_later(&mut self, proc: ProcId, waiter: PortId) -> bool {
        let makes_room = self.tree.make_room(proc.place());
        if makes_room && let Some(record) = self.find_mut(proc) {
            record.replacement.push(waiter);
        }
        makes_room
    }

    /// A new process takes the place of a dead one: who it is, and who had to do with its predecessors.
    pub(super) fn succeed(&mut self, proc: ProcId) -> Option<(ProcId, HashSet<ProcId>)> {
        let next = self.tree.respawn_process(proc.place())?;
        let record = self.find_mut(proc)?;
        record.death = None;
        record.killed_for = None;
        record.pid = 0;
        Some((next, std::mem::take(&mut record.acquainted)))
    }

    /// The process at a place is about to be killed because this could not be stopped.
    pub(super) fn kill_for_stop(&mut self, proc: ProcId, reason: String) {
        if let Some(record) = self.find_mut(proc).filter(|record| record.death.is_none()) {
            record.killed_for.get_or_insert(reason);
        }
    }

    /// Note that somebody heard of the death of a process, and so has to hear of its successor.
    pub(super) fn acquaint(&mut self, who: ProcId, with: ProcId) {
        if let Some(record) = self.find_mut(with) {
            record.acquainted.insert(who);
        }
    }

    pub(super) fn launch_of(&self, proc: ProcId) -> Option<u64> {
        self.find(proc)?.launch
    }

    pub(super) fn pids(&self, mesh: MeshId) -> Vec<i32> {
        let pid = |record: &Record<C>| if record.death.is_none() { record.pid } else { 0 };
        self.meshes.get(&mesh).map_or_else(Vec::new, |mesh| mesh.places.iter().map(pid).collect())
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

    /// Let a mesh end. False, and `waiter` is not kept, if nothing of it lives.
    pub(super) fn stop(&mut self, mesh: MeshId, reason: &str, waiter: PortId) -> bool {
        self.tree.stop(Mesh::Procs(mesh), reason);
        if self.tree.living(Mesh::Procs(mesh)).is_empty() {
            self.forget_if_gone(mesh);
            return false;
        }
        if let Some(found) = self.meshes.get_mut(&mesh) {
            found.waiters.push(waiter);
        }
        true
    }

    /// The processes of a mesh that have been launched and have not ended, with their control links.
    pub(super) fn running(&self, mesh: MeshId) -> Vec<(ProcId, C)> {
        let Some(found) = self.meshes.get(&mesh) else { return Vec::new() };
        let procs = found.spawn.ranks().zip(&found.places);
        let running = |(rank, record): (u32, &Record<C>)| {
            Some((self.current(ProcId::first(mesh, rank)), record.control.clone()?))
        };
        procs.filter_map(running).collect()
    }

    pub(super) fn all_running(&self) -> Vec<ProcId> {
        self.meshes.keys().flat_map(|mesh| self.running(*mesh)).map(|(proc, _)| proc).collect()
    }

    pub(super) fn any_running(&self) -> bool {
        !self.launches.is_empty()
    }

    /// From now on every end is wanted, and nothing is started.
    pub(super) fn end_all(&mut self, reason: &str) -> Vec<(ProcId, C)> {
        self.ended = true;
        self.linked.clear();
        let meshes: Vec<MeshId> = self.meshes.keys().copied().collect();
        meshes.iter().for_each(|mesh| self.tree.stop(Mesh::Procs(*mesh), reason));
        meshes.into_iter().flat_map(|mesh| self.running(mesh)).collect()
    }

    /// A process ended; none if that was known.
    pub(super) fn end(&mut self, proc: ProcId, cause: Cause, host: &str, tail: Option<Box<Tail>>) -> Option<Ended<C>> {
        if !self.knows(proc.mesh) {
            return None;
        }
        let killed_for = self.find_mut(proc)?.killed_for.clone();
        let cause = killed_for.map_or(cause, Cause::KilledForStop);
        let fallout = self.tree.process_ended(proc, End::Failed(cause))?;
        let cause = match fallout.end {
            End::Failed(cause) => cause,
            End::Stopped(reason) => Cause::Stopped(reason),
        };
        let fell = self.tree.below(&fallout.orphans).into_iter().chain(fallout.orphans.iter().copied());
        let mut fell: Vec<String> = fell.filter_map(|mesh| Some(self.procs(mesh)?.spawn.name.clone())).collect();
        fell.sort();
        let mesh = self.meshes.get_mut(&proc.mesh)?;
        let index = mesh.index(proc.rank)?;
        let record = mesh.places.get_mut(index)?;
        let (name, pid) = (mesh.spawn.name.clone(), record.pid);
        let tail = tail.filter(|_| !matches!(cause, Cause::Stopped(_)));
        let death = Death { name, host: host.into(), pid, fell, tail, ..Death::new(proc, cause) };
        record.death = Some(death.clone());
        let control = record.control.take();
        let replacement = std::mem::take(&mut record.replacement);
        if let Some(launch) = record.launch.take() {
            self.launches.remove(&launch);
        }
        let all_ended = self.tree.living(Mesh::Procs(proc.mesh)).is_empty();
        let waiters = if all_ended { std::mem::take(&mut mesh.waiters) } else { Vec::new() };
        let linked = self.unlink(proc);
        self.forget_if_gone(proc.mesh);
        let orphans = fallout.orphans.into_iter().filter_map(|mesh| Some(self.procs(mesh)?.spawn.mesh)).collect();
        Some(Ended { death, control, linked, waiters, orphans, replacement })
    }

    /// A process of another host ended: the meshes of this host that it owned, which are to be ended.
    pub(super) fn foreign_end(&mut self, proc: ProcId) -> Vec<MeshId> {
        let orphans = self.tree.foreign_process_ended(proc);
        orphans.into_iter().filter_map(|mesh| Some(self.procs(mesh)?.spawn.mesh)).collect()
    }

    /// The hub says that a mesh of this host has lost its owner.
    pub(super) fn orphaned(&mut self, mesh: MeshId) {
        self.tree.stop(Mesh::Procs(mesh), ORPHANED);
    }

    fn procs(&self, mesh: Mesh) -> Option<&Procs<C>> {
        match mesh {
            Mesh::Procs(mesh) => self.meshes.get(&mesh),
            Mesh::Actors(_) => None,
        }
    }

    /// A mesh of which nothing lives and nothing comes any more leaves no more than a note.
    pub(super) fn forget_if_gone(&mut self, mesh: MeshId) {
        let id = Mesh::Procs(mesh);
        let Some(reason) = self.tree.stopped(id).filter(|_| self.tree.living(id).is_empty()) else { return };
        let reason = reason.to_owned();
        let Some(procs) = self.meshes.remove(&mesh) else { return };
        self.tree.forget(id);
        if self.gone.len() == REMEMBERED {
            self.gone.pop_front();
        }
        self.gone.push_back(Gone { mesh, name: procs.spawn.name, reason });
    }

    fn unlink(&mut self, proc: ProcId) -> Vec<C> {
        let (gone, kept): (HashSet<_>, HashSet<_>) =
            std::mem::take(&mut self.linked).into_iter().partition(|(a, b)| *a == proc || *b == proc);
        self.linked = kept;
        let others: Vec<ProcId> = gone.into_iter().map(|(a, b)| if a == proc { b } else { a }).collect();
        others.iter().for_each(|other| self.acquaint(*other, proc));
        others.into_iter().filter_map(|other| self.control(other)).collect()
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
            first: 0,
            count,
            size: count,
            hosts: Vec::new(),
            owner: Sender { proc: owner, actor: ActorId([9; 16]) },
            commands: Vec::new(),
            logs: Default::default(),
            folder: String::new(),
            variant: String::new(),
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
            assert!(table.add_launch(*proc, *proc).is_some());
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
                        let end = table.end(proc, Cause::Signal(9), "host", None);
                        prop_assert_eq!(end.is_some(), dead.insert(proc), "it ends exactly once");
                        let Some(end) = end else { continue };
                        let heard: HashSet<ProcId> = end.linked.iter().copied().collect();
                        let related = links.iter().filter(|(a, b)| *a == proc || *b == proc);
                        let others: HashSet<ProcId> = related.map(|(a, b)| if *a == proc { *b } else { *a }).collect();
                        prop_assert_eq!(heard, others);
                        links.retain(|(a, b)| *a != proc && *b != proc);
                        let owned = proc == ProcId::first(MeshId([1; 16]), 0) && !stopped.contains(&MeshId([2; 16]));
                        prop_assert_eq!(&end.orphans, &if owned { vec![MeshId([2; 16])] } else { vec![] });
                        prop_assert_eq!(end.death.fell, if owned { vec!["mesh 2"] } else { vec![] });
                        end.orphans.iter().for_each(|mesh| table.forget_if_gone(*mesh));
                        stopped.extend(end.orphans);
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
                        stopped.insert(mesh);
                        if !table.stop(mesh, "test", port(asked)) {
                            answered.push(port(asked));
                        }
                    }
                    Step::Succeed(at) => {
                        let successor = table.succeed(procs[at]);
                        let can = dead.contains(&procs[at]) && !stopped.contains(&procs[at].mesh);
                        prop_assert_eq!(successor.is_some(), can);
                        if let Some((next, _)) = successor {
                            prop_assert_eq!(next, procs[at].next());
                            prop_assert!(table.add_launch(next, next).is_some());
                            procs[at] = next;
                        }
                    }
                    Step::Connect(..) => {}
                }
            }
            for proc in &procs {
                if let Some(end) = table.end(*proc, Cause::Exit(0), "host", None) {
                    answered.extend(end.waiters);
                    answered.extend(end.replacement);
                }
            }
            prop_assert!(!table.any_running());
            for mesh in stopped {
                prop_assert!(table.find(ProcId::first(mesh, 0)).is_none(), "what is stopped and gone leaves a note");
                prop_assert!(table.gone(ProcId::first(mesh, 0), "host").is_some());
            }
            let mut indices: Vec<u64> = answered.iter().map(|port| port.index).collect();
            indices.sort_unstable();
            prop_assert_eq!(indices, (1..=asked).collect::<Vec<_>>(), "whoever asked is answered exactly once");
        }
    }

    #[test]
    fn the_end_of_an_earlier_process_is_not_the_end_of_its_successor() {
        let mut table = Table::default();
        let first = add(&mut table, &spawn(1, 1, client()))[0];
        assert!(table.end(first, Cause::Signal(9), "host", None).is_some());
        let (next, _) = table.succeed(first).unwrap();
        table.add_launch(next, next);
        assert!(table.end(first, Cause::Signal(9), "host", None).is_none());
        assert!(table.any_running());
    }

    #[test]
    fn what_a_lost_host_leaves_is_dead_until_it_is_respawned() {
        let mut table = Table::<ProcId>::default();
        let mesh = spawn(1, 2, client());
        let generations = [3, 0].into_iter().zip(mesh.ranks());
        let procs = generations.map(|(generation, rank)| ProcId { generation, ..ProcId::first(mesh.mesh, rank) });
        let deaths = procs.map(|proc| Death::new(proc, Cause::HostLost("gone".into()))).collect();
        assert!(table.adopt(&mesh, deaths));
        assert_eq!((table.dead_ranks(mesh.mesh), table.any_running()), (vec![0, 1], false));
        let place = ProcId::first(mesh.mesh, 0);
        assert!(table.find(place).unwrap().death.is_some());
        let (next, _) = table.succeed(place).unwrap();
        assert_eq!(next.generation, 4);
        assert_eq!(table.dead_ranks(mesh.mesh), [1]);
    }

    #[test]
    fn what_was_stopped_before_it_was_launched_is_not_launched() {
        let mut table = Table::<ProcId>::default();
        let (mesh, owner) = (spawn(1, 2, client()), client());
        assert!(table.add_mesh(&mesh));
        let [first, second] = [0, 1].map(|rank| ProcId::first(mesh.mesh, rank));
        assert!(table.add_launch(first, owner).is_some());
        assert!(table.stop(mesh.mesh, "enough", port(1)), "it counts as living until it is known not to be");
        assert!(table.add_launch(second, owner).is_none());
        assert!(table.end(second, Cause::Launch(String::new()), "host", None).unwrap().waiters.is_empty());
        assert_eq!(table.end(first, Cause::Exit(0), "host", None).unwrap().waiters, [port(1)]);
    }

    #[test]
    fn meshes_that_are_gone_leave_a_bounded_memory() {
        let mut table = Table::<ProcId>::default();
        for number in 0..2 * REMEMBERED as u64 {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&number.to_le_bytes());
            let spawn = SpawnProcs { mesh: MeshId(id), ..spawn(0, 1, client()) };
            let proc = add(&mut table, &spawn)[0];
            table.link(client(), proc);
            table.stop(spawn.mesh, "enough", port(number));
            assert_eq!(table.end(proc, Cause::Exit(0), "host", None).unwrap().waiters, [port(number)]);
        }
        assert_eq!((table.meshes.len(), table.tree.meshes().count(), table.gone.len()), (0, 0, REMEMBERED));
        assert_eq!((table.launches.len(), table.linked.len(), table.awaited.len()), (0, 0, 0));
    }
}
