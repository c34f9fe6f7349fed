//! Casts between real hosts, by the rules of [`crate::cast`]: the hub is the root of one tree for each mesh, the agents of
//! the attached hosts are its gateways.
//!
//! The hub has an edge to each host and hosts have none to each other, so a tree has one level: each host gets a cast once,
//! for all its members. A process casts by one message to its own agent, which has the hub send it down.
//!
//! # Invariants
//! - **CASTING-1** A cast takes the way that single messages take, and goes as one for those members alone for whom all
//!   that was sent before has gone that way. All others get it one by one, after what waits for them.
//! - **CASTING-2** Nothing overtakes an answer that waits for company: neither what its process says later nor the news of
//!   its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::remote::{Host, Reach};
use super::{Agent, Hop};
use crate::cast::{Cast, Gateway, Reduce, Refused, Route, Span, runs, target};
use crate::id::{MeshId, ProcId};
use crate::link::Link;
use crate::memory::Part;
use crate::memory::pool::{Receivers, SLOT_FROM_BYTES};
use crate::message::{self, FIRST_BUFFER};
use crate::net::edge::Edge;
use crate::peer::Sent;
use crate::runtime::Runtime;
use crate::wire::header::{Destination, Kind, MessageHeader};
use crate::wire::{Frame, FrameError};

/// What an agent knows of the casts that pass through it.
pub(super) struct Casting {
    state: Mutex<State>,
}

struct State {
    gateway: Gateway<Hop>,
    /// The I/O thread will send what waits, once it has read what has arrived.
    flushes: bool,
}

/// A host's program knows no reducer but that of receipts.
struct ReceiptsOnly;

impl Reduce for ReceiptsOnly {
    fn combine(&self, _: u32, _: &[u8], higher: &[u8]) -> Vec<u8> {
        higher.to_vec()
    }
}

impl Default for Casting {
    fn default() -> Self {
        Self { state: Mutex::new(State { gateway: Gateway::new(Arc::new(ReceiptsOnly)), flushes: false }) }
    }
}

// Down.
impl Agent {
    /// Whether the processes of a mesh lie on other hosts, or some do.
    pub(crate) fn lies_elsewhere(&self, mesh: MeshId) -> bool {
        let state = self.network.state.lock();
        state.atlas.layout(mesh).is_some_and(|layout| layout.hosts != [self.own_host()])
    }

    /// The root's part: send a cast to each host that its members lie on. To all of them single messages go by the edge to
    /// their host already.
    pub(crate) fn cast_down(&self, header: &MessageHeader, cast: Cast, parts: &[Bytes]) -> Result<(), FrameError> {
        let Some((route, edges)) = self.tree_of(target(header).0) else { return Ok(()) };
        let hosts = route.hosts;
        for (part, frame) in (Cast { route: Some(route), ..cast }).spread(header, parts, hosts)? {
            if let Some(edge) = edges.get(&part.first) {
                edge.send(&frame);
            }
        }
        Ok(())
    }

    /// The tree that casts to a mesh go down, and the edges to the hosts next to this one.
    fn tree_of(&self, mesh: MeshId) -> Option<(Route, BTreeMap<u32, Edge>)> {
        let state = self.network.state.lock();
        let layout = state.atlas.layout(mesh)?;
        let edge = |host: &MeshId| match state.hosts.get(host) {
            Some(Host { reach: Reach::Up(edge), .. }) => Some(edge.clone()),
            _ => None,
        };
        let edges: BTreeMap<u32, Edge> =
            (0..).zip(&layout.hosts).filter_map(|(at, host)| Some((at, edge(host)?))).collect();
        let count = layout.hosts.len() as u32;
        let route = Route {
            root: self.own_host(),
            hosts: Span { first: 0, count },
            per_host: layout.per_host,
            fan_out: count.max(1),
            skipped: (0..count).filter(|at| !edges.contains_key(at)).collect(),
        };
        Some((route, edges))
    }

    /// A cast has come: from a process on its way to the root, or from the root for the processes of this host.
    fn pass_cast(self: &Arc<Self>, from: Hop, header: &MessageHeader, frame: Frame) -> Result<(), Refused> {
        let cast = Cast::from_bytes(frame.parts.first().ok_or(FrameError::Magic)?)?;
        if cast.route.is_some() {
            return self.cast_here(from, header, &frame.parts);
        }
        let uplink = self.network.state.lock().uplink.clone();
        match uplink {
            Some(uplink) => {
                let mut state = self.casting.state.lock();
                self.send_what_waits(&mut state);
                uplink.send(&frame);
            }
            None => self.cast_for(from, header, cast, &frame.parts[1..])?,
        }
        Ok(())
    }

    /// As [`Agent::pass_cast`], by a link: one that breaks the protocol is not listened to any more.
    pub(crate) fn cast_came(self: &Arc<Self>, from: Hop, link: &Arc<Link>, header: &MessageHeader, frame: Frame) {
        match self.pass_cast(from, header, frame) {
            // One that is late was counted as lost.
            Ok(()) | Err(Refused::Stale { .. }) => {}
            Err(Refused::Frame(_)) => link.close(),
        }
    }

    /// The gateway's part: a cast of the root's goes on to the processes of this host.
    fn cast_here(self: &Arc<Self>, from: Hop, header: &MessageHeader, parts: &[Bytes]) -> Result<(), Refused> {
        let Some(runtime) = self.runtime.upgrade() else { return Ok(()) };
        let passed = self.casting.state.lock().gateway.cast(from, header, parts)?;
        let shared = share(&runtime, &parts[1..], passed.here.len());
        for (header, _) in passed.here {
            let to = header.destination.proc();
            self.acquaint(from, &header, to);
            if let Sent::Dead(death) = runtime.peer(to).pass_parts(header, shared.clone())? {
                self.tell(from, &death);
            }
        }
        Ok(())
    }

    /// The root's part for a process that came to it with a cast.
    fn cast_for(
        self: &Arc<Self>,
        from: Hop,
        header: &MessageHeader,
        mut cast: Cast,
        parts: &[Bytes],
    ) -> Result<(), FrameError> {
        let Some(runtime) = self.runtime.upgrade() else { return Ok(()) };
        let (mesh, _) = target(header);
        let Some((route, _)) = self.tree_of(mesh) else { return Ok(()) };
        let mut single = Vec::new();
        for member in cast.members_in(route.hosts.ranks(route.per_host)) {
            let proc = ProcId::first(mesh, member.rank);
            if runtime.peer(proc).beyond().is_some() {
                self.acquaint(from, header, proc);
            } else {
                single.push(member.rank);
                let header = cast.header_for(header, member);
                self.pass(from, &header, message::frame(&header, parts.to_vec())?);
            }
        }
        let excepted = cast.except.iter().flat_map(|(first, count)| *first..first.saturating_add(*count));
        cast.except = runs(excepted.chain(single).collect());
        self.cast_down(header, cast, parts)
    }
}

// Up.
impl Agent {
    /// Pass on what goes to the hub. Answers to who casts wait until all that has arrived is read, and leave together.
    pub(super) fn pass_up(self: &Arc<Self>, runtime: &Arc<Runtime>, header: &MessageHeader, frame: Frame) -> Sent {
        let mut state = self.casting.state.lock();
        if !state.may_wait(header, &frame) {
            self.send_what_waits(&mut state);
            return runtime.peer(header.destination.proc()).pass(frame);
        }
        // Plain data, which always encodes.
        if let Ok(ready) = state.gateway.answer(header, frame) {
            send_up(runtime, ready);
        }
        if !std::mem::replace(&mut state.flushes, true) {
            let agent = Arc::downgrade(self);
            runtime.reactor().after(Duration::ZERO, move || {
                if let Some(agent) = agent.upgrade() {
                    agent.flush_answers();
                }
            });
        }
        Sent::OnItsWay
    }

    /// Send all answers that wait for company: something follows that must not overtake them.
    pub(super) fn flush_answers(&self) {
        self.send_what_waits(&mut self.casting.state.lock());
    }

    /// A process of another host is gone: nothing is kept for what it called.
    pub(super) fn forget_caller(&self, proc: ProcId) {
        self.casting.state.lock().gateway.forget(proc);
    }

    /// A mesh ends: its answers wait for no others any more.
    pub(super) fn forget_mesh(&self, mesh: MeshId) {
        let mut state = self.casting.state.lock();
        self.send_what_waits(&mut state);
        state.gateway.forget_mesh(mesh);
    }

    fn send_what_waits(&self, state: &mut State) {
        state.flushes = false;
        if let (Ok(ready), Some(runtime)) = (state.gateway.flush(), self.runtime.upgrade()) {
            send_up(&runtime, ready);
        }
    }
}

impl State {
    fn may_wait(&self, header: &MessageHeader, frame: &Frame) -> bool {
        let is_answer = matches!(header.kind, Kind::Value | Kind::Error | Kind::Dead(_)) && frame.descriptors == 0;
        let Destination::Port(port) = header.destination else { return false };
        is_answer && self.gateway.knows(port.proc, header.sender.proc.mesh)
    }
}

/// The parts of a message for several processes of this host: large buffers came once, and are copied once.
fn share(runtime: &Arc<Runtime>, parts: &[Bytes], receivers: usize) -> Vec<Part> {
    let share = |(at, part): (usize, &Bytes)| {
        let is_worth_it = receivers > 1 && at >= FIRST_BUFFER && part.len() >= SLOT_FROM_BYTES;
        let slot = if is_worth_it { runtime.pool().fill(part, Receivers::Many) } else { None };
        slot.map_or_else(|| Part::Inline(part.clone()), Part::Slot)
    };
    parts.iter().enumerate().map(share).collect()
}

/// By the way that single messages to the process take.
fn send_up(runtime: &Arc<Runtime>, ready: Vec<(Hop, Frame)>) {
    for (_, frame) in ready {
        if let Ok(header) = frame.decode_header::<MessageHeader>() {
            // A caller that is gone needs no answer.
            runtime.peer(header.destination.proc()).pass(frame);
        }
    }
}
