//! The tree of owners and meshes, or the part of it that is known somewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{ActorId, MeshId, Place, ProcId};
use crate::wire::header::Sender;

/// All meshes that are known, with their owners and members. `C` is why something failed.
#[derive(Clone, Debug)]
pub struct Tree<C> {
    meshes: BTreeMap<Mesh, Entry<C>>,
    /// How many were spawned, as far as is known here.
    spawned: u64,
}

/// A mesh of either kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mesh {
    /// Actors.
    Actors(ActorId),
    /// Processes.
    Procs(MeshId),
}

/// An actor that owns meshes, or the program itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The process that it lives in.
    pub proc: ProcId,
    /// The actor in it.
    pub actor: ActorId,
}

/// How a life ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End<C> {
    /// Of this cause, and nobody wanted it.
    Failed(C),
    /// Somebody wanted it, for this reason.
    Stopped(String),
}

/// Somebody to be told of a failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Told {
    /// Who.
    pub owner: Owner,
    /// Of which of its meshes; the rank is that of the process in its mesh.
    pub mesh: Mesh,
}

/// What follows from an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallout<C> {
    /// How it counts: a failure may turn out to be part of a stop.
    pub end: End<C>,
    /// Who is told, in the order in which the meshes were spawned.
    pub told: Vec<Told>,
    /// What its end leaves without an owner: stopped from now on, and to be ended.
    pub orphans: Vec<Mesh>,
}

#[derive(Clone, Debug)]
struct Entry<C> {
    owner: Owner,
    /// Of those that are known here, the how manieth to be spawned.
    number: u64,
    /// Of actors: the processes that they live on.
    hosts: Option<MeshId>,
    stopped: Option<String>,
    /// By rank in the process mesh.
    members: BTreeMap<u32, Member<C>>,
    /// How many lives its members have begun beyond the first, counted together.
    lives: u32,
}

#[derive(Clone, Debug)]
struct Member<C> {
    /// Which of those that held this place. Of a process, its generation.
    life: u32,
    end: Option<End<C>>,
    /// Of an actor, the generation of the process that it lives on.
    host: u32,
    /// It is to end, for another one to take its place.
    makes_room: bool,
}

impl<C> Member<C> {
    fn new(life: u32, host: u32) -> Self {
        Self { life, end: None, host, makes_room: false }
    }
}

impl From<Sender> for Owner {
    fn from(sender: Sender) -> Self {
        Self { proc: sender.proc, actor: sender.actor }
    }
}

impl<C> Default for Tree<C> {
    fn default() -> Self {
        Self { meshes: BTreeMap::new(), spawned: 0 }
    }
}

impl<C: Clone> Tree<C> {
    /// `owner` starts a mesh of processes, of which these are known here. False, and nothing changes, if the owner is
    /// known to have ended.
    pub fn spawn_procs(&mut self, owner: Owner, mesh: MeshId, ranks: impl IntoIterator<Item = u32>) -> bool {
        let members = ranks.into_iter().map(|rank| (rank, Member::new(0, 0))).collect();
        let entry = Entry { owner, number: self.spawned, hosts: None, stopped: None, members, lives: 0 };
        self.spawn(owner, Mesh::Procs(mesh), entry)
    }

    /// `owner` makes an actor on each of these processes of `hosts`. False, and nothing changes, if the owner is known
    /// to have ended. On a process that is known to be dead the actor is dead from the start.
    pub fn spawn_actors(
        &mut self,
        owner: Owner,
        mesh: ActorId,
        hosts: MeshId,
        procs: impl IntoIterator<Item = ProcId>,
    ) -> bool {
        let members = procs.into_iter().map(|proc| (proc.rank, self.member_on(proc, 0))).collect();
        let stopped = self.stopped(Mesh::Procs(hosts)).map(str::to_owned);
        let entry = Entry { owner, number: self.spawned, hosts: Some(hosts), stopped, members, lives: 0 };
        self.spawn(owner, Mesh::Actors(mesh), entry)
    }

    fn spawn(&mut self, owner: Owner, mesh: Mesh, entry: Entry<C>) -> bool {
        let lives = !self.has_ended(owner);
        if lives {
            self.meshes.insert(mesh, entry);
            self.spawned += 1;
        }
        lives
    }

    fn member_on(&self, proc: ProcId, life: u32) -> Member<C> {
        let host = self.meshes.get(&Mesh::Procs(proc.mesh)).and_then(|entry| entry.members.get(&proc.rank));
        let end = host.filter(|host| host.life >= proc.generation).and_then(|host| host.end.clone());
        Member { end, ..Member::new(life, proc.generation) }
    }

    /// A process ended. None if that was known, or another one has its place by now.
    pub fn process_ended(&mut self, proc: ProcId, end: End<C>) -> Option<Fallout<C>> {
        self.process_is_over(proc, end, false)
    }

    /// A process was killed because an actor in it could not be stopped: news only to those that had others there.
    pub fn process_killed_for_stop(&mut self, proc: ProcId, cause: C) -> Option<Fallout<C>> {
        self.process_is_over(proc, End::Failed(cause), true)
    }

    fn process_is_over(&mut self, proc: ProcId, end: End<C>, for_stop: bool) -> Option<Fallout<C>> {
        let mesh = Mesh::Procs(proc.mesh);
        let end = match self.meshes.get_mut(&mesh) {
            Some(entry) => entry.end(proc.rank, proc.generation, end)?,
            None => end,
        };
        let orphans = self.orphan(|owner| owner.proc == proc);
        let mut told = Vec::new();
        for (id, actors) in self.meshes.iter_mut().filter(|(_, entry)| entry.hosts == Some(proc.mesh)) {
            let Some(actor) = actors.members.get_mut(&proc.rank) else { continue };
            if actor.host > proc.generation {
                continue;
            }
            let lived = actor.end.is_none();
            actor.end.get_or_insert_with(|| end.clone());
            if actors.stopped.is_none() && (lived || !for_stop) {
                told.push(Told { owner: actors.owner, mesh: *id });
            }
        }
        told.sort_by_key(|told| self.meshes.get(&told.mesh).map(|entry| entry.number));
        if let Some(entry) = self.meshes.get(&mesh)
            && !for_stop
            && !told.iter().any(|told| told.owner == entry.owner)
        {
            told.push(Told { owner: entry.owner, mesh });
        }
        if let End::Stopped(_) = end {
            told.clear();
        }
        Some(Fallout { end, told, orphans })
    }

    /// The actor of a mesh on process `rank` ended. None if that was known, if another one has its place by now, or if
    /// the mesh is not known.
    pub fn actor_ended(&mut self, mesh: ActorId, rank: u32, life: u32, end: End<C>) -> Option<Fallout<C>> {
        let id = Mesh::Actors(mesh);
        let entry = self.meshes.get_mut(&id)?;
        let end = entry.end(rank, life, end)?;
        let (owner, hosts) = (entry.owner, entry.hosts);
        let told = if let End::Failed(_) = end { vec![Told { owner, mesh: id }] } else { Vec::new() };
        let place = hosts.map(|mesh| Place { mesh, rank });
        let orphans = self.orphan(|owner| owner.actor == mesh && Some(owner.proc.place()) == place);
        Some(Fallout { end, told, orphans })
    }

    /// An owner whose own mesh is perhaps not known here has ended: what it leaves.
    pub fn owner_ended(&mut self, ended: Owner) -> Vec<Mesh> {
        self.orphan(|owner| *owner == ended)
    }

    /// A process that is not known here has ended: what it leaves.
    pub fn foreign_process_ended(&mut self, ended: ProcId) -> Vec<Mesh> {
        self.orphan(|owner| owner.proc == ended)
    }

    fn orphan(&mut self, had: impl Fn(&Owner) -> bool) -> Vec<Mesh> {
        let theirs = self.meshes.iter().filter(|(_, entry)| entry.stopped.is_none() && had(&entry.owner));
        let orphans: Vec<Mesh> = theirs.map(|(mesh, _)| *mesh).collect();
        orphans.iter().for_each(|mesh| self.stop(*mesh, ORPHANED));
        orphans
    }

    /// Everything below these meshes: what their members own, what those own, and so on.
    pub fn below(&self, roots: &[Mesh]) -> BTreeSet<Mesh> {
        let mut found = BTreeSet::new();
        let mut next = roots.to_vec();
        while let Some(above) = next.pop() {
            let owned = self.meshes.iter().filter(|(_, entry)| self.is_member(entry.owner, above));
            next.extend(owned.map(|(mesh, _)| *mesh).filter(|mesh| found.insert(*mesh)));
        }
        found
    }

    fn is_member(&self, owner: Owner, mesh: Mesh) -> bool {
        match mesh {
            Mesh::Actors(actors) => owner.actor == actors,
            Mesh::Procs(procs) => owner.proc.mesh == procs,
        }
    }

    /// From now on the ends of its members are no failures; of processes, nor are those of the actors on them. The first
    /// reason counts.
    pub fn stop(&mut self, mesh: Mesh, reason: &str) {
        for (id, entry) in &mut self.meshes {
            if *id == mesh || entry.hosts.is_some_and(|hosts| mesh == Mesh::Procs(hosts)) {
                entry.stopped.get_or_insert_with(|| reason.into());
            }
        }
    }

    /// Why a mesh was stopped, if it was.
    pub fn stopped(&self, mesh: Mesh) -> Option<&str> {
        self.meshes.get(&mesh)?.stopped.as_deref()
    }

    /// The process that holds a place is to end for another one; false if it has ended, or is not known.
    pub fn make_room(&mut self, place: Place) -> bool {
        let entry = self.meshes.get_mut(&Mesh::Procs(place.mesh)).filter(|entry| entry.stopped.is_none());
        let member = entry.and_then(|entry| entry.members.get_mut(&place.rank)).filter(|member| member.end.is_none());
        member.map(|member| member.makes_room = true).is_some()
    }

    /// A new process takes the place of one that has ended; none where there is no such place, its process lives, or its
    /// mesh was stopped. The actors of the old one stay dead.
    pub fn respawn_process(&mut self, place: Place) -> Option<ProcId> {
        let entry = self.meshes.get_mut(&Mesh::Procs(place.mesh)).filter(|entry| entry.stopped.is_none())?;
        let member = entry.members.get_mut(&place.rank).filter(|member| member.end.is_some())?;
        *member = Member::new(member.life + 1, 0);
        Some(ProcId { mesh: place.mesh, rank: place.rank, generation: member.life })
    }

    /// New actors on these processes take their places in a mesh, whatever became of those before them; which life that
    /// is. None where the mesh is not known or was stopped.
    pub fn respawn_actors(&mut self, mesh: ActorId, procs: impl IntoIterator<Item = ProcId>) -> Option<u32> {
        let entry = self.meshes.get_mut(&Mesh::Actors(mesh)).filter(|entry| entry.stopped.is_none())?;
        entry.lives += 1;
        let life = entry.lives;
        for proc in procs {
            let member = self.member_on(proc, life);
            if let Some(place) = self.meshes.get_mut(&Mesh::Actors(mesh))?.members.get_mut(&proc.rank) {
                *place = member;
            }
        }
        Some(life)
    }

    /// Who spawned a mesh.
    pub fn owner(&self, mesh: Mesh) -> Option<Owner> {
        self.meshes.get(&mesh).map(|entry| entry.owner)
    }

    /// The processes that actors live on.
    pub fn hosts(&self, actors: ActorId) -> Option<MeshId> {
        self.meshes.get(&Mesh::Actors(actors))?.hosts
    }

    /// The ranks of a mesh.
    pub fn ranks(&self, mesh: Mesh) -> Vec<u32> {
        self.meshes.get(&mesh).map_or_else(Vec::new, |entry| entry.members.keys().copied().collect())
    }

    /// The ranks of a mesh whose members live.
    pub fn living(&self, mesh: Mesh) -> Vec<u32> {
        let members = self.meshes.get(&mesh).into_iter().flat_map(|entry| &entry.members);
        members.filter(|(_, member)| member.end.is_none()).map(|(rank, _)| *rank).collect()
    }

    /// The process that holds a place, or held it last. The first one where nothing is known of it.
    pub fn process_at(&self, place: Place) -> ProcId {
        let member = self.meshes.get(&Mesh::Procs(place.mesh)).and_then(|entry| entry.members.get(&place.rank));
        ProcId { generation: member.map_or(0, |member| member.life), ..ProcId::first(place.mesh, place.rank) }
    }

    /// How the life of a member ended that is in a place now; none while it lives, or where there is no such member.
    pub fn end_of(&self, mesh: Mesh, rank: u32) -> Option<&End<C>> {
        self.meshes.get(&mesh)?.members.get(&rank)?.end.as_ref()
    }

    /// Which life of a member is the present one.
    pub fn life_of(&self, mesh: Mesh, rank: u32) -> u32 {
        let member = self.meshes.get(&mesh).and_then(|entry| entry.members.get(&rank));
        member.map_or(0, |member| member.life)
    }

    /// Whether a mesh is known.
    pub fn knows(&self, mesh: Mesh) -> bool {
        self.meshes.contains_key(&mesh)
    }

    /// All meshes that are known.
    pub fn meshes(&self) -> impl Iterator<Item = Mesh> {
        self.meshes.keys().copied()
    }

    /// Know nothing of a mesh any more.
    pub fn forget(&mut self, mesh: Mesh) {
        self.meshes.remove(&mesh);
    }

    fn has_ended(&self, owner: Owner) -> bool {
        let process = self.meshes.get(&Mesh::Procs(owner.proc.mesh)).and_then(|e| e.members.get(&owner.proc.rank));
        let actor = self.meshes.get(&Mesh::Actors(owner.actor)).and_then(|e| e.members.get(&owner.proc.rank));
        process.is_some_and(|process| process.life > owner.proc.generation || process.end.is_some())
            || actor.is_some_and(|actor| actor.end.is_some())
    }
}

impl<C: Clone> Entry<C> {
    /// End a life, unless it is over; how that counts.
    fn end(&mut self, rank: u32, life: u32, end: End<C>) -> Option<End<C>> {
        let member = self.members.get_mut(&rank)?;
        // A part of the tree may hear of a later life by its end first.
        let is_news = life > member.life || (life == member.life && member.end.is_none());
        if !is_news {
            return None;
        }
        let end = match (&self.stopped, end) {
            (Some(reason), _) => End::Stopped(reason.clone()),
            (None, _) if member.makes_room => End::Stopped(REPLACED.into()),
            (None, end) => end,
        };
        *member = Member { end: Some(end.clone()), ..Member::new(life, member.host) };
        Some(end)
    }
}

/// Why something was stopped that had lost its owner.
pub const ORPHANED: &str = "its owner ended";

/// Why something was stopped that another one replaces.
pub const REPLACED: &str = "another process takes its place";

#[cfg(test)]
mod tests;
