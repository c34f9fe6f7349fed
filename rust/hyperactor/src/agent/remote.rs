//! What an agent does about other hosts: it has processes started there, passes messages on, and tells who died.
//!
//! The client's agent is the *hub*; the agent of an attached host has one edge, to the hub, and whatever is not on its
//! own host lies beyond that. What is said about a process takes the same way as what the process said, so it arrives
//! after it.
//!
//! # Invariants
//! - **REMOTE-1** The messages from one process to another take one way, each edge of which keeps their order.
//! - **REMOTE-2** Whoever sent to a process on another host, or got something from it, hears of its end: by name of its
//!   host, rank and process id.
//! - **REMOTE-3** When a host or the way to it is lost, all its processes count as dead at once, and whoever asked
//!   something of it is answered.
//! - **REMOTE-4** A host in the place of a lost one has its identity. References to its processes stay valid, and those
//!   of meshes whose owner lives may be respawned there.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::Agent;
use crate::death::{Cause, Death};
use crate::id::{MeshId, PortId, ProcId};
use crate::link::{Link, Sink};
use crate::logs::{Credit, LogChange, Said, cost};
use crate::memory::Part;
use crate::message::send_answer;
pub use crate::net::atlas::Hop;
use crate::net::atlas::{Answer, Atlas, Layout};
use crate::net::edge::Edge;
use crate::net::protocol::Net;
use crate::peer::Sent;
use crate::replies::Replies;
use crate::runtime::Runtime;
use crate::wire::header::{Control, Kind, MessageHeader, RespawnProcs, SpawnProcs, StopProcs};
use crate::wire::{Frame, Priority};

/// What an agent knows of other hosts.
pub(super) struct Network {
    pub(super) state: Mutex<State>,
    /// Complete when a host's client is gone or has released it.
    pub(super) ended: Arc<Replies>,
    /// For what the processes of a host print, on its way to the client.
    pub(super) credit: Arc<Credit>,
    /// A host has said something about output, or is gone.
    heard: Condvar,
    /// How many frames with messages have come from attached hosts.
    messages: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) atlas: Atlas,
    /// The hosts that were attached here, lost ones included.
    pub(super) hosts: HashMap<MeshId, Host>,
    /// Edges to hosts that do not serve yet.
    pub(super) opening: HashMap<MeshId, Edge>,
    /// The way to the hub, in an attached host.
    pub(super) uplink: Option<Edge>,
    pub(super) ending: Option<Ending>,
    /// How many times output was flushed, and how much of it has come from other hosts.
    flushes: u64,
    outputs: u64,
}

/// A host that was attached here.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) reach: Reach,
    /// Who waits for it to be attached.
    pub(super) reply: Option<(PortId, u32)>,
    /// Why its end is no failure, where it was released.
    pub(super) released: Option<String>,
    /// The last flush that it has answered.
    pub(super) flushed: u64,
}

pub(super) enum Reach {
    /// It is being attached; what is said meanwhile waits.
    Coming(Vec<(Net, Vec<Bytes>)>),
    Up(Edge),
    /// Why not any more.
    Gone(String),
}

/// Why a host serves its client no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client is gone, or the way to it.
    Lost,
    /// The client has released the host.
    Released {
        /// What to answer it.
        request: u64,
        /// Whether the host's program shall end.
        exit: bool,
        /// How long processes may take before they are killed.
        grace_ms: u64,
    },
}

impl Default for Network {
    fn default() -> Self {
        let ended = Arc::new(Replies::event(1));
        Self {
            state: Mutex::default(),
            ended,
            credit: Arc::default(),
            heard: Condvar::new(),
            messages: AtomicU64::new(0),
        }
    }
}

impl Host {
    pub(super) fn say(&mut self, net: Net, parts: Vec<Bytes>) {
        match &mut self.reach {
            Reach::Coming(queue) => queue.push((net, parts)),
            Reach::Up(edge) => edge.say(&net, parts),
            Reach::Gone(_) => {}
        }
    }
}

impl State {
    fn say(&mut self, host: MeshId, net: Net) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.say(net, Vec::new());
        }
    }

    fn say_all(&mut self, hosts: impl IntoIterator<Item = MeshId>, net: &Net) {
        hosts.into_iter().for_each(|host| self.say(host, net.clone()));
    }

    /// Why a host is not there any more.
    fn why_gone(&self, host: MeshId) -> Option<String> {
        match self.hosts.get(&host) {
            Some(Host { name, reach: Reach::Gone(reason), .. }) => Some(lost_text(name, reason)),
            _ => None,
        }
    }
}

/// What to tell those who need a lost host.
pub(super) fn lost_text(name: &str, reason: &str) -> String {
    format!("its host {name} is lost: {reason}; `HostMesh.replace` puts another one in its place")
}

/// The rank of the pseudo-process of a host whose ports are requests of the hub's.
const HUB_REQUESTS: u32 = u32::MAX;

// Starting, stopping and asking for processes on other hosts.
impl Agent {
    pub(super) fn own_host(&self) -> MeshId {
        self.runtime.upgrade().map_or(MeshId([0; 16]), |runtime| runtime.proc().mesh)
    }

    pub(super) fn is_elsewhere(&self, spawn: &SpawnProcs) -> bool {
        !spawn.hosts.is_empty() && spawn.hosts != [self.own_host()]
    }

    /// A mesh was started on this host by one of its processes.
    pub(super) fn announce(&self, spawn: &SpawnProcs) {
        let (mesh, name, owner) = (spawn.mesh, spawn.name.clone(), spawn.owner);
        let mut state = self.network.state.lock();
        if let Some(uplink) = &state.uplink {
            uplink.say(&Net::Announce { mesh, name, count: spawn.count, owner }, Vec::new());
        } else {
            let layout = Layout { name, hosts: vec![self.own_host()], per_host: spawn.count, owner };
            let seekers = state.atlas.chart(mesh, layout);
            state.say_all(seekers, &Net::Located(mesh, Vec::new()));
        }
    }

    pub(super) fn spawn_elsewhere(self: &Arc<Self>, mut spawn: SpawnProcs) {
        let per_host = spawn.count / spawn.hosts.len() as u32;
        let layout = Layout { name: spawn.name.clone(), hosts: spawn.hosts.clone(), per_host, owner: spawn.owner };
        let uplink = {
            let mut state = self.network.state.lock();
            let seekers = state.atlas.chart(spawn.mesh, layout.clone());
            state.say_all(seekers, &Net::Located(spawn.mesh, Vec::new()));
            state.atlas.set_beyond(spawn.mesh);
            if state.uplink.is_none() {
                // One name for all hosts, which may share a file system.
                spawn.folder = self.logs.reserve_folder(&spawn.name);
                state.atlas.keep(spawn.clone());
            }
            state.uplink.clone()
        };
        let own = self.own_host();
        let abroad = layout.hosts.iter().filter(|host| **host != own).flat_map(|host| layout.ranks_on(*host));
        let abroad: Vec<ProcId> = abroad.map(|rank| ProcId::first(spawn.mesh, rank)).collect();
        // Before anything can go wrong with them.
        if let Some(hop @ (Hop::Host(_) | Hop::Local(_))) = self.hop_of(spawn.owner.proc) {
            let mut state = self.network.state.lock();
            abroad.iter().for_each(|proc| state.atlas.acquaint(proc.place(), hop));
        }
        match &uplink {
            Some(uplink) => uplink.say(&Net::Spawn(Box::new(spawn.clone())), vec![spawn.welcome.clone()]),
            None => (0..).zip(&spawn.hosts).for_each(|(at, host)| self.spawn_part(&spawn, at, *host)),
        }
        if spawn.owner.proc.mesh == own || self.table.lock().find(spawn.owner.proc).is_some() {
            abroad.into_iter().for_each(|proc| self.route(spawn.owner.proc, proc));
        }
        self.connect_awaited(spawn.mesh);
    }

    /// Have one host start its part of a mesh.
    fn spawn_part(self: &Arc<Self>, spawn: &SpawnProcs, at: u32, host: MeshId) {
        let part = spawn.part(at);
        let ranks = part.ranks();
        if host == self.own_host() {
            return self.spawn_for_hub(part);
        }
        let (name, reason) = {
            let mut state = self.network.state.lock();
            match state.hosts.get_mut(&host) {
                Some(Host { name, reach: Reach::Gone(reason), .. }) => (name.clone(), reason.clone()),
                Some(found) => {
                    let welcome = part.welcome.clone();
                    return found.say(Net::Spawn(Box::new(part)), vec![welcome]);
                }
                None => ("?".into(), "this program has not attached it".into()),
            }
        };
        for rank in ranks {
            let proc = ProcId::first(spawn.mesh, rank);
            let cause = Cause::Launch(format!("its host is not there: {reason}"));
            self.foreign_end(Death { name: spawn.name.clone(), host: name.clone(), ..Death::new(proc, cause) }, None);
        }
    }

    /// Start this host's part of a mesh; what goes wrong ends its processes.
    fn spawn_for_hub(self: &Arc<Self>, part: SpawnProcs) {
        let (mesh, name, ranks) = (part.mesh, part.name.clone(), part.ranks());
        self.network.state.lock().atlas.set_beyond(mesh);
        let Err(error) = self.spawn_here(part) else { return };
        let host = self.runtime.upgrade().map_or_else(String::new, |runtime| runtime.host().into());
        for rank in ranks {
            let cause = Cause::Launch(error.to_string());
            let death =
                Death { name: name.clone(), host: host.clone(), ..Death::new(ProcId::first(mesh, rank), cause) };
            self.foreign_end(death.clone(), None);
            self.tell_end(&death);
        }
    }

    /// This host has the place of a lost one: its part of a mesh may be respawned here.
    fn adopt(&self, spawn: &SpawnProcs, generations: &[u32], lost: &str) {
        let cause = Cause::HostLost("another host has taken its place".into());
        let dead = |(rank, generation): (u32, &u32)| {
            let proc = ProcId { generation: *generation, ..ProcId::first(spawn.mesh, rank) };
            Death { name: spawn.name.clone(), host: lost.into(), ..Death::new(proc, cause.clone()) }
        };
        let deaths = spawn.ranks().zip(generations).map(dead).collect();
        self.network.state.lock().atlas.set_beyond(spawn.mesh);
        let mut table = self.table.lock();
        if table.adopt(spawn, deaths) {
            self.logs.add_mesh(spawn, |mesh| table.knows(mesh));
        }
    }

    /// What of a stop has to be done here.
    pub(super) fn stop_elsewhere(self: &Arc<Self>, stop: StopProcs) -> Option<StopProcs> {
        let Some(hosts) = self.hosts_of(stop.mesh) else { return Some(stop) };
        self.network.state.lock().atlas.let_go(stop.mesh);
        let open: HashMap<MeshId, u32> = hosts.into_iter().map(|host| (host, 1)).collect();
        let sent = self.send_errand(stop.reply, true, false, open, |host, reply| {
            let stop = StopProcs { reply, ..stop.clone() };
            if host == self.own_host() { self.stop_here(stop) } else { self.say_to(host, Net::Stop(stop)) }
        });
        if let Err(uplink) = sent {
            uplink.say(&Net::Stop(stop), Vec::new());
        }
        None
    }

    /// What of a respawn has to be done here.
    pub(super) fn respawn_elsewhere(self: &Arc<Self>, respawn: RespawnProcs) -> Option<RespawnProcs> {
        let Some(hosts) = self.hosts_of(respawn.mesh) else { return Some(respawn) };
        let mut parts: HashMap<MeshId, Option<Vec<u32>>> = HashMap::new();
        match &respawn.ranks {
            None => parts.extend(hosts.into_iter().map(|host| (host, None))),
            Some(ranks) => {
                let state = self.network.state.lock();
                for &rank in ranks {
                    if let Some(host) = state.atlas.host_of(ProcId::first(respawn.mesh, rank).place())
                        && let Some(part) = parts.entry(host).or_insert_with(|| Some(Vec::new()))
                    {
                        part.push(rank);
                    }
                }
            }
        }
        let times = |ranks: &Option<Vec<u32>>| ranks.as_ref().map_or(1, Vec::len) as u32;
        if let Some(why) = self.any_gone(parts.keys().copied()) {
            // Nothing is started where not everything can be.
            (0..times(&respawn.ranks)).for_each(|_| self.answer_with_error(respawn.reply, &why));
            return None;
        }
        let open = parts.iter().map(|(host, ranks)| (*host, times(ranks))).collect();
        let sent = self.send_errand(respawn.reply, respawn.ranks.is_none(), true, open, |host, reply| {
            let ranks = parts.get(&host).cloned().flatten();
            let respawn = RespawnProcs { mesh: respawn.mesh, ranks, reply };
            if host == self.own_host() { self.respawn_here(respawn) } else { self.say_to(host, Net::Respawn(respawn)) }
        });
        if let Err(uplink) = sent {
            uplink.say(&Net::Respawn(respawn), Vec::new());
        }
        None
    }

    fn any_gone(&self, mut hosts: impl Iterator<Item = MeshId>) -> Option<String> {
        let state = self.network.state.lock();
        hosts.find_map(|host| state.why_gone(host))
    }

    /// The hosts of a mesh that does not lie here alone.
    fn hosts_of(&self, mesh: MeshId) -> Option<Vec<MeshId>> {
        let state = self.network.state.lock();
        match state.atlas.layout(mesh) {
            Some(layout) => Some(layout.hosts.clone()).filter(|hosts| *hosts != [self.own_host()]),
            None => state.atlas.is_beyond(mesh).then(Vec::new),
        }
    }

    /// Let hosts do something and answer `reply` for it. An attached host gets its uplink back: the hub does it.
    pub(super) fn send_errand(
        &self,
        reply: PortId,
        once: bool,
        needs_hosts: bool,
        open: HashMap<MeshId, u32>,
        mut send: impl FnMut(MeshId, PortId),
    ) -> Result<(), Edge> {
        let (hosts, lost, number) = {
            let mut state = self.network.state.lock();
            if let Some(uplink) = &state.uplink {
                return Err(uplink.clone());
            }
            let hosts: Vec<MeshId> = open.keys().copied().collect();
            let is_gone = |host: &MeshId| state.why_gone(*host).is_some();
            let lost: Vec<(MeshId, u32)> =
                open.iter().filter(|(host, _)| is_gone(host)).map(|(host, times)| (*host, *times)).collect();
            (hosts, lost, state.atlas.add_errand(reply, once, needs_hosts, open))
        };
        for host in hosts.into_iter().filter(|host| !lost.iter().any(|(gone, _)| gone == host)) {
            let proc = ProcId::first(host, HUB_REQUESTS);
            send(host, PortId { proc, index: number });
        }
        for (host, times) in lost {
            (0..times).for_each(|_| self.errand_done(number, host));
        }
        Ok(())
    }

    pub(super) fn errand_done(&self, number: u64, host: MeshId) {
        let answered = self.network.state.lock().atlas.done(number, host);
        if let Some(answer) = answered {
            self.answer_errand(answer);
        }
    }

    pub(super) fn answer_errand(&self, (port, failure): Answer) {
        match (failure, self.runtime.upgrade()) {
            (Some(failure), _) => self.answer_with_error(port, &failure),
            (None, Some(runtime)) => self.answer_elsewhere(&runtime, port),
            (None, None) => {}
        }
    }

    /// Tell who asked for something of hosts why it cannot be done.
    fn answer_with_error(&self, port: PortId, why: &str) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let parts = [Bytes::new(), Bytes::copy_from_slice(why.as_bytes())].map(Into::into);
        // Plain data, which always encodes.
        let _ = send_answer(&runtime, port, 0, Kind::Error, &parts);
    }

    /// Tell who asked for something of other hosts that it is done: by the way that news from there take.
    pub(super) fn answer_elsewhere(&self, runtime: &Arc<Runtime>, port: PortId) {
        if port.proc == runtime.proc() {
            return runtime.agent_answered(port);
        }
        // Plain data, which always encodes.
        let _ = send_answer(runtime, port, 0, Kind::Value, &[]);
    }

    /// Answer a request of the hub's, if that is what the port stands for.
    pub(super) fn answer_hub(&self, port: PortId) -> bool {
        if port.proc.rank != HUB_REQUESTS {
            return false;
        }
        let uplink = self.network.state.lock().uplink.clone();
        match uplink {
            Some(uplink) => {
                self.flush_answers();
                uplink.say(&Net::Done(port.index), Vec::new());
            }
            None => self.errand_done(port.index, port.proc.mesh),
        }
        true
    }

    pub(super) fn signal_elsewhere(&self, proc: ProcId, signal: i32) {
        let net = Net::Signal { proc, signal };
        let mut state = self.network.state.lock();
        match (&state.uplink, state.atlas.host_of(proc.place())) {
            (Some(uplink), _) => uplink.say(&net, Vec::new()),
            (None, Some(host)) => state.say(host, net),
            (None, None) => {}
        }
    }

    pub(super) fn pids_elsewhere(&self, mesh: MeshId) -> Vec<i32> {
        self.network.state.lock().atlas.pids(mesh)
    }

    pub(super) fn say_to(&self, host: MeshId, net: Net) {
        self.network.state.lock().say(host, net);
    }
}

// The output of processes of several hosts.
impl Agent {
    /// Treat the output of a mesh otherwise from now on, wherever its processes lie.
    pub(crate) fn change_logs(&self, mesh: MeshId, change: LogChange) {
        let Some(hosts) = self.hosts_of(mesh) else { return self.logs.change(mesh, &change) };
        let mut state = self.network.state.lock();
        if let Some(uplink) = &state.uplink {
            return uplink.say(&Net::ChangeLogs { mesh, change }, Vec::new());
        }
        state.atlas.change_logs(mesh, &change);
        state.say_all(hosts.iter().copied(), &Net::ChangeLogs { mesh, change: change.clone() });
        drop(state);
        if hosts.contains(&self.own_host()) {
            self.logs.change(mesh, &change);
        }
    }

    /// Show what a host says that its processes print.
    fn show(self: &Arc<Self>, host: MeshId, said: Vec<Said>, text: Bytes) {
        self.network.state.lock().outputs += 1;
        self.network.heard.notify_all();
        let (agent, bytes) = (Arc::downgrade(self), cost(&text) as u64);
        self.logs.show(said, text, move || {
            if let Some(agent) = agent.upgrade() {
                agent.say_to(host, Net::Taken(bytes));
            }
        });
    }

    /// Have all hosts say what was printed there until now. False if nothing came for as long as `patience`.
    pub(super) fn flush_hosts(&self, patience: Duration) -> bool {
        let mut state = self.network.state.lock();
        state.flushes += 1;
        let flush = state.flushes;
        let attached = |state: &State| -> Vec<MeshId> {
            let lacks = |host: &Host| matches!(host.reach, Reach::Up(_)) && host.flushed < flush;
            state.hosts.iter().filter(|(_, host)| lacks(host)).map(|(id, _)| *id).collect()
        };
        let asked = attached(&state);
        state.say_all(asked, &Net::Flush(flush));
        while !attached(&state).is_empty() {
            let before = state.outputs;
            if self.network.heard.wait_for(&mut state, patience).timed_out() && state.outputs == before {
                return false;
            }
        }
        true
    }

    fn host_flushed(&self, host: MeshId, flush: u64) {
        if let Some(found) = self.network.state.lock().hosts.get_mut(&host) {
            found.flushed = flush;
        }
        self.network.heard.notify_all();
    }

    /// Tell the hub when all that was printed here until now has been said.
    fn flush_for_hub(&self, flush: u64) {
        let uplink = self.network.state.lock().uplink.clone();
        self.logs.when_flushed(move || {
            if let Some(uplink) = uplink {
                uplink.say(&Net::Flushed(flush), Vec::new());
            }
        });
    }

    /// Nobody waits any more for what a host would say.
    pub(super) fn stop_listening(&self) {
        self.network.heard.notify_all();
    }
}

// Ways to processes on other hosts, and news of them.
impl Agent {
    /// Whether a process is known to lie on another host.
    pub(super) fn is_remote(&self, proc: ProcId) -> bool {
        let state = self.network.state.lock();
        match state.atlas.host_of(proc.place()) {
            Some(host) => host != self.own_host(),
            None => state.uplink.is_some() && state.atlas.is_beyond(proc.mesh),
        }
    }

    /// Ask the hub where a mesh is.
    pub(super) fn locate(&self, mesh: MeshId) {
        if let Some(uplink) = &self.network.state.lock().uplink {
            uplink.say(&Net::Locate(mesh), Vec::new());
        }
    }

    /// Let a process of this host reach one on another.
    pub(super) fn route(self: &Arc<Self>, from: ProcId, to: ProcId) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let to = self.network.state.lock().atlas.current(to.place());
        if from != runtime.proc() {
            self.network.state.lock().atlas.acquaint(to.place(), Hop::Local(from));
            return self.say_here(from, &Control::Route { peer: to });
        }
        let edge = {
            let state = self.network.state.lock();
            let host = state.atlas.host_of(to.place()).and_then(|host| state.hosts.get(&host));
            match (&state.uplink, host) {
                (Some(uplink), _) => Some(uplink.clone()),
                (None, Some(Host { reach: Reach::Up(edge), .. })) => Some(edge.clone()),
                // When it has come, the way is opened.
                _ => None,
            }
        };
        if let Some(edge) = edge {
            runtime.open_edge(to, edge);
        }
    }

    /// Where the way to a process goes on, unless it ends here.
    pub(super) fn hop_of(&self, proc: ProcId) -> Option<Hop> {
        if self.table.lock().find(proc).is_some() {
            return Some(Hop::Local(proc));
        }
        let state = self.network.state.lock();
        if state.uplink.is_some() {
            return (proc.mesh != self.own_host()).then_some(Hop::Hub);
        }
        state.atlas.host_of(proc.place()).map(Hop::Host)
    }

    /// Whoever sends a message hears of the end of who gets it, and the other way round. Where it goes next.
    pub(super) fn acquaint(&self, from: Hop, header: &MessageHeader, to: ProcId) -> Option<Hop> {
        let onward = self.hop_of(to);
        let mut state = self.network.state.lock();
        state.atlas.acquaint(to.place(), from);
        if let Some(onward) = onward {
            state.atlas.acquaint(header.sender.proc.place(), onward);
        }
        onward
    }

    /// Pass on a message that is not for this process.
    pub(crate) fn pass(self: &Arc<Self>, from: Hop, header: &MessageHeader, frame: Frame) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let to = header.destination.proc();
        let sent = match self.acquaint(from, header, to) {
            Some(Hop::Hub) => self.pass_up(&runtime, header, frame),
            _ => runtime.peer(to).pass(frame),
        };
        if let Sent::Dead(death) = sent {
            self.tell(from, &death);
        }
    }

    /// Say something to a process of this host, after all messages that were passed on to it.
    fn say_here(&self, proc: ProcId, control: &Control) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let link = runtime.peer_entry(proc).0.link_to(proc);
        if let Some(link) = link
            && let Ok(frame) = Frame::new(Priority::Control, control, Vec::new())
        {
            link.send(&frame, Vec::new());
        }
    }

    pub(super) fn tell(&self, hop: Hop, death: &Death) {
        let net = || Net::Died(Box::new(death.clone()));
        match hop {
            Hop::Local(proc) => self.say_here(proc, &Control::Died(Box::new(death.clone()))),
            Hop::Host(host) => self.say_to(host, net()),
            Hop::Hub => {
                self.flush_answers();
                if let Some(uplink) = &self.network.state.lock().uplink {
                    uplink.say(&net(), Vec::new());
                }
            }
        }
    }

    /// A process of this host ended.
    pub(super) fn tell_end(&self, death: &Death) {
        let hops = {
            let mut state = self.network.state.lock();
            if state.uplink.is_some() {
                vec![Hop::Hub]
            } else {
                state.orphan(death.proc);
                state.atlas.acquaintances(death.proc.place())
            }
        };
        // Processes of this host hear it by their links.
        hops.into_iter().filter(|hop| !matches!(hop, Hop::Local(_))).for_each(|hop| self.tell(hop, death));
    }

    /// A process of another host ended, or could not be started.
    pub(super) fn foreign_end(self: &Arc<Self>, death: Death, from: Option<Hop>) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let hops = {
            let mut state = self.network.state.lock();
            state.atlas.died(death.proc);
            state.orphan(death.proc);
            state.atlas.acquaintances(death.proc.place())
        };
        hops.into_iter().filter(|hop| Some(*hop) != from).for_each(|hop| self.tell(hop, &death));
        let orphans = self.table.lock().foreign_end(death.proc);
        orphans.into_iter().for_each(|mesh| self.stop_orphans(mesh));
        self.forget_caller(death.proc);
        runtime.proc_died(death);
    }

    /// How many frames with messages have gone to attached hosts that are there, and have come from any.
    pub(crate) fn messages_between_hosts(&self) -> (u64, u64) {
        let state = self.network.state.lock();
        let sent = |host: &Host| if let Reach::Up(edge) = &host.reach { edge.messages() } else { 0 };
        (state.hosts.values().map(sent).sum(), self.network.messages.load(Ordering::Relaxed))
    }

    pub(super) fn tell_started(&self, proc: ProcId, pid: i32) {
        if let Some(uplink) = &self.network.state.lock().uplink {
            uplink.say(&Net::Started { proc, pid }, Vec::new());
        }
    }

    /// A process of this host took the place of a dead one.
    pub(super) fn tell_succession(&self, proc: ProcId) {
        let mut state = self.network.state.lock();
        if let Some(uplink) = &state.uplink {
            return uplink.say(&Net::Succeeded(proc), Vec::new());
        }
        // Also those that did not know its predecessor: they learn of the place by its name alone.
        let hosts: Vec<MeshId> = state.hosts.keys().copied().collect();
        state.say_all(hosts, &Net::Succeeded(proc));
    }

    /// A process of another host took the place of a dead one.
    fn foreign_succession(self: &Arc<Self>, proc: ProcId, from: Hop) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let hops = {
            let mut state = self.network.state.lock();
            state.atlas.succeeded(proc);
            let others: Vec<MeshId> = state.hosts.keys().copied().filter(|host| Hop::Host(*host) != from).collect();
            state.say_all(others, &Net::Succeeded(proc));
            state.atlas.acquaintances(proc.place())
        };
        self.route(runtime.proc(), proc);
        for hop in hops {
            if let Hop::Local(other) = hop {
                self.say_here(other, &Control::Route { peer: proc });
            }
        }
    }
}

impl State {
    /// The owner of meshes on other hosts died.
    fn orphan(&mut self, owner: ProcId) {
        for mesh in self.atlas.owned_by(owner) {
            let hosts = self.atlas.layout(mesh).map_or_else(Vec::new, |layout| layout.hosts.clone());
            self.say_all(hosts, &Net::Orphaned(mesh));
        }
    }
}

/// What an attached host says to its hub.
pub(super) struct HostWords {
    pub(super) agent: Weak<Agent>,
    pub(super) host: MeshId,
}

impl Sink for HostWords {
    fn frame(&self, link: &Arc<Link>, frame: Frame, _: Vec<OwnedFd>) {
        let Some(agent) = self.agent.upgrade() else { return };
        if frame.priority == Priority::User {
            agent.network.messages.fetch_add(1, Ordering::Relaxed);
            return agent.edge_message(Hop::Host(self.host), link, frame);
        }
        match frame.decode_header::<Net>() {
            Ok(net) => agent.host_says(self.host, net, frame.parts),
            Err(_) => link.close(),
        }
    }

    fn ended(&self, _: &Arc<Link>, error: Option<String>) {
        let Some(agent) = self.agent.upgrade() else { return };
        let how = error.map_or_else(|| "was closed".into(), |error| format!("broke: {error}"));
        agent.host_lost(self.host, &format!("the connection to it {how}"));
    }
}

/// What the hub says to an attached host.
pub(super) struct HubWords {
    pub(super) agent: Weak<Agent>,
}

impl Sink for HubWords {
    fn frame(&self, link: &Arc<Link>, frame: Frame, _: Vec<OwnedFd>) {
        let Some(agent) = self.agent.upgrade() else { return };
        if frame.priority == Priority::User {
            return agent.edge_message(Hop::Hub, link, frame);
        }
        match frame.decode_header::<Net>() {
            Ok(net) => agent.hub_says(net, frame.parts),
            Err(_) => link.close(),
        }
    }

    fn ended(&self, _: &Arc<Link>, _: Option<String>) {
        if let Some(agent) = self.agent.upgrade() {
            agent.network.credit.close();
            agent.end_with(Ending::Lost);
        }
    }
}

impl Agent {
    fn edge_message(self: &Arc<Self>, from: Hop, link: &Arc<Link>, frame: Frame) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        match frame.decode_header::<MessageHeader>() {
            // Memory is a matter of one host's processes.
            Ok(header) if header.memory.is_some() => link.close(),
            Ok(header) if matches!(header.kind, Kind::Cast) => self.cast_came(from, link, &header, frame),
            Ok(header) if header.destination.proc().place() == runtime.proc().place() => {
                self.network.state.lock().atlas.acquaint(header.sender.proc.place(), from);
                runtime.deliver(header, frame.parts.into_iter().map(Part::Inline).collect(), Some(link));
            }
            Ok(header) => self.pass(from, &header, frame),
            Err(_) => link.close(),
        }
    }

    fn host_says(self: &Arc<Self>, host: MeshId, net: Net, parts: Vec<Bytes>) {
        let from = Hop::Host(host);
        match net {
            Net::Attached { name } => self.host_attached(host, name),
            Net::Refused(reason) => self.host_lost(host, &reason),
            Net::Spawn(spawn) => {
                self.spawn_for(SpawnProcs { welcome: parts.into_iter().next().unwrap_or_default(), ..*spawn });
            }
            Net::Stop(stop) => self.stop(stop),
            Net::Respawn(respawn) => self.respawn(respawn),
            Net::Done(number) => self.errand_done(number, host),
            Net::Signal { proc, signal } => self.signal(proc, signal),
            Net::Started { proc, pid } => self.network.state.lock().atlas.started(proc, pid),
            Net::Died(death) => self.foreign_end(*death, Some(from)),
            Net::Succeeded(proc) => self.foreign_succession(proc, from),
            Net::Announce { mesh, name, count, owner } => {
                let layout = Layout { name, hosts: vec![host], per_host: count, owner };
                let mut state = self.network.state.lock();
                let seekers = state.atlas.chart(mesh, layout);
                state.say_all(seekers, &Net::Located(mesh, Vec::new()));
                drop(state);
                self.connect_awaited(mesh);
            }
            Net::Locate(mesh) => {
                let replaced_here = self.table.lock().replaced(mesh);
                let mut state = self.network.state.lock();
                let is_own = self.own_host() == mesh || state.hosts.contains_key(&mesh);
                if is_own || state.atlas.layout(mesh).is_some() {
                    let replaced = [replaced_here, state.atlas.replaced(mesh)].concat();
                    state.say(host, Net::Located(mesh, replaced));
                } else {
                    state.atlas.seek(mesh, host);
                }
            }
            Net::Output(said) => self.show(host, said, parts.into_iter().next().unwrap_or_default()),
            Net::ChangeLogs { mesh, change } => self.change_logs(mesh, change),
            Net::Flushed(flush) => self.host_flushed(host, flush),
            Net::Attach { .. }
            | Net::Located(..)
            | Net::Orphaned(_)
            | Net::Release { .. }
            | Net::Taken(_)
            | Net::Flush(_)
            | Net::Adopt { .. }
            | Net::Relay { .. }
            | Net::Relayed(_) => {}
        }
    }

    fn hub_says(self: &Arc<Self>, net: Net, parts: Vec<Bytes>) {
        match net {
            Net::Spawn(spawn) => {
                self.spawn_for_hub(SpawnProcs { welcome: parts.into_iter().next().unwrap_or_default(), ..*spawn });
            }
            Net::Stop(stop) => self.stop_here(stop),
            Net::Respawn(respawn) => self.respawn_here(respawn),
            Net::Signal { proc, signal } => self.signal_here(proc, signal),
            Net::Died(death) => self.foreign_end(*death, Some(Hop::Hub)),
            Net::Succeeded(proc) => self.foreign_succession(proc, Hop::Hub),
            Net::Located(mesh, replaced) => {
                let mut state = self.network.state.lock();
                state.atlas.set_beyond(mesh);
                for (rank, generation) in replaced {
                    state.atlas.succeeded(ProcId { mesh, rank, generation });
                }
                drop(state);
                self.connect_awaited(mesh);
            }
            Net::Orphaned(mesh) => {
                self.table.lock().orphaned(mesh);
                self.stop_orphans(mesh);
            }
            Net::Release { request, exit, grace_ms } => self.end_with(Ending::Released { request, exit, grace_ms }),
            Net::Taken(bytes) => self.network.credit.give_back(bytes as usize),
            Net::ChangeLogs { mesh, change } => self.logs.change(mesh, &change),
            Net::Flush(flush) => self.flush_for_hub(flush),
            Net::Adopt { spawn, generations, lost } => {
                let welcome = parts.into_iter().next().unwrap_or_default();
                self.adopt(&SpawnProcs { welcome, ..*spawn }, &generations, &lost);
            }
            Net::Attach { .. }
            | Net::Attached { .. }
            | Net::Refused(_)
            | Net::Done(_)
            | Net::Started { .. }
            | Net::Announce { .. }
            | Net::Locate(_)
            | Net::Output(_)
            | Net::Flushed(_)
            | Net::Relay { .. }
            | Net::Relayed(_) => {}
        }
    }

    /// An attached host serves its client no more.
    fn end_with(&self, ending: Ending) {
        self.network.state.lock().ending.get_or_insert(ending);
        self.network.ended.complete();
    }
}
