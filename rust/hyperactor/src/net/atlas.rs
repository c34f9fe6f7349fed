//! Which processes lie on which host, who has to do with whom across hosts, and what was asked of other hosts. Neither
//! sockets nor clocks: state and its changes.
//!
//! # Invariants
//! - **ATLAS-1** A process that lies on a lost host is among the lost exactly once, unless its death was known.
//! - **ATLAS-2** Whoever asked something of hosts is answered as often as it was promised, lost hosts or not.
//! - **ATLAS-3** An answer tells of a host that was lost before it had done its part, where it had to be there for that.

use std::collections::{HashMap, HashSet};

use crate::id::{MeshId, Place, PortId, ProcId};
use crate::logs::LogChange;
use crate::wire::header::{Sender, SpawnProcs};

/// Where a message came from or goes to next, seen from one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// A process of this host.
    Local(ProcId),
    /// Another host, as attached here.
    Host(MeshId),
    /// The hub.
    Hub,
}

/// A mesh: so many processes on each of these hosts, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its label.
    pub name: String,
    /// The hosts, in order.
    pub hosts: Vec<MeshId>,
    /// Processes on each.
    pub per_host: u32,
    /// Who owns it.
    pub owner: Sender,
}

/// A process on another host, as far as it is known here.
#[derive(Clone, Copy, Debug, Default)]
struct Remote {
    generation: u32,
    pid: i32,
    dead: bool,
}

struct Chart {
    layout: Layout,
    procs: Vec<Remote>,
    /// How they are started, also when they are started again; none where the hub does not start them.
    spawn: Option<SpawnProcs>,
}

/// Something that was asked of several hosts for somebody.
struct Errand {
    reply: PortId,
    /// Answer once when all is done, or each time.
    once: bool,
    /// Whether a host that is lost has failed at it; otherwise it is done with the host.
    needs_hosts: bool,
    /// Which host has failed at it, and why.
    failure: Option<String>,
    /// What each host has not done yet.
    open: HashMap<MeshId, u32>,
}

/// What was lost with a host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Its processes: label of the mesh, process, process id.
    pub procs: Vec<(String, ProcId, i32)>,
    /// Who is answered in its place, as often as they are here.
    pub answers: Vec<Answer>,
}

/// Somebody who asked something of hosts, and what is wrong, if anything.
pub type Answer = (PortId, Option<String>);

/// What an agent knows of other hosts.
#[derive(Default)]
pub struct Atlas {
    charts: HashMap<MeshId, Chart>,
    beyond: HashSet<MeshId>,
    seekers: HashMap<MeshId, Vec<MeshId>>,
    acquaintances: HashMap<Place, HashSet<Hop>>,
    /// Generations of places that are not charted here, where they are not the first.
    generations: HashMap<Place, u32>,
    errands: HashMap<u64, Errand>,
    next_errand: u64,
}

impl Atlas {
    /// A mesh lies on these hosts. Returns the hosts that looked for it.
    pub fn chart(&mut self, mesh: MeshId, layout: Layout) -> Vec<MeshId> {
        let count = layout.hosts.len() * layout.per_host as usize;
        self.charts.insert(mesh, Chart { layout, procs: vec![Remote::default(); count], spawn: None });
        self.seekers.remove(&mesh).unwrap_or_default()
    }

    /// Note how the processes of a charted mesh are started, for a host that takes the place of a lost one.
    pub fn keep(&mut self, spawn: SpawnProcs) {
        if let Some(chart) = self.charts.get_mut(&spawn.mesh) {
            chart.spawn = Some(spawn);
        }
    }

    /// No process of a mesh is started any more.
    pub fn let_go(&mut self, mesh: MeshId) {
        if let Some(chart) = self.charts.get_mut(&mesh) {
            chart.spawn = None;
        }
    }

    /// Processes that are started again have their output treated otherwise.
    pub fn change_logs(&mut self, mesh: MeshId, change: &LogChange) {
        if let Some(spawn) = self.charts.get_mut(&mesh).and_then(|chart| chart.spawn.as_mut()) {
            spawn.logs = spawn.logs.changed(change);
        }
    }

    /// What a host that takes the place of a lost one may have to start: its part of each mesh, with generations.
    pub fn kept_on(&self, host: MeshId) -> Vec<(SpawnProcs, Vec<u32>)> {
        let part = |chart: &Chart| {
            let spawn = chart.spawn.as_ref()?;
            let at = chart.layout.hosts.iter().position(|on| *on == host)?;
            let ranks = chart.layout.ranks_on(host);
            let generations = ranks.map(|rank| chart.procs[rank as usize].generation).collect();
            Some((spawn.part(at as u32), generations))
        };
        self.charts.values().filter_map(part).collect()
    }

    /// The layout of a mesh that is charted here.
    pub fn layout(&self, mesh: MeshId) -> Option<&Layout> {
        self.charts.get(&mesh).map(|chart| &chart.layout)
    }

    /// The host that a process lies on, if that is charted here.
    pub fn host_of(&self, proc: Place) -> Option<MeshId> {
        let layout = self.layout(proc.mesh)?;
        layout.hosts.get(proc.rank.checked_div(layout.per_host)? as usize).copied()
    }

    /// The processes of this host's part of all meshes: all that are charted on it.
    pub fn procs_on(&self, host: MeshId) -> Vec<ProcId> {
        let on = |(mesh, chart): (&MeshId, &Chart)| {
            let ranks = chart.layout.ranks_on(host);
            ranks
                .map(|rank| ProcId { generation: chart.procs[rank as usize].generation, ..ProcId::first(*mesh, rank) })
                .collect::<Vec<_>>()
        };
        self.charts.iter().flat_map(on).collect()
    }

    /// A mesh lies beyond the hub.
    pub fn set_beyond(&mut self, mesh: MeshId) {
        self.beyond.insert(mesh);
    }

    /// Whether a mesh is known to lie beyond the hub.
    pub fn is_beyond(&self, mesh: MeshId) -> bool {
        self.beyond.contains(&mesh)
    }

    /// A host looks for a mesh that is not charted yet.
    pub fn seek(&mut self, mesh: MeshId, host: MeshId) {
        self.seekers.entry(mesh).or_default().push(host);
    }

    /// From now on `hop` is told what becomes of `place`.
    pub fn acquaint(&mut self, place: Place, hop: Hop) {
        if let Some(known) = self.acquaintances.get_mut(&place) {
            known.insert(hop);
        } else {
            self.acquaintances.insert(place, HashSet::from([hop]));
        }
    }

    /// Who is told what becomes of a place.
    pub fn acquaintances(&self, place: Place) -> Vec<Hop> {
        self.acquaintances.get(&place).into_iter().flatten().copied().collect()
    }

    /// A process on another host runs.
    pub fn started(&mut self, proc: ProcId, pid: i32) {
        if let Some(remote) = self.remote(proc) {
            remote.pid = pid;
        }
    }

    /// A process on another host ended.
    pub fn died(&mut self, proc: ProcId) {
        if let Some(remote) = self.remote(proc).filter(|remote| remote.generation == proc.generation) {
            remote.dead = true;
        }
    }

    /// A process took the place of a dead one.
    pub fn succeeded(&mut self, proc: ProcId) {
        match self.remote(proc) {
            Some(remote) => *remote = Remote { generation: proc.generation, pid: 0, dead: false },
            None => drop(self.generations.insert(proc.place(), proc.generation)),
        }
    }

    /// The process that holds a place, as far as is known here.
    pub fn current(&self, place: Place) -> ProcId {
        let charted = self.charts.get(&place.mesh).and_then(|chart| chart.procs.get(place.rank as usize));
        let generation = match charted {
            Some(remote) => remote.generation,
            None => self.generations.get(&place).copied().unwrap_or(0),
        };
        ProcId { generation, ..ProcId::first(place.mesh, place.rank) }
    }

    /// The places of a charted mesh that are not held by their first process.
    pub fn replaced(&self, mesh: MeshId) -> Vec<(u32, u32)> {
        let Some(chart) = self.charts.get(&mesh) else { return Vec::new() };
        let generations = (0..).zip(chart.procs.iter().map(|remote| remote.generation));
        generations.filter(|(_, generation)| *generation > 0).collect()
    }

    fn remote(&mut self, proc: ProcId) -> Option<&mut Remote> {
        self.charts.get_mut(&proc.mesh)?.procs.get_mut(proc.rank as usize)
    }

    /// The process ids of a mesh, 0 where one does not run or is not known to.
    pub fn pids(&self, mesh: MeshId) -> Vec<i32> {
        let pid = |remote: &Remote| if remote.dead { 0 } else { remote.pid };
        self.charts.get(&mesh).map_or_else(Vec::new, |chart| chart.procs.iter().map(pid).collect())
    }

    /// The meshes that a process owns.
    pub fn owned_by(&self, proc: ProcId) -> Vec<MeshId> {
        self.charts.iter().filter(|(_, chart)| chart.layout.owner.proc == proc).map(|(mesh, _)| *mesh).collect()
    }

    /// Note that each of these hosts will do something so many times; its number.
    pub fn add_errand(&mut self, reply: PortId, once: bool, needs_hosts: bool, open: HashMap<MeshId, u32>) -> u64 {
        self.next_errand += 1;
        self.errands.insert(self.next_errand, Errand { reply, once, needs_hosts, failure: None, open });
        self.next_errand
    }

    /// A host has done something once; who is answered, if anybody.
    pub fn done(&mut self, errand: u64, host: MeshId) -> Option<Answer> {
        self.is_over_once(errand, host, None)
    }

    /// A host has done something once, or has failed at it.
    fn is_over_once(&mut self, errand: u64, host: MeshId, failure: Option<&str>) -> Option<Answer> {
        let found = self.errands.get_mut(&errand)?;
        let left = found.open.get_mut(&host)?;
        *left -= 1;
        if *left == 0 {
            found.open.remove(&host);
        }
        if found.needs_hosts && found.failure.is_none() {
            found.failure = failure.map(str::to_owned);
        }
        let (reply, is_over, once) = (found.reply, found.open.is_empty(), found.once);
        let failure =
            if once { found.failure.clone() } else { failure.filter(|_| found.needs_hosts).map(str::to_owned) };
        if is_over {
            self.errands.remove(&errand);
        }
        (is_over || !once).then_some((reply, failure))
    }

    /// A host is gone, and all that was on it; `why` says so to those who needed it.
    pub fn lose(&mut self, host: MeshId, why: &str) -> Lost {
        let mut lost = Lost::default();
        for (mesh, chart) in &mut self.charts {
            for rank in chart.layout.ranks_on(host) {
                let remote = &mut chart.procs[rank as usize];
                if !std::mem::replace(&mut remote.dead, true) {
                    let proc = ProcId { generation: remote.generation, ..ProcId::first(*mesh, rank) };
                    lost.procs.push((chart.layout.name.clone(), proc, remote.pid));
                }
            }
        }
        lost.procs.sort_by_key(|(_, proc, _)| *proc);
        let errands: Vec<(u64, u32)> =
            self.errands.iter().filter_map(|(number, errand)| Some((*number, *errand.open.get(&host)?))).collect();
        for (number, times) in errands {
            lost.answers.extend((0..times).filter_map(|_| self.is_over_once(number, host, Some(why))));
        }
        lost
    }
}

impl Layout {
    /// The ranks that lie on a host.
    pub fn ranks_on(&self, host: MeshId) -> impl Iterator<Item = u32> + use<> {
        let per_host = self.per_host;
        let starts: Vec<u32> = (0..).zip(&self.hosts).filter(|(_, on)| **on == host).map(|(at, _)| at).collect();
        starts.into_iter().flat_map(move |at: u32| at * per_host..(at + 1) * per_host)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::ActorId;

    fn id(number: u8) -> MeshId {
        MeshId([number; 16])
    }

    fn owner() -> Sender {
        Sender { proc: ProcId::first(id(99), 0), actor: ActorId([9; 16]) }
    }

    fn layout(hosts: &[u8], per_host: u32) -> Layout {
        Layout { name: "w".into(), hosts: hosts.iter().map(|host| id(*host)).collect(), per_host, owner: owner() }
    }

    fn port(index: u64) -> PortId {
        PortId { proc: owner().proc, index }
    }

    #[test]
    fn ranks_lie_on_hosts_in_order() {
        let mut atlas = Atlas::default();
        atlas.seek(id(50), id(3));
        assert_eq!(atlas.chart(id(50), layout(&[1, 2], 3)), [id(3)], "who looked for it is told");
        let host = |rank| atlas.host_of(ProcId::first(id(50), rank).place());
        assert_eq!(
            [host(0), host(2), host(3), host(5), host(6)],
            [Some(id(1)), Some(id(1)), Some(id(2)), Some(id(2)), None]
        );
        assert_eq!(layout(&[1, 2], 3).ranks_on(id(2)).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn a_successor_is_another_process() {
        let mut atlas = Atlas::default();
        atlas.chart(id(50), layout(&[1], 1));
        let first = ProcId::first(id(50), 0);
        atlas.started(first, 7);
        atlas.died(first);
        assert_eq!(atlas.pids(id(50)), [0]);
        atlas.succeeded(first.next());
        atlas.died(first);
        atlas.started(first.next(), 8);
        assert_eq!(atlas.pids(id(50)), [8], "late news of the first do not matter");
        assert_eq!((atlas.current(first.place()), atlas.replaced(id(50))), (first.next(), vec![(0, 1)]));
        let elsewhere = ProcId::first(id(60), 2);
        assert_eq!(atlas.current(elsewhere.place()), elsewhere);
        atlas.succeeded(elsewhere.next());
        assert_eq!(atlas.current(elsewhere.place()), elsewhere.next());
        assert_eq!(atlas.lose(id(1), "").procs, [("w".into(), first.next(), 8)]);
    }

    proptest! {
        #[test]
        fn atlas_1_each_process_is_lost_once(deaths in prop::collection::vec(0u32..6, 0..8), order in prop::collection::vec(1u8..4, 0..6)) {
            let mut atlas = Atlas::default();
            atlas.chart(id(50), layout(&[1, 2, 3], 2));
            let mut gone: HashSet<u32> = deaths.iter().copied().collect();
            deaths.iter().for_each(|rank| atlas.died(ProcId::first(id(50), *rank)));
            for host in order {
                for (_, proc, _) in atlas.lose(id(host), "").procs {
                    prop_assert_eq!(proc.rank / 2, u32::from(host) - 1);
                    prop_assert!(gone.insert(proc.rank), "lost twice");
                }
            }
        }

        #[test]
        fn atlas_2_and_3_errands_are_answered_as_promised_and_tell_of_lost_hosts(
            once in any::<bool>(),
            needs_hosts in any::<bool>(),
            times in prop::collection::vec(1u32..4, 1..4),
            steps in prop::collection::vec((0usize..4, any::<bool>()), 0..30),
        ) {
            let mut atlas = Atlas::default();
            let open: HashMap<MeshId, u32> = times.iter().enumerate().map(|(at, n)| (id(at as u8), *n)).collect();
            let errand = atlas.add_errand(port(1), once, needs_hosts, open);
            let (mut answers, mut left, mut failed) = (Vec::new(), times.clone(), 0);
            for (host, lost) in steps.into_iter().chain((0..4).map(|host| (host, true))) {
                let Some(open) = left.get_mut(host) else { continue };
                let over = if lost { *open } else { (*open).min(1) };
                *open -= over;
                if lost {
                    failed += over as usize;
                    answers.extend(atlas.lose(id(host as u8), "gone").answers);
                } else {
                    answers.extend(atlas.done(errand, id(host as u8)));
                }
            }
            let failures = answers.iter().filter(|(_, failure)| failure.as_deref() == Some("gone")).count();
            prop_assert_eq!(answers.len(), if once { 1 } else { times.iter().sum::<u32>() as usize });
            prop_assert_eq!(failures, if !needs_hosts { 0 } else if once { failed.min(1) } else { failed });
        }
    }
}
