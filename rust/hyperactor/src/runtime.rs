//! The runtime of one process: who it is, whom it knows, and where what arrives is delivered.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;

use crate::agent::{Agent, Attachment, Hop};
use crate::cast::{Cast, unbatch};
use crate::death::{Cause, Death};
use crate::error::{Error, Result};
use crate::flow::{self, Flow};
use crate::id::{ActorId, FLOW_ACTOR, MeshId, PROCESS_ACTOR, Place, PortId, ProcId, STACKS_ACTOR};
use crate::keeper::KeeperCommand;
use crate::link::{Link, Reader, Sink};
use crate::logs::{Console, LogChange, RunPlace};
use crate::mailbox::Mailbox;
use crate::memory::exchange::Exchange;
use crate::memory::{Part, Pool};
use crate::message::Message;
use crate::net::edge::Edge;
use crate::park::Interrupt;
use crate::peer::{Channel, Peer, Sent, Way};
use crate::reactor::Reactor;
use crate::remembered::Remembered;
use crate::replies::Replies;
use crate::stacks::{self, Stacks};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::sys::{fork, stdio};
use crate::wire::header::{
    Control, Destination, Kind, MessageHeader, ProcCommand, RespawnProcs, Sender, SpawnProcs, StopProcs,
};
use crate::wire::{Frame, FrameError, Priority};

/// The runtime of one process.
pub struct Runtime {
    proc: ProcId,
    host: String,
    welcome: Bytes,
    log_level: OnceLock<u8>,
    reactor: Arc<Reactor>,
    pool: Arc<Pool>,
    role: OnceLock<Role>,
    peers: RwLock<Remembered<Place, Peer>>,
    mailboxes: RwLock<Remembered<ActorId, Mailbox>>,
    ports: Mutex<HashMap<u64, Arc<Replies>>>,
    next_port: AtomicU64,
    closed: AtomicBool,
    flow: Flow,
    stacks: Arc<OnceLock<Arc<Stacks>>>,
    /// Whether anything was ever reached by an edge.
    has_edges: AtomicBool,
}

/// How a process reaches its host's agent.
enum Role {
    /// It lives here: in a client, or in the program of a host.
    Agent(Arc<Agent>),
    Worker {
        control: Arc<Link>,
        /// The process that the agent lives in.
        agent: ProcId,
    },
}

impl Runtime {
    /// Become a client: a process mesh of one, and the agent of this host.
    ///
    /// Other hosts' processes may start some here, which run `command` where nothing else is said.
    pub fn start_client(keeper: &KeeperCommand, host: &str, command: ProcCommand) -> Result<Arc<Self>> {
        let proc = ProcId::first(MeshId::random()?, 0);
        let runtime = Self::start(proc, host, Bytes::new())?;
        runtime.start_agent(keeper, command)?;
        Ok(runtime)
    }

    /// Become a host that a client has attached: only an agent, which starts processes and passes messages on.
    pub(crate) fn start_host(
        id: MeshId,
        name: &str,
        keeper: &KeeperCommand,
        command: ProcCommand,
    ) -> Result<(Arc<Self>, Arc<Agent>)> {
        let runtime = Self::start(ProcId::first(id, 0), name, Bytes::new())?;
        let agent = runtime.start_agent(keeper, command)?;
        Ok((runtime, agent))
    }

    fn start_agent(self: &Arc<Self>, keeper: &KeeperCommand, command: ProcCommand) -> Result<Arc<Agent>> {
        let agent = Agent::start(keeper, command, self)?;
        let _ = self.role.set(Role::Agent(agent.clone()));
        Ok(agent)
    }

    /// Become a worker: take over the control socket and wait for the welcome.
    pub fn start_worker(control: OwnedFd) -> Result<Arc<Self>> {
        stdio::flush_lines();
        let mut reader = Reader::default();
        let (frame, mut descriptors) = reader
            .first_frame(&control)
            .map_err(|error| Error::Misuse(format!("this worker was not welcomed by an agent: {error}")))?;
        let Control::Welcome { proc, agent, host, log_level } = frame.decode_header()? else {
            return Err(Error::Misuse("the agent's first word to this worker was not a welcome".into()));
        };
        let runtime = Self::start(proc, &host, frame.parts.into_iter().next().unwrap_or_default())?;
        if let Some(level) = log_level {
            let _ = runtime.log_level.set(level);
        }
        let sink = Arc::new(WorkerControl { runtime: Arc::downgrade(&runtime) });
        let control = Link::open_later(control, reader, sink, &runtime.reactor);
        // Known before the first message is read: whoever sent it has to be connected.
        let _ = runtime.role.set(Role::Worker { control: control.clone(), agent });
        if let Some(socket) = descriptors.pop() {
            runtime.open_link(agent, socket)?;
        }
        control.start().map_err(|error| Error::system("watch the control socket", error))?;
        Ok(runtime)
    }

    pub(crate) fn start(proc: ProcId, host: &str, welcome: Bytes) -> Result<Arc<Self>> {
        fork::install();
        let reactor = Reactor::start().map_err(|error| Error::system("start the I/O thread", error))?;
        let runtime = Arc::new(Self {
            proc,
            host: host.into(),
            welcome,
            log_level: OnceLock::new(),
            pool: Pool::new(&reactor),
            reactor,
            role: OnceLock::new(),
            peers: RwLock::default(),
            mailboxes: RwLock::default(),
            ports: Mutex::default(),
            next_port: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            flow: Flow::default(),
            stacks: Arc::default(),
            has_edges: AtomicBool::new(false),
        });
        runtime.open_mailbox(PROCESS_ACTOR);
        let weak = Arc::downgrade(&runtime);
        runtime.pool.on_gone(move |slabs| {
            let runtime = weak.upgrade();
            let peers = runtime.map_or_else(Vec::new, |runtime| runtime.peers.read().values().cloned().collect());
            peers.iter().for_each(|peer| peer.forget(&slabs));
        });
        Ok(runtime)
    }

    /// Which process this is.
    pub fn proc(&self) -> ProcId {
        self.proc
    }

    /// The host's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What this worker was given to start with.
    pub fn welcome(&self) -> &Bytes {
        &self.welcome
    }

    /// From which level on this worker logs, where its mesh was told so before it began.
    pub fn log_level(&self) -> Option<u8> {
        self.log_level.get().copied()
    }

    /// Where large buffers are put on their way to processes of this host.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn flow(&self) -> &Flow {
        &self.flow
    }

    pub(crate) fn reactor(&self) -> &Arc<Reactor> {
        &self.reactor
    }

    /// Fails where the runtime cannot serve any more.
    pub fn check(&self) -> Result<()> {
        if fork::is_forked_child() {
            return Err(Error::Forked);
        }
        if self.is_closed() {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Whether it was shut down.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Open the mailbox of a new actor, with what arrived for it before. An actor that ended leaves its mailbox to the
    /// next one of the same name.
    pub fn open_mailbox(&self, actor: ActorId) -> Arc<Mailbox> {
        let mut mailboxes = self.mailboxes.write();
        let mailbox = mailboxes.get_or_insert(actor, Mailbox::default, Mailbox::is_closed);
        if mailbox.is_closed() {
            *mailbox = Arc::default();
        }
        mailbox.open();
        mailbox.clone()
    }

    /// There is no such actor here and there will be none: whoever asks it something hears why.
    pub fn rule_out(&self, actor: ActorId, reason: String) {
        let mailbox = self.mailboxes.write().get_or_insert(actor, Mailbox::default, Mailbox::is_closed).clone();
        mailbox.close(self.own_death(Cause::Actor { stopped: true, reason, detail: Vec::new() }));
    }

    /// The requests to this process itself.
    pub fn process_mailbox(&self) -> Arc<Mailbox> {
        self.mailboxes.write().get_or_insert(PROCESS_ACTOR, Mailbox::default, Mailbox::is_closed).clone()
    }

    /// Where a message to an actor goes. One that is not there yet is waited for: a reference may be used the moment it
    /// arrives, before the actor that it names.
    fn mailbox_for(self: &Arc<Self>, actor: ActorId) -> Arc<Mailbox> {
        if let Some(mailbox) = self.mailboxes.read().get(&actor) {
            return mailbox.clone();
        }
        let mailbox = self.mailboxes.write().get_or_insert(actor, Mailbox::default, Mailbox::is_closed).clone();
        let (runtime, waiting) = (Arc::downgrade(self), Arc::downgrade(&mailbox));
        self.reactor.after(PENDING_ACTOR_PATIENCE, move || {
            if let (Some(runtime), Some(mailbox)) = (runtime.upgrade(), waiting.upgrade())
                && !mailbox.is_open()
            {
                let reason = "no such actor was started in this process; after a respawn of the process, its actors \
                              are started again by `ActorMesh.respawn`";
                let cause = Cause::Actor { stopped: false, reason: reason.into(), detail: Vec::new() };
                mailbox.close(runtime.own_death(cause));
            }
        });
        mailbox
    }

    /// The mailbox of an actor that something was sent to, or that is here.
    pub(crate) fn known_mailbox(&self, actor: ActorId) -> Option<Arc<Mailbox>> {
        self.mailboxes.read().get(&actor).cloned()
    }

    /// Another process. A link is asked for when it is not known yet.
    pub fn peer(self: &Arc<Self>, id: ProcId) -> Arc<Peer> {
        let (peer, is_new) = self.peer_entry(id);
        if is_new {
            self.connect(id);
        }
        peer
    }

    /// Another process, without asking for a link.
    pub(crate) fn peer_entry(&self, id: ProcId) -> (Arc<Peer>, bool) {
        if let Some(peer) = self.peers.read().get(&id.place()) {
            return (peer.clone(), false);
        }
        let mut is_new = false;
        let mut peers = self.peers.write();
        let make = || {
            is_new = true;
            Peer::awaited(id)
        };
        let peer = peers.get_or_insert(id.place(), make, |peer| peer.death().is_some());
        (peer.clone(), is_new)
    }

    /// The process that holds a place, as far as is known here.
    pub fn process_at(&self, place: Place) -> ProcId {
        if place == self.proc.place() {
            return self.proc;
        }
        self.peers.read().get(&place).map_or(ProcId::first(place.mesh, place.rank), |peer| peer.proc())
    }

    fn connect(self: &Arc<Self>, peer: ProcId) {
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.connect_own(peer),
            Some(Role::Worker { control, .. }) => send_control(control, &Control::Connect { peer }, Vec::new()),
            None => {}
        }
    }

    /// From now on `socket` leads to `peer`.
    pub(crate) fn open_link(self: &Arc<Self>, peer: ProcId, socket: OwnedFd) -> Result<()> {
        let memory = Exchange::new(&self.reactor);
        let sink = Arc::new(Data { runtime: Arc::downgrade(self), peer, memory: memory.clone() });
        let link = Link::open(socket, Reader::default(), sink, &self.reactor)
            .map_err(|error| Error::system("watch a link", error))?;
        memory.set_link(&link);
        Ok(self.peer_entry(peer).0.open(peer, Way::Link(Channel { link, memory }))?)
    }

    /// The agent, where it lives in this process.
    pub(crate) fn agent(&self) -> Option<&Arc<Agent>> {
        match self.role.get() {
            Some(Role::Agent(agent)) => Some(agent),
            _ => None,
        }
    }

    /// From now on `peer` is reached by that edge.
    pub(crate) fn open_edge(&self, peer: ProcId, edge: Edge) {
        self.has_edges.store(true, Ordering::Relaxed);
        // Fails for a message that is too long, of which its sender was told.
        let _ = self.peer_entry(peer).0.open(peer, Way::Edge(edge));
    }

    /// What arrived by a link to a process of this host: for this process, or to be passed on.
    fn arrived(self: &Arc<Self>, link: &Arc<Link>, frame: Frame, descriptors: Vec<OwnedFd>, data: &Data) {
        let deliver = |header, parts| self.deliver(header, parts, Some(link));
        if frame.priority == Priority::Control {
            match frame.decode_header() {
                Ok(Control::Memory(notice)) => data.memory.heed(link, *notice, frame.parts, descriptors, deliver),
                Ok(control) => self.agent_says(link, control, data.peer),
                Err(_) => link.close(),
            }
            return;
        }
        match frame.decode_header::<MessageHeader>() {
            Ok(header) if is_local_only(&header.kind) => link.close(),
            Ok(header) if matches!(header.kind, Kind::Cast) => match self.agent() {
                Some(agent) if header.memory.is_none() => agent.cast_came(Hop::Local(data.peer), link, &header, frame),
                _ => link.close(),
            },
            Ok(header) if header.destination.proc().place() == self.proc.place() => {
                data.memory.accept(link, header, frame.parts, deliver);
            }
            Ok(header) => match self.agent() {
                Some(agent) if header.memory.is_none() => agent.pass(Hop::Local(data.peer), &header, frame),
                // What it says about memory is for the next process alone.
                Some(_) => link.close(),
                // Whoever wants an answer gets it from the message's end.
                None => data.memory.accept(link, header, frame.parts, deliver),
            },
            // A peer that breaks the protocol is not listened to any more.
            Err(_) => link.close(),
        }
    }

    /// The agent says something that has its place among the messages that it passes on.
    fn agent_says(self: &Arc<Self>, link: &Arc<Link>, control: Control, from: ProcId) {
        match (self.role.get(), control) {
            (Some(Role::Worker { agent, .. }), Control::Route { peer }) if *agent == from => {
                self.open_edge(peer, Edge::new(link.clone()));
            }
            (Some(Role::Worker { agent, .. }), Control::Died(death)) if *agent == from => self.proc_died(*death),
            _ => link.close(),
        }
    }

    /// Send a message to wherever its destination lies.
    pub fn send(self: &Arc<Self>, header: MessageHeader, parts: &[Part]) -> std::result::Result<Sent, FrameError> {
        let proc = header.destination.proc();
        if proc.place() == self.proc.place() {
            self.deliver(header, parts.to_vec(), None);
            return Ok(Sent::OnItsWay);
        }
        self.peer(proc).send(self, header, parts.to_vec())
    }

    /// Whether processes of a mesh may lie on other hosts.
    pub(crate) fn may_lie_elsewhere(&self, mesh: MeshId) -> bool {
        let has_edges = self.has_edges.load(Ordering::Relaxed);
        has_edges && self.agent().is_none_or(|agent| agent.lies_elsewhere(mesh))
    }

    /// Send a message once to all hosts that its members lie on, which `edge` and others like it lead to.
    pub(crate) fn cast(
        &self,
        header: &MessageHeader,
        cast: Cast,
        parts: &[Bytes],
        edge: &Edge,
    ) -> std::result::Result<(), FrameError> {
        match self.agent() {
            Some(agent) => agent.cast_down(header, cast, parts),
            None => {
                edge.send(&cast.frame(header, parts)?);
                Ok(())
            }
        }
    }

    /// Client only, for tests and for whoever looks into it: how many frames with messages have gone to attached hosts that
    /// are there, and have come from any.
    pub fn messages_between_hosts(&self) -> (u64, u64) {
        self.agent().map_or((0, 0), |agent| agent.messages_between_hosts())
    }

    /// Deliver a message to this process, which came by `link` if it came from another.
    pub(crate) fn deliver(self: &Arc<Self>, header: MessageHeader, parts: Vec<Part>, link: Option<&Arc<Link>>) {
        let destination = header.destination;
        if header.kind.is_for_many() {
            return self.deliver_batch(&header, parts, link);
        }
        let cost = if flow::takes_room(&header) && header.sender.proc != self.proc { flow::cost(&parts) } else { 0 };
        let mut message = Message::new(header, parts, self);
        match destination {
            // Another generation's: whoever wants an answer gets it from the message's end.
            _ if destination.proc() != self.proc => {}
            Destination::Actor(_, STACKS_ACTOR) => stacks::answer(&self.stacks, message),
            Destination::Actor(_, FLOW_ACTOR) => self.hear(&message),
            Destination::Actor(_, actor) => {
                let mailbox = self.mailbox_for(actor);
                if cost > 0 {
                    let from = message.sender.proc;
                    mailbox.charge(&mut message, cost, || self.peer(from).inbound(from, self));
                }
                if let Some(answer) = &mut message.answer {
                    answer.delivered_to(&mailbox);
                }
                mailbox.push(message, link);
            }
            Destination::Port(port) => self.deliver_answer(port, message),
        }
    }

    /// Deliver the answers that came in one frame. Nothing else for many is for a process.
    fn deliver_batch(self: &Arc<Self>, header: &MessageHeader, parts: Vec<Part>, link: Option<&Arc<Link>>) {
        if !matches!(header.kind, Kind::Batch) {
            return;
        }
        let runs = parts.iter().map(Part::to_bytes).collect();
        let delivered = unbatch(runs, |header, frame| {
            self.deliver(header, frame.parts.into_iter().map(Part::Inline).collect(), link);
        });
        if let (Err(_), Some(link)) = (delivered, link) {
            link.close();
        }
    }

    fn deliver_answer(&self, port: PortId, message: Message) {
        let replies = self.ports.lock().get(&port.index).cloned();
        // Whoever asked may have cancelled meanwhile.
        if let Some(replies) = replies
            && replies.push(message)
        {
            self.close_port(port);
        }
    }

    /// A place for answers.
    pub(crate) fn open_port(&self, make: impl FnOnce(PortId) -> Replies) -> Arc<Replies> {
        let index = self.next_port.fetch_add(1, Ordering::Relaxed);
        let replies = Arc::new(make(PortId { proc: self.proc, index }));
        self.ports.lock().insert(index, replies.clone());
        // The end of the runtime answers the ports that it finds; this one may have come after it had looked.
        if self.is_closed() {
            self.answer_for_end(&replies);
        }
        replies
    }

    /// The agent has done what this process asked it for.
    pub(crate) fn agent_answered(&self, port: PortId) {
        self.deliver_answer(port, Message::bare(Kind::Value, 0, self.as_sender()));
    }

    /// Take no more answers there.
    pub fn close_port(&self, port: PortId) {
        self.ports.lock().remove(&port.index);
    }

    /// A target that is dead takes its place among the answers.
    pub(crate) fn answer_for_dead(&self, replies: &Replies, death: &Death, rank: u32) {
        if replies.push(Message::dead(death, rank))
            && let Some(port) = replies.port
        {
            self.close_port(port);
        }
    }

    /// A process ended: what it still said is delivered, then every call to it is answered in its place.
    pub(crate) fn proc_died(&self, death: Death) {
        let (peer, _) = self.peer_entry(death.proc);
        if let Some(link) = peer.link_to(death.proc) {
            link.drain();
        }
        if !peer.set_dead(death.clone()) {
            return;
        }
        let open: Vec<Arc<Replies>> = self.ports.lock().values().cloned().collect();
        for replies in open {
            if replies.proc_died(&death)
                && let Some(port) = replies.port
            {
                self.close_port(port);
            }
        }
        // A process without a process id is one that cannot be reached, not one that died.
        if death.pid != 0 || !matches!(death.cause, Cause::Lost(_)) {
            self.process_mailbox().push(Message::notice(death), None);
        }
    }

    /// There is no way to a process, which may live: calls to it fail, but nobody is told of a death.
    fn lose_link(&self, proc: ProcId, reason: &str) {
        let cause = Cause::Lost(reason.into());
        self.proc_died(Death::new(proc, cause));
    }

    /// The end of this process or of an actor in it.
    pub fn own_death(&self, cause: Cause) -> Death {
        Death { host: self.host.clone(), pid: std::process::id() as i32, ..Death::new(self.proc, cause) }
    }

    /// Start the processes of a mesh. In a client fails where a limit is in the way; elsewhere, and for what goes wrong
    /// later, calls to the members fail.
    pub fn spawn_procs(self: &Arc<Self>, spawn: SpawnProcs) -> Result<()> {
        self.check()?;
        for rank in 0..spawn.count {
            // Where its process lies is known before anybody can ask.
            self.peer_entry(ProcId::first(spawn.mesh, rank));
        }
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.spawn(spawn),
            Some(Role::Worker { control, .. }) => {
                let welcome = spawn.welcome.clone();
                send_control(control, &Control::Spawn(Box::new(spawn)), vec![welcome]);
                Ok(())
            }
            None => Err(Error::Closed),
        }
    }

    /// Let the processes of a mesh end; ready when all have.
    pub fn stop_procs(self: &Arc<Self>, mesh: MeshId, reason: String, grace: Duration) -> Result<Arc<Replies>> {
        self.check()?;
        let replies = self.open_port(|port| Replies::of_agent(port, 1));
        let Some(reply) = replies.port else { return Ok(replies) };
        let stop = StopProcs { mesh, reason, grace_ms: grace.as_millis() as u64, reply };
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.stop(stop),
            Some(Role::Worker { control, .. }) => send_control(control, &Control::StopProcs(stop), Vec::new()),
            None => {}
        }
        Ok(replies)
    }

    /// Start a new process at places of a mesh, in the place of dead ones (or, for named ranks, of living ones, which are
    /// killed); ready when all run. Without ranks: at every place whose process is dead.
    pub fn respawn_procs(self: &Arc<Self>, mesh: MeshId, ranks: Option<Vec<u32>>) -> Result<Arc<Replies>> {
        self.check()?;
        // Each named place is answered for when its new process runs.
        let answers = ranks.as_ref().map_or(1, Vec::len);
        let replies = self.open_port(|port| Replies::of_agent(port, answers));
        let Some(reply) = replies.port else { return Ok(replies) };
        if answers == 0 {
            self.close_port(reply);
        }
        let respawn = RespawnProcs { mesh, ranks, reply };
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.respawn(respawn),
            Some(Role::Worker { control, .. }) => send_control(control, &Control::Respawn(respawn), Vec::new()),
            None => {}
        }
        Ok(replies)
    }

    /// Client only: where the output of processes is kept and shown. Has no effect after the first process.
    pub fn set_up_logs(&self, place: Option<RunPlace>, console: Console) {
        if let Some(Role::Agent(agent)) = self.role.get() {
            agent.logs().set_up(place, console);
        }
    }

    /// Workers of this host will need these modules: copies that start from now on shall have them.
    pub fn load_for_workers(&self, modules: Vec<String>) {
        if let Some(Role::Agent(agent)) = self.role.get() {
            agent.load_for_workers(modules);
        }
    }

    /// Treat the output of a mesh otherwise from now on.
    pub fn change_logs(&self, mesh: MeshId, change: LogChange) -> Result<()> {
        self.check()?;
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.change_logs(mesh, change),
            Some(Role::Worker { control, .. }) => {
                send_control(control, &Control::ChangeLogs { mesh, change }, Vec::new())
            }
            None => {}
        }
        Ok(())
    }

    /// Kill a process of this host that something could not be stopped in. Whoever has something else there is told.
    pub fn kill_for_stop(&self, proc: ProcId, reason: String) -> Result<()> {
        self.check()?;
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.kill_for_stop(proc, reason),
            Some(Role::Worker { control, .. }) => {
                send_control(control, &Control::KillForStop { proc, reason }, Vec::new());
            }
            None => {}
        }
        Ok(())
    }

    /// Show all output of processes that was written until now, where it is shown by this process. False if nothing
    /// moved for as long as `patience`.
    pub fn flush_logs(&self, patience: Duration) -> bool {
        match self.role.get() {
            Some(Role::Agent(agent)) if !fork::is_forked_child() => agent.flush_logs(patience),
            _ => true,
        }
    }

    /// Attach hosts, new ones or others in the places of lost ones; each answers with its name, or with why it cannot be
    /// attached. Only a client can.
    pub fn attach_hosts(self: &Arc<Self>, attachments: Vec<Attachment>) -> Result<Arc<Replies>> {
        let (agent, replies) = self.ask_agent("attach hosts", attachments.len())?;
        if let Some(reply) = replies.port {
            (0..).zip(attachments).for_each(|(rank, attachment)| agent.attach(attachment, reply, rank));
        }
        Ok(replies)
    }

    /// Let attached hosts end all processes and serve this client no more, or end; ready when all have.
    pub fn release_hosts(self: &Arc<Self>, hosts: &[MeshId], exit: bool, grace: Duration) -> Result<Arc<Replies>> {
        let (agent, replies) = self.ask_agent("stop hosts", 1)?;
        if let Some(reply) = replies.port {
            agent.release(hosts, exit, grace, reply);
        }
        Ok(replies)
    }

    fn ask_agent(&self, what: &str, answers: usize) -> Result<(&Arc<Agent>, Arc<Replies>)> {
        self.check()?;
        let agent = self.agent().ok_or_else(|| {
            Error::Misuse(format!("only the client can {what}; this is a process that was spawned by one"))
        })?;
        Ok((agent, self.open_port(|port| Replies::of_agent(port, answers))))
    }

    /// Send a signal to a process.
    pub fn signal(&self, proc: ProcId, signal: i32) -> Result<()> {
        self.check()?;
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.signal(proc, signal),
            Some(Role::Worker { control, .. }) => send_control(control, &Control::Signal { proc, signal }, Vec::new()),
            None => {}
        }
        Ok(())
    }

    /// The process ids of a mesh that this process's agent started, 0 where one does not run.
    pub fn pids(&self, mesh: MeshId) -> Vec<i32> {
        match self.role.get() {
            Some(Role::Agent(agent)) => agent.pids(mesh),
            _ => Vec::new(),
        }
    }

    /// From now on this process tells what its threads are doing.
    pub fn tell_stacks(&self, stacks: Stacks) {
        let _ = self.stacks.set(Arc::new(stacks));
    }

    /// Who of these is known here to be dead. Asks nobody.
    pub fn deaths(&self, mesh: MeshId, ranks: &[u32]) -> Vec<(u32, Arc<Death>)> {
        let peers = self.peers.read();
        let death = |&rank| Some((rank, peers.get(&Place { mesh, rank })?.death()?));
        ranks.iter().filter_map(death).collect()
    }

    /// End: a client ends all processes of its host within `grace` or a little more; a worker closes its links.
    ///
    /// A client that is interrupted meanwhile kills what still lives, and returns with what the interrupt check said.
    pub fn shutdown<E>(&self, grace: Duration, interrupt: Interrupt<'_, E>) -> Option<E> {
        if fork::is_forked_child() || self.closed.swap(true, Ordering::Relaxed) {
            return None;
        }
        let interrupted = match self.role.get() {
            Some(Role::Agent(agent)) => agent.shutdown(grace, interrupt),
            _ => None,
        };
        // Whoever waits for room looks whether it is over.
        self.peers.read().values().for_each(|peer| peer.outbound().wake());
        let death = self.own_death(Cause::Stopped("its process ends".into()));
        let mailboxes: Vec<Arc<Mailbox>> = self.mailboxes.read().values().cloned().collect();
        mailboxes.iter().for_each(|mailbox| mailbox.close(death.clone()));
        // Whoever still waits for an answer hears that none comes.
        let open: Vec<Arc<Replies>> = self.ports.lock().drain().map(|(_, replies)| replies).collect();
        open.iter().for_each(|replies| self.answer_for_end(replies));
        self.flush_links();
        self.reactor.stop();
        interrupted
    }

    /// This process ends, so no answer comes any more.
    fn answer_for_end(&self, replies: &Replies) {
        let death = self.own_death(Cause::Stopped("its process ends".into()));
        for asked in replies.pending() {
            replies.push(Message::dead(&Death { proc: asked.proc, ..death.clone() }, asked.rank));
        }
        replies.complete();
    }

    /// How many bytes of what this process sent have not left it yet.
    pub fn backlog(&self) -> usize {
        // One edge leads to many.
        let links: HashMap<usize, Arc<Link>> =
            self.peers.read().values().filter_map(|peer| peer.link()).map(|link| (link.key(), link)).collect();
        links.values().map(|link| link.backlog()).sum()
    }

    /// Give answers that are still queued a moment to leave.
    fn flush_links(&self) {
        let links: Vec<Arc<Link>> = self.peers.read().values().filter_map(|peer| peer.link()).collect();
        let until = std::time::Instant::now() + FLUSH_TIME;
        while std::time::Instant::now() < until && !links.iter().all(|link| link.is_flushed()) {
            std::thread::yield_now();
        }
    }
}

/// How long messages wait for an actor that is not there yet.
///
/// Its start may queue behind much data on another link; longer than this nothing on one host takes.
const PENDING_ACTOR_PATIENCE: Duration = Duration::from_secs(30);

/// How long after the end of a link the news of its peer's death may take.
const CONFIRMATION_PATIENCE: Duration = Duration::from_secs(2);

/// How long a process that ends waits for its peers to take what it sent.
///
/// A peer that reads takes it in microseconds; one that does not read is stopped or dead.
const FLUSH_TIME: Duration = Duration::from_millis(200);

/// Send a control message.
pub(crate) fn send_control(link: &Arc<Link>, control: &Control, parts: Vec<Bytes>) {
    send_control_with(link, control, parts, Vec::new());
}

/// Send a control message with descriptors.
pub(crate) fn send_control_with(link: &Arc<Link>, control: &Control, parts: Vec<Bytes>, descriptors: Vec<OwnedFd>) {
    // Control headers are plain data, which always encodes.
    if let Ok(mut frame) = Frame::new(Priority::Control, control, parts) {
        frame.descriptors = descriptors.len() as u8;
        link.send(&frame, descriptors);
    }
}

/// What arrives from other processes.
struct Data {
    runtime: Weak<Runtime>,
    peer: ProcId,
    memory: Arc<Exchange>,
}

impl Sink for Data {
    fn frame(&self, link: &Arc<Link>, frame: Frame, descriptors: Vec<OwnedFd>) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.arrived(link, frame, descriptors, self);
        }
    }

    /// A hint that the peer is dead. When nobody confirms it, the peer lives and only the link is gone.
    fn ended(&self, _: &Arc<Link>, error: Option<String>) {
        self.memory.end();
        let Some(runtime) = self.runtime.upgrade() else { return };
        let (weak, peer) = (self.runtime.clone(), self.peer);
        runtime.reactor.after(CONFIRMATION_PATIENCE, move || {
            if let Some(runtime) = weak.upgrade()
                && !runtime.is_closed()
            {
                runtime.lose_link(peer, &error.unwrap_or_else(|| "its link was closed".into()));
            }
        });
    }
}

fn is_local_only(kind: &Kind) -> bool {
    matches!(kind, Kind::Death(_))
}

/// What a worker hears from its agent.
struct WorkerControl {
    runtime: Weak<Runtime>,
}

impl Sink for WorkerControl {
    fn frame(&self, link: &Arc<Link>, frame: Frame, descriptors: Vec<OwnedFd>) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        match frame.decode_header::<Control>() {
            Ok(Control::Link { peer }) => {
                let opened =
                    descriptors.into_iter().next().is_some_and(|socket| runtime.open_link(peer, socket).is_ok());
                if !opened {
                    runtime.lose_link(peer, "this process has no descriptor left for a link to it (`ulimit -n`)");
                }
            }
            Ok(Control::Died(death)) => runtime.proc_died(*death),
            Ok(Control::Answered { port }) => runtime.agent_answered(port),
            Ok(Control::Stop) => runtime.end_worker("its agent stopped it"),
            Ok(_) => {}
            Err(_) => link.close(),
        }
    }

    fn ended(&self, _: &Arc<Link>, _: Option<String>) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.end_worker("its agent is gone");
        }
    }
}

impl Runtime {
    /// Let the process's main loop end it.
    fn end_worker(&self, reason: &str) {
        self.process_mailbox().close(self.own_death(Cause::Stopped(reason.into())));
    }

    /// The sender of what the runtime itself says.
    pub fn as_sender(&self) -> Sender {
        Sender { proc: self.proc, actor: PROCESS_ACTOR }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::system("wait", error)
    }
}
