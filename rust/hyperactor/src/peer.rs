//! Places in meshes, as seen from this process: a way to the process that holds one, none yet, or why there is none.
//!
//! # Invariants
//! - **PEER-1** Messages to a place leave in the order in which they were sent.
//! - **PEER-2** What was sent to one process is never delivered to the next one at its place; what was sent before any
//!   process was linked goes to the first that is.
//! - **PEER-3** News of a generation never undoes news of a later one.
//! - **PEER-4** What is left for successors is the first that each of them hears from here.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::death::Death;
use crate::flow::{self, Inbound, Limits, Outbound, Word};
use crate::id::ProcId;
use crate::link::Link;
use crate::memory::Part;
use crate::memory::exchange::Exchange;
use crate::message;
use crate::net::edge::Edge;
use crate::runtime::Runtime;
use crate::sync::Mutex;
use crate::wire::header::{Destination, MessageHeader};
use crate::wire::{Frame, FrameError};

/// A place in a mesh, whose process is another one than this.
pub struct Peer {
    state: Mutex<State>,
    outbound: Outbound,
    /// Of the last process there that has sent something.
    inbound: Mutex<Option<Arc<Inbound>>>,
}

struct State {
    /// The process that holds the place, as far as is known here.
    proc: ProcId,
    route: Route,
    /// How many messages were sent to `proc`.
    sequence: u64,
    /// What every later process is told, too.
    for_successors: VecDeque<(MessageHeader, Vec<Part>)>,
}

/// So much is kept for successors, the latest. Each is small, and a place may live as long as the program.
const KEPT_FOR_SUCCESSORS: usize = 256;

enum Route {
    /// A way was asked for; what is sent meanwhile waits in order.
    Awaited(Vec<Waiting>),
    Dead(Arc<Death>),
    Open(Way),
}

/// What waits for a way.
enum Waiting {
    Message(MessageHeader, Vec<Part>),
    /// A message of another process that passes through here.
    Passing(Frame),
}

/// How to reach a process.
#[derive(Clone)]
pub enum Way {
    /// A link that leads to it alone.
    Link(Channel),
    /// An edge, which leads to others too.
    Edge(Edge),
}

/// A link to a process of this host, and the memory that it carries word of.
#[derive(Clone)]
pub struct Channel {
    /// The link.
    pub link: Arc<Link>,
    /// The memory that both ends see.
    pub memory: Arc<Exchange>,
}

impl Way {
    fn send(&self, header: MessageHeader, parts: Vec<Part>) -> Result<(), FrameError> {
        match self {
            Self::Link(channel) => channel.memory.send(&channel.link, header, parts),
            Self::Edge(edge) => {
                let parts = parts.iter().map(Part::to_bytes).collect();
                edge.send(&message::frame(&header, parts)?);
                Ok(())
            }
        }
    }

    fn pass(&self, frame: &Frame) {
        match self {
            Self::Link(channel) => channel.link.send(frame, Vec::new()),
            Self::Edge(edge) => edge.send(frame),
        }
    }

    /// By which its answers come.
    fn link(&self) -> &Arc<Link> {
        match self {
            Self::Link(channel) => &channel.link,
            Self::Edge(edge) => edge.link(),
        }
    }

    /// What belongs to the process ends with it.
    fn close(&self) {
        if let Self::Link(channel) = self {
            channel.link.close();
            channel.memory.end();
        }
    }
}

/// What became of a message.
#[derive(Debug)]
pub enum Sent {
    /// Its process is dead.
    Dead(Arc<Death>),
    /// It is on its way.
    OnItsWay,
}

impl Peer {
    /// A place whose process no link leads to yet.
    pub fn awaited(proc: ProcId) -> Self {
        let route = Route::Awaited(Vec::new());
        let state = Mutex::new(State { proc, route, sequence: 0, for_successors: VecDeque::new() });
        Self { state, outbound: Outbound::default(), inbound: Mutex::default() }
    }

    /// Tell this to every process that takes the place from now on, before anything else.
    pub fn tell_successors(&self, header: MessageHeader, parts: Vec<Part>) {
        let kept = &mut self.state.lock().for_successors;
        if kept.len() == KEPT_FOR_SUCCESSORS {
            kept.pop_front();
        }
        kept.push_back((header, parts));
    }

    /// The process that holds the place, as far as is known here.
    pub fn proc(&self) -> ProcId {
        self.state.lock().proc
    }

    /// Send to the process that holds the place, after all that was sent before.
    pub fn send(
        &self,
        runtime: &Arc<Runtime>,
        mut header: MessageHeader,
        parts: Vec<Part>,
    ) -> Result<Sent, FrameError> {
        let cost = if flow::takes_room(&header) { flow::cost(&parts) } else { 0 };
        let mut state = self.state.lock();
        if let Route::Awaited(queue) = &mut state.route {
            queue.push(Waiting::Message(header, parts));
        } else {
            state.address(&mut header);
            match &state.route {
                Route::Dead(death) => return Ok(Sent::Dead(death.clone())),
                Route::Open(way) => way.send(header, parts)?,
                Route::Awaited(_) => {}
            }
        }
        // What could not be sent is never served, so it is not counted.
        let asked = if cost > 0 { self.outbound.send(cost, runtime.flow().limits.get()) } else { None };
        drop(state);
        self.ask(runtime, asked);
        Ok(Sent::OnItsWay)
    }

    /// A message of this cost has left for the process, as part of a cast.
    pub(crate) fn has_been_cast_to(&self, proc: ProcId, runtime: &Arc<Runtime>, cost: u64) {
        let state = self.state.lock();
        let is_there = state.proc == proc && matches!(state.route, Route::Open(_));
        let asked = if is_there { self.outbound.send(cost, runtime.flow().limits.get()) } else { None };
        drop(state);
        self.ask(runtime, asked);
    }

    /// What is under way to the process.
    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Have the process say when there is room for a message of this cost.
    pub(crate) fn ask_for_room(&self, runtime: &Arc<Runtime>, cost: u64, limits: Limits) {
        self.ask(runtime, self.outbound.ask_for(cost, limits));
    }

    fn ask(&self, runtime: &Arc<Runtime>, until: Option<u64>) {
        if let Some(until) = until {
            runtime.say(self.proc(), &Word::Ask { until });
        }
    }

    /// The process has served so much of what was sent to it.
    pub(crate) fn served(&self, by: ProcId, bytes: u64, limits: Limits) {
        let state = self.state.lock();
        if state.proc == by {
            self.outbound.served(bytes, limits);
        }
    }

    /// What the process has sent here.
    pub(crate) fn inbound(&self, from: ProcId, runtime: &Arc<Runtime>) -> Arc<Inbound> {
        let mut inbound = self.inbound.lock();
        match &*inbound {
            Some(known) if known.from() == from => known.clone(),
            _ => inbound.insert(Inbound::new(from, runtime)).clone(),
        }
    }

    /// Pass on a message of another process, as it came.
    pub fn pass(&self, frame: Frame) -> Sent {
        let mut state = self.state.lock();
        match &mut state.route {
            Route::Awaited(queue) => queue.push(Waiting::Passing(frame)),
            Route::Dead(death) => return Sent::Dead(death.clone()),
            Route::Open(way) => way.pass(&frame),
        }
        Sent::OnItsWay
    }

    /// The same for a message that leaves here as several: what it shares with others is lent, where the way allows that.
    pub fn pass_parts(&self, header: MessageHeader, parts: Vec<Part>) -> Result<Sent, FrameError> {
        let mut state = self.state.lock();
        match &mut state.route {
            Route::Awaited(queue) => {
                let parts = parts.iter().map(Part::to_bytes).collect();
                queue.push(Waiting::Passing(message::frame(&header, parts)?));
            }
            Route::Dead(death) => return Ok(Sent::Dead(death.clone())),
            Route::Open(way) => way.send(header, parts)?,
        }
        Ok(Sent::OnItsWay)
    }

    /// From now on this way leads to the place, which `proc` holds; what waited goes first.
    pub fn open(&self, proc: ProcId, way: Way) -> Result<(), FrameError> {
        let mut state = self.state.lock();
        let is_news = match state.route {
            Route::Awaited(_) => proc.generation >= state.proc.generation,
            Route::Dead(_) | Route::Open(_) => proc.generation > state.proc.generation,
        };
        if !is_news {
            drop(state);
            way.close();
            return Ok(());
        }
        let succeeds = proc.generation > state.proc.generation;
        state.proc = proc;
        state.sequence = 0;
        if !matches!(state.route, Route::Awaited(_)) {
            self.outbound.restart();
        }
        let before = std::mem::replace(&mut state.route, Route::Open(way.clone()));
        if succeeds {
            for (mut header, parts) in state.for_successors.clone() {
                state.address(&mut header);
                way.send(header, parts)?;
            }
        }
        if let Route::Awaited(queue) = before {
            for waiting in queue {
                match waiting {
                    Waiting::Message(mut header, parts) => {
                        state.address(&mut header);
                        way.send(header, parts)?;
                    }
                    Waiting::Passing(frame) => way.pass(&frame),
                }
            }
        }
        Ok(())
    }

    /// The process that holds the place, if it lies beyond an edge, by which all has gone that was sent to it.
    pub fn beyond(&self) -> Option<(ProcId, Edge)> {
        let state = self.state.lock();
        match &state.route {
            Route::Open(Way::Edge(edge)) => Some((state.proc, edge.clone())),
            _ => None,
        }
    }

    /// The link that answers come by, if there is a way.
    pub fn link(&self) -> Option<Arc<Link>> {
        match &self.state.lock().route {
            Route::Open(way) => Some(way.link().clone()),
            _ => None,
        }
    }

    /// Tell the process that slabs of ours are gone.
    pub fn forget(&self, slabs: &[u64]) {
        if let Route::Open(Way::Link(channel)) = &self.state.lock().route {
            channel.memory.forget(&channel.link, slabs);
        }
    }

    /// The link that leads to this very process alone, if there is one.
    pub fn link_to(&self, proc: ProcId) -> Option<Arc<Link>> {
        let state = self.state.lock();
        match &state.route {
            Route::Open(Way::Link(channel)) if state.proc == proc => Some(channel.link.clone()),
            _ => None,
        }
    }

    /// Why the process that holds the place is dead, if it is.
    pub fn death(&self) -> Option<Arc<Death>> {
        match &self.state.lock().route {
            Route::Dead(death) => Some(death.clone()),
            _ => None,
        }
    }

    /// From now on nothing is sent there, until another process takes the place. False if that was known.
    pub fn set_dead(&self, death: Death) -> bool {
        let mut state = self.state.lock();
        let known = matches!(state.route, Route::Dead(_)) && state.proc.generation >= death.proc.generation;
        if known || state.proc.generation > death.proc.generation {
            return false;
        }
        state.proc = death.proc;
        let before = std::mem::replace(&mut state.route, Route::Dead(Arc::new(death)));
        drop(state);
        self.outbound.end();
        if let Route::Open(way) = before {
            way.close();
        }
        true
    }
}

impl State {
    /// Address a message to the process that holds the place.
    fn address(&mut self, header: &mut MessageHeader) {
        if let Destination::Actor(proc, _) = &mut header.destination {
            *proc = self.proc;
        }
        header.sequence = self.sequence;
        self.sequence += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::death::Cause;
    use crate::id::MeshId;

    fn first() -> ProcId {
        ProcId::first(MeshId([1; 16]), 0)
    }

    fn death(proc: ProcId) -> Death {
        Death::new(proc, Cause::Signal(9))
    }

    #[test]
    fn peer_3_the_death_of_an_earlier_process_does_not_undo_a_later_one() {
        let peer = Peer::awaited(first().next());
        assert!(!peer.set_dead(death(first())));
        assert!(peer.death().is_none());
        assert!(peer.set_dead(death(first().next())));
        assert!(!peer.set_dead(death(first().next())), "known");
        assert!(peer.set_dead(death(first().next().next())), "a later one may be heard of by its death first");
    }
}
