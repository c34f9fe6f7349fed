//! Whom to send to: the members of an actor mesh in the order of a view, with their routes looked up once.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::cast::{Cast, Region, runs};
use crate::death::Death;
use crate::error::{Error, Result};
use crate::flow;
use crate::id::{ActorId, MeshId, PortId, ProcId};
use crate::memory::Part;
use crate::message::request;
use crate::net::edge::Edge;
use crate::park::{Interrupt, Waited};
use crate::peer::{Peer, Sent};
use crate::replies::{Asked, Replies};
use crate::runtime::Runtime;
use crate::wire::Limits;
use crate::wire::header::{Kind, MessageHeader, Sender};

/// Members of an actor mesh.
pub struct Targets {
    runtime: Arc<Runtime>,
    mesh: MeshId,
    actor: ActorId,
    ranks: Vec<u32>,
    places: Vec<Place>,
    /// The ranks as a cast names them.
    region: OnceLock<Region>,
}

enum Place {
    Here(ProcId),
    There(Arc<Peer>),
}

/// The members that lie on other hosts.
struct Far {
    cast: Cast,
    /// The process of each member that is one of them.
    members: Vec<Option<ProcId>>,
    /// One of the edges to them.
    edge: Edge,
}

impl Place {
    fn proc(&self) -> ProcId {
        match self {
            Self::Here(proc) => *proc,
            Self::There(peer) => peer.proc(),
        }
    }
}

impl Targets {
    /// The members of `actor` in the processes `ranks` of `mesh`, in this order.
    pub fn new(runtime: Arc<Runtime>, mesh: MeshId, ranks: Vec<u32>, actor: ActorId) -> Self {
        let place = |&rank| {
            let proc = ProcId::first(mesh, rank);
            let here = runtime.proc();
            if proc.place() == here.place() { Place::Here(here) } else { Place::There(runtime.peer(proc)) }
        };
        let places = ranks.iter().map(place).collect();
        Self { runtime, mesh, actor, ranks, places, region: OnceLock::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Ask all. With `fail_fast`, one that is dead makes the call ready at once.
    pub fn call(&self, sender: ActorId, parts: &[Part], fail_fast: bool) -> Result<Arc<Replies>> {
        self.ask(0..self.places.len(), sender, parts, fail_fast)
    }

    /// Ask one.
    pub fn call_at(&self, index: usize, sender: ActorId, parts: &[Part]) -> Result<Arc<Replies>> {
        if index >= self.places.len() {
            let count = self.places.len();
            return Err(Error::Misuse(format!("there is no member {index} among {count}")));
        }
        self.ask(index..index + 1, sender, parts, true)
    }

    /// Tell all, wanting no answer; how many were skipped, as their processes are dead.
    pub fn cast(&self, sender: ActorId, parts: &[Part]) -> Result<usize> {
        self.runtime.check()?;
        Ok(self.send(0..self.places.len(), sender, parts, None)?.len())
    }

    /// Tell every process that succeeds one of theirs from now on, wanting no answer.
    pub fn tell_successors(&self, sender: ActorId, parts: &[Part]) {
        let sender = Sender { proc: self.runtime.proc(), actor: sender };
        for (index, place) in self.places.iter().enumerate() {
            // This process has no successor that it could tell anything.
            if let Place::There(peer) = place {
                peer.tell_successors(request(peer.proc(), self.actor, sender, index as u32, None), parts.to_vec());
            }
        }
    }

    /// Whether a message to those can be sent without waiting.
    pub fn have_room(&self, indices: Range<usize>, parts: &[Part]) -> bool {
        let limits = self.runtime.flow().limits.get();
        let cost = flow::cost(parts);
        let has_room = |place: &Place| match place {
            Place::Here(_) => true,
            Place::There(peer) => peer.outbound().has_room(cost, limits),
        };
        !flow::is_counted(self.actor) || self.places.get(indices).is_none_or(|places| places.iter().all(has_room))
    }

    /// Wait until all of those have room for a message.
    pub fn wait_for_room<E>(
        &self,
        indices: Range<usize>,
        parts: &[Part],
        mut interrupt: Interrupt<'_, E>,
    ) -> Result<Waited<E>> {
        let cost = flow::cost(parts);
        while !self.have_room(indices.clone(), parts) {
            for place in &self.places[indices.clone()] {
                let Place::There(peer) = place else { continue };
                let waited = self.runtime.wait_for_room(peer, cost, &mut interrupt)?;
                if let Waited::Interrupted(_) = waited {
                    return Ok(waited);
                }
            }
        }
        Ok(Waited::Ready)
    }

    /// Who of them is known to be in a dead process.
    pub fn deaths(&self) -> Vec<(usize, Arc<Death>)> {
        let death = |place: &Place| match place {
            Place::Here(_) => None,
            Place::There(peer) => peer.death(),
        };
        self.places.iter().enumerate().filter_map(|(index, place)| Some((index, death(place)?))).collect()
    }

    fn ask(&self, indices: Range<usize>, sender: ActorId, parts: &[Part], fail_fast: bool) -> Result<Arc<Replies>> {
        self.runtime.check()?;
        let asked = indices
            .clone()
            .map(|index| Asked { proc: self.places[index].proc(), actor: self.actor, rank: index as u32 })
            .collect();
        // Several answers come by several links, which the I/O thread reads; one answer its waiter reads itself.
        let link = match &self.places[indices.start.min(self.places.len().saturating_sub(1))..indices.end] {
            [Place::There(peer)] => peer.link(),
            _ => None,
        };
        let replies = self.runtime.open_port(|port| Replies::new(port, asked, fail_fast, link));
        for (index, death) in self.send(indices, sender, parts, replies.port)? {
            self.runtime.answer_for_dead(&replies, &death, index as u32);
        }
        Ok(replies)
    }

    /// Send to some; who of them is dead.
    fn send(
        &self,
        indices: Range<usize>,
        sender: ActorId,
        parts: &[Part],
        reply: Option<PortId>,
    ) -> Result<Vec<(usize, Arc<Death>)>> {
        let far = if indices.len() == self.places.len() { self.far(parts.len()) } else { None };
        let is_far = |index: &usize| far.as_ref().is_some_and(|far| far.members[*index].is_some());
        let mut dead = Vec::new();
        for index in indices.filter(|index| !is_far(index)) {
            if let Sent::Dead(death) = self.send_to(index, sender, parts, reply)? {
                dead.push((index, death));
            }
        }
        if let Some(far) = far {
            let sender = Sender { proc: self.runtime.proc(), actor: sender };
            let header = request(ProcId::first(self.mesh, 0), self.actor, sender, 0, reply);
            let bytes: Vec<Bytes> = parts.iter().map(Part::to_bytes).collect();
            self.runtime.cast(&header, far.cast, &bytes, &far.edge)?;
            if flow::takes_room(&header) {
                self.count_cast(&far.members, flow::cost(parts));
            }
        }
        Ok(dead)
    }

    /// A cast is a message to each of its members: it takes room at all of them.
    fn count_cast(&self, members: &[Option<ProcId>], cost: u64) {
        for (place, member) in self.places.iter().zip(members) {
            if let (Place::There(peer), Some(proc)) = (place, member) {
                peer.has_been_cast_to(*proc, &self.runtime, cost);
            }
        }
    }

    /// Who lies beyond edges, if they are several: one message is sent for all of them that lie on one host. All that was
    /// sent to them before has gone the same way.
    fn far(&self, parts: usize) -> Option<Far> {
        // The list of members is one part more.
        let may_be_any = self.places.len() > 1 && parts < Limits::default().parts;
        if !may_be_any || !self.runtime.may_lie_elsewhere(self.mesh) {
            return None;
        }
        let beyond = |place: &Place| if let Place::There(peer) = place { peer.beyond() } else { None };
        let found: Vec<Option<(ProcId, Edge)>> = self.places.iter().map(beyond).collect();
        if found.iter().flatten().count() < 2 {
            return None;
        }
        let others = found.iter().zip(&self.ranks).filter(|(found, _)| found.is_none()).map(|(_, rank)| *rank);
        let replaced = found.iter().flatten().filter(|(proc, _)| proc.generation > 0);
        let mut generations: Vec<(u32, u32)> = replaced.map(|(proc, _)| (proc.rank, proc.generation)).collect();
        generations.sort_unstable();
        let cast = Cast {
            region: self.region.get_or_init(|| Region::of(&self.ranks)).clone(),
            except: runs(others.collect()),
            generations,
            route: None,
            reducer: None,
        };
        let members = found.iter().map(|found| found.as_ref().map(|(proc, _)| *proc)).collect();
        let edge = found.into_iter().flatten().next()?.1;
        Some(Far { cast, members, edge })
    }

    fn send_to(&self, index: usize, sender: ActorId, parts: &[Part], reply: Option<PortId>) -> Result<Sent> {
        let place = &self.places[index];
        let sender = Sender { proc: self.runtime.proc(), actor: sender };
        let header = request(place.proc(), self.actor, sender, index as u32, reply);
        match place {
            Place::There(peer) => Ok(peer.send(&self.runtime, header, parts.to_vec())?),
            Place::Here(_) => {
                self.runtime.deliver(header, parts.to_vec(), None);
                Ok(Sent::OnItsWay)
            }
        }
    }
}

/// Tell those that have not answered a call that nobody waits for them any more.
pub fn cancel(runtime: &Arc<Runtime>, replies: &Replies) -> Result<()> {
    let Some(port) = replies.port else { return Ok(()) };
    runtime.close_port(port);
    for asked in replies.pending() {
        let header = MessageHeader {
            kind: Kind::Cancel,
            ..request(
                asked.proc,
                asked.actor,
                Sender { proc: runtime.proc(), actor: crate::id::PROCESS_ACTOR },
                asked.rank,
                Some(port),
            )
        };
        runtime.send(header, &[])?;
    }
    // Whoever else waits for the answers waits in vain from now on.
    replies.complete();
    Ok(())
}
