//! The agent of a host: starts processes through the keeper, brokers links between them, and says who died.
//!
//! It lives in the client, or in the program of a host that a client has attached. Nothing here waits: requests come
//! from any thread, events from the I/O thread. What concerns other hosts is in [`remote`].
//!
//! # Invariants
//! - **AGENT-1** A process that was started ends exactly once, by the keeper's word; whoever has a link to it is told,
//!   and only then does another process take its place.
//! - **AGENT-2** The processes that a dead process owned are stopped.
//! - **AGENT-3** A request for a link is answered: with the link, or with the death of the process.

mod attach;
mod casting;
mod remote;
mod table;

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::Signal;

use crate::death::{Cause, Death};
use crate::error::{Error, Result};
use crate::id::{MeshId, PortId, ProcId};
use crate::keeper::protocol::{Event, Launch, Request};
use crate::keeper::{self, KeeperCommand, KeeperProcess};
use crate::link::{Link, Reader, Sink};
use crate::logs::Logs;
use crate::park::Interrupt;
use crate::runtime::{Runtime, send_control, send_control_with};
use crate::sys::{limits, socket};
use crate::wire::header::{Control, ProcCommand, RespawnProcs, SpawnProcs, StopProcs};
use crate::wire::{Frame, Priority};
pub use attach::{Attachment, HostSession};
use casting::Casting;
pub use remote::Hop;
use remote::Network;
use table::{Record, Table};

/// The agent of this host.
pub struct Agent {
    runtime: Weak<Runtime>,
    keeper: OnceLock<Arc<Link>>,
    process: Mutex<KeeperProcess>,
    table: Mutex<Table<Arc<Link>>>,
    logs: Logs,
    network: Network,
    casting: Casting,
    /// What processes run where nobody says otherwise.
    host_command: ProcCommand,
    /// A process ended.
    ended: Condvar,
}

/// How long a link to a process of a mesh that was never heard of is waited for.
///
/// A reference may overtake the news that its mesh exists, by milliseconds.
const UNKNOWN_MESH_PATIENCE: Duration = Duration::from_secs(10);

/// How long a link waits for a descriptor to become free.
const LINK_PATIENCE: Duration = Duration::from_secs(5);

/// How often it is tried meanwhile.
const LINK_RETRY: Duration = Duration::from_millis(100);

/// How long the processes of a dead owner may take to end.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// How often a wait for the ends of processes looks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the keeper may take to end what is left and itself.
const KEEPER_PATIENCE: Duration = Duration::from_secs(3);

/// How long the client's streams may take nothing while the last output of the processes is shown.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

impl Agent {
    /// Start the keeper and look after it.
    pub fn start(command: &KeeperCommand, host_command: ProcCommand, runtime: &Arc<Runtime>) -> Result<Arc<Self>> {
        let (process, socket) =
            keeper::start(command).map_err(|error| Error::system("start the keeper process", error))?;
        let agent = Arc::new(Self {
            runtime: Arc::downgrade(runtime),
            keeper: OnceLock::new(),
            process: Mutex::new(process),
            table: Mutex::default(),
            logs: Logs::new(runtime.host()),
            network: Network::default(),
            casting: Casting::default(),
            host_command,
            ended: Condvar::new(),
        });
        let sink = Arc::new(KeeperEvents { agent: Arc::downgrade(&agent) });
        let link = Link::open(socket, Reader::default(), sink, runtime.reactor())
            .map_err(|error| Error::system("watch the keeper", error))?;
        let _ = agent.keeper.set(link);
        Ok(agent)
    }

    /// Start the processes of a mesh, wherever they shall lie.
    pub fn spawn(self: &Arc<Self>, spawn: SpawnProcs) -> Result<()> {
        if self.is_elsewhere(&spawn) {
            self.spawn_elsewhere(spawn);
            return Ok(());
        }
        self.announce(&spawn);
        self.spawn_here(spawn)
    }

    fn spawn_here(self: &Arc<Self>, spawn: SpawnProcs) -> Result<()> {
        limits::check_processes(spawn.count.into())?;
        let mut table = self.table.lock();
        if !table.add_mesh(&spawn) {
            return Ok(());
        }
        self.logs.add_mesh(&spawn, |mesh| table.knows(mesh));
        drop(table);
        for rank in spawn.ranks() {
            let proc = ProcId::first(spawn.mesh, rank);
            if let Err(error) = self.launch(proc, &spawn) {
                self.proc_ended(proc, Cause::Launch(error.to_string()));
            }
        }
        self.connect_awaited(spawn.mesh);
        Ok(())
    }

    fn launch(self: &Arc<Self>, proc: ProcId, spawn: &SpawnProcs) -> Result<()> {
        let Some(runtime) = self.runtime.upgrade() else { return Err(Error::Closed) };
        let (control, control_theirs) = socket_pair()?;
        let (data, data_theirs) = socket_pair()?;
        let sink = Arc::new(WorkerRequests { agent: Arc::downgrade(self), proc });
        let control = Link::open(control, Reader::default(), sink, runtime.reactor())
            .map_err(|error| Error::system("watch a control socket", error))?;
        let log_level = self.logs.level_of(proc.mesh);
        let welcome = Control::Welcome { proc, agent: runtime.proc(), host: runtime.host().into(), log_level };
        send_control_with(&control, &welcome, vec![spawn.welcome.clone()], vec![data_theirs]);
        runtime.open_link(proc, data)?;
        let mut table = self.table.lock();
        let Some(launch) = table.add_launch(proc, control.clone()) else {
            control.close();
            return Err(Error::Closed);
        };
        let command = spawn.command(proc.rank).on(&self.host_command);
        let variable = |(name, value): (_, Option<_>)| Some((name, value?));
        let request = Request::Launch(Launch {
            launch,
            program: command.program,
            arguments: command.arguments,
            environment: command.environment.into_iter().filter_map(variable).collect(),
            directory: command.directory,
            variant: spawn.variant.clone(),
        });
        // Before anybody else can have a signal sent to it.
        let output = self.logs.open(proc).into_iter().flatten();
        self.tell_keeper(&request, std::iter::once(control_theirs).chain(output).collect());
        drop(table);
        if spawn.owner.proc != runtime.proc() {
            self.connect(spawn.owner.proc, proc);
        }
        Ok(())
    }

    /// Workers will need these modules: where they are copies, those that start from now on have them.
    pub fn load_for_workers(&self, modules: Vec<String>) {
        self.tell_keeper(&Request::Load { modules }, Vec::new());
    }

    fn tell_keeper(&self, request: &Request, descriptors: Vec<OwnedFd>) {
        let Some(keeper) = self.keeper.get() else { return };
        // Requests are plain data, which always encodes.
        if let Ok(mut frame) = Frame::new(Priority::Control, request, Vec::new()) {
            frame.descriptors = descriptors.len() as u8;
            keeper.send(&frame, descriptors);
        }
    }

    /// This process wants a link to one that it has none to. Every process that this agent starts gets one.
    pub fn connect_own(self: &Arc<Self>, to: ProcId) {
        if let Some(runtime) = self.runtime.upgrade() {
            self.connect(runtime.proc(), to);
        }
    }

    /// The output of the processes of this host.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// Show all output that was written until now, on all hosts. False if nothing moved for as long as `patience`.
    pub fn flush_logs(&self, patience: Duration) -> bool {
        let hosts = self.flush_hosts(patience);
        self.logs.flush(patience) && hosts
    }

    /// Give `from` and `to` a link, or `from` the reason why not.
    fn connect(self: &Arc<Self>, from: ProcId, to: ProcId) {
        self.connect_until(from, to, Instant::now() + LINK_PATIENCE);
    }

    /// Whoever waits for processes of a mesh can be linked now, or told why not.
    fn connect_awaited(self: &Arc<Self>, mesh: MeshId) {
        // Apart from the loop: connecting takes the lock, too.
        let awaited = self.table.lock().take_awaited(mesh);
        awaited.into_iter().for_each(|(from, to)| self.connect(from, to));
    }

    fn connect_until(self: &Arc<Self>, from: ProcId, to: ProcId, deadline: Instant) {
        let mut table = self.table.lock();
        match table.find(to) {
            None => {
                let gone = self.runtime.upgrade().and_then(|runtime| table.gone(to, runtime.host()));
                let is_remote = self.is_remote(to);
                if gone.is_none() && !is_remote {
                    table.await_mesh(from, to);
                }
                drop(table);
                match gone {
                    Some(death) => self.tell_death(from, death),
                    None if is_remote => self.route(from, to),
                    None => {
                        self.locate(to.mesh);
                        self.give_up_later(from, to);
                    }
                }
            }
            Some(Record { death: Some(death), .. }) => {
                let death = death.clone();
                table.acquaint(from, to);
                drop(table);
                self.tell_death(from, death);
            }
            Some(Record { control: Some(control), .. }) => {
                let theirs = control.clone();
                let to = table.current(to);
                let Some(ours) = table.control(from) else { return };
                if !table.link(from, to) {
                    return;
                }
                drop(table);
                if let Err(error) = broker(&ours, from, &theirs, to) {
                    self.cannot_link(from, to, &error, deadline);
                }
            }
            // It is being launched, and is connected when that is done.
            Some(_) => table.await_mesh(from, to),
        }
    }

    /// There is no room for a link now; what shall go over it waits a while for room.
    fn cannot_link(self: &Arc<Self>, from: ProcId, to: ProcId, error: &Error, deadline: Instant) {
        self.table.lock().forget_link(from, to);
        let Some(runtime) = self.runtime.upgrade() else { return };
        if Instant::now() < deadline {
            let agent = Arc::downgrade(self);
            runtime.reactor().after(LINK_RETRY, move || {
                if let Some(agent) = agent.upgrade() {
                    agent.connect_until(from, to, deadline);
                }
            });
            return;
        }
        let cause = Cause::Lost(format!("its host has no room for a link to it: {error}"));
        self.tell_death(from, Death::new(to, cause));
    }

    fn give_up_later(self: &Arc<Self>, from: ProcId, to: ProcId) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let agent = Arc::downgrade(self);
        runtime.reactor().after(UNKNOWN_MESH_PATIENCE, move || {
            let Some(agent) = agent.upgrade() else { return };
            if agent.table.lock().stop_awaiting(from, to) {
                let cause = Cause::Lost("no such process was ever started on this host".into());
                agent.tell_death(from, Death::new(to, cause));
            }
        });
    }

    fn tell_death(&self, whom: ProcId, death: Death) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        if whom == runtime.proc() {
            runtime.proc_died(death);
            return;
        }
        let control = self.table.lock().control(whom);
        match (control, self.hop_of(whom)) {
            (Some(control), _) => send_control(&control, &Control::Died(Box::new(death)), Vec::new()),
            (None, Some(hop)) => self.tell(hop, &death),
            (None, None) => {}
        }
    }

    /// Let the processes of a mesh end, wherever they lie, and tell who asked when all have.
    pub fn stop(self: &Arc<Self>, stop: StopProcs) {
        if let Some(stop) = self.stop_elsewhere(stop) {
            self.stop_here(stop);
        }
    }

    fn stop_here(self: &Arc<Self>, stop: StopProcs) {
        self.forget_mesh(stop.mesh);
        let running = {
            let mut table = self.table.lock();
            if !table.stop(stop.mesh, &stop.reason, stop.reply) {
                drop(table);
                return self.answer(stop.reply);
            }
            table.running(stop.mesh)
        };
        self.ask_to_end(&running);
        self.kill_later(stop.mesh, Duration::from_millis(stop.grace_ms));
    }

    fn kill_later(self: &Arc<Self>, mesh: MeshId, grace: Duration) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let agent = Arc::downgrade(self);
        runtime.reactor().after(grace, move || {
            let Some(agent) = agent.upgrade() else { return };
            let running = agent.table.lock().running(mesh);
            running.iter().for_each(|(proc, _)| agent.signal(*proc, KILL));
        });
    }

    /// Put new processes in the places of dead ones, wherever they lie, and tell who asked when all run.
    pub fn respawn(self: &Arc<Self>, respawn: RespawnProcs) {
        if let Some(respawn) = self.respawn_elsewhere(respawn) {
            self.respawn_here(respawn);
        }
    }

    fn respawn_here(self: &Arc<Self>, respawn: RespawnProcs) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let agent = Arc::downgrade(self);
        // On the I/O thread, which tells of a death as a whole: news of it that came after its successor's would be old
        // news, and nobody would hear it.
        runtime.reactor().after(Duration::ZERO, move || {
            if let Some(agent) = agent.upgrade() {
                agent.respawn_now(&respawn);
            }
        });
    }

    fn respawn_now(self: &Arc<Self>, respawn: &RespawnProcs) {
        let place = |rank| ProcId::first(respawn.mesh, rank);
        let Some(ranks) = &respawn.ranks else {
            let dead = self.table.lock().dead_ranks(respawn.mesh);
            dead.into_iter().for_each(|rank| self.launch_successor(place(rank)));
            return self.answer(respawn.reply);
        };
        for &rank in ranks {
            let mut table = self.table.lock();
            let proc = table.current(place(rank));
            let lives = table.replace_later(proc, respawn.reply);
            drop(table);
            if lives {
                self.signal(proc, KILL);
            } else {
                self.launch_successor(proc);
                self.answer(respawn.reply);
            }
        }
    }

    fn launch_successor(self: &Arc<Self>, dead: ProcId) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let mut table = self.table.lock();
        let Some(spawn) = table.spawn_of(dead.mesh) else { return };
        let Some((proc, acquainted)) = table.succeed(dead) else { return };
        drop(table);
        self.tell_succession(proc);
        if let Err(error) = self.launch(proc, &spawn) {
            self.proc_ended(proc, Cause::Launch(error.to_string()));
        }
        self.connect_awaited(proc.mesh);
        for other in acquainted {
            if other != spawn.owner.proc && other != runtime.proc() {
                self.connect(other, proc);
            }
        }
    }

    /// Kill a process that something could not be stopped in.
    pub fn kill_for_stop(&self, proc: ProcId, reason: String) {
        self.table.lock().kill_for_stop(proc, reason);
        self.signal(proc, KILL);
    }

    /// Send a signal to a process.
    pub fn signal(&self, proc: ProcId, signal: i32) {
        if self.is_remote(proc) { self.signal_elsewhere(proc, signal) } else { self.signal_here(proc, signal) }
    }

    fn signal_here(&self, proc: ProcId, signal: i32) {
        let launch = self.table.lock().launch_of(proc);
        if let Some(launch) = launch {
            self.tell_keeper(&Request::Signal { launch, signal }, Vec::new());
        }
    }

    /// The process ids of a mesh, 0 where one does not run.
    pub fn pids(&self, mesh: MeshId) -> Vec<i32> {
        let here = self.table.lock().pids(mesh);
        if here.is_empty() { self.pids_elsewhere(mesh) } else { here }
    }

    /// Tell who asked that it is done: by the way that the news of what was done took, so that it comes after them.
    fn answer(&self, port: PortId) {
        if self.answer_hub(port) {
            return;
        }
        let Some(runtime) = self.runtime.upgrade() else { return };
        if port.proc == runtime.proc() {
            return runtime.agent_answered(port);
        }
        let control = self.table.lock().control(port.proc);
        match control {
            Some(control) => send_control(&control, &Control::Answered { port }, Vec::new()),
            None => self.answer_elsewhere(&runtime, port),
        }
    }

    fn proc_ended(self: &Arc<Self>, proc: ProcId, cause: Cause) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let tail = self.logs.ended(proc);
        let Some(end) = self.table.lock().end(proc, cause, runtime.host(), tail) else { return };
        self.ended.notify_all();
        runtime.proc_died(end.death.clone());
        for control in &end.linked {
            send_control(control, &Control::Died(Box::new(end.death.clone())), Vec::new());
        }
        self.tell_end(&end.death);
        if let Some(control) = end.control {
            control.close();
        }
        end.waiters.into_iter().for_each(|port| self.answer(port));
        end.orphans.into_iter().for_each(|mesh| self.stop_orphans(mesh));
        if !end.replacement.is_empty() {
            self.launch_successor(proc);
            end.replacement.into_iter().for_each(|port| self.answer(port));
        }
    }

    fn stop_orphans(self: &Arc<Self>, mesh: MeshId) {
        self.forget_mesh(mesh);
        let running = {
            let mut table = self.table.lock();
            table.forget_if_gone(mesh);
            table.running(mesh)
        };
        self.ask_to_end(&running);
        self.kill_later(mesh, ORPHAN_GRACE);
    }

    /// Let processes of this host end in order. One that is stopped, as by a terminal, goes on, or it would not hear.
    fn ask_to_end(&self, running: &[(ProcId, Arc<Link>)]) {
        for (proc, control) in running {
            send_control(control, &Control::Stop, Vec::new());
            self.signal_here(*proc, CONTINUE);
        }
    }

    /// Until no process runs, the deadline has passed, or the interrupt check fails with what this returns.
    fn wait_for_ends<E>(&self, deadline: Instant, mut interrupt: Interrupt<'_, E>) -> Option<E> {
        let mut table = self.table.lock();
        while table.any_running() && Instant::now() < deadline {
            self.ended.wait_until(&mut table, deadline.min(Instant::now() + SIGNAL_INTERVAL));
            drop(table);
            if let Some(Err(error)) = interrupt.as_mut().map(|check| check()) {
                return Some(error);
            }
            table = self.table.lock();
        }
        None
    }

    /// End all processes and the keeper; returns when all are gone. Whoever is interrupted meanwhile does not want to
    /// wait: then what still lives is killed.
    pub fn shutdown<E>(&self, grace: Duration, interrupt: Interrupt<'_, E>) -> Option<E> {
        let deadline = Instant::now() + grace;
        let mut table = self.table.lock();
        let running = table.end_all("its client ended");
        drop(table);
        self.ask_to_end(&running);
        let interrupted = self.wait_for_ends(deadline, interrupt);
        if interrupted.is_none() {
            self.flush_hosts(LOG_PATIENCE);
        }
        self.leave_hosts();
        self.tell_keeper(&Request::Shutdown { grace_ms: 0 }, Vec::new());
        let mut keeper = self.process.lock();
        if !keeper.wait(KEEPER_PATIENCE) {
            keeper.kill();
        }
        drop(keeper);
        self.logs.flush(LOG_PATIENCE);
        interrupted
    }
}

/// Give two processes the ends of a new socket pair.
fn broker(ours: &Arc<Link>, our_proc: ProcId, theirs: &Arc<Link>, their_proc: ProcId) -> Result<()> {
    let (a, b) = socket_pair()?;
    send_control_with(ours, &Control::Link { peer: their_proc }, Vec::new(), vec![a]);
    send_control_with(theirs, &Control::Link { peer: our_proc }, Vec::new(), vec![b]);
    Ok(())
}

fn socket_pair() -> Result<(OwnedFd, OwnedFd)> {
    socket::pair().map_err(|error| Error::system("make a socket pair", error))
}

/// SIGKILL, by its number everywhere.
pub const KILL: i32 = 9;

/// SIGCONT, by the number of this platform.
const CONTINUE: i32 = Signal::CONT.as_raw();

/// What the keeper reports.
struct KeeperEvents {
    agent: Weak<Agent>,
}

impl Sink for KeeperEvents {
    fn frame(&self, link: &Arc<Link>, frame: Frame, _: Vec<OwnedFd>) {
        let Some(agent) = self.agent.upgrade() else { return };
        match frame.decode_header::<Event>() {
            Ok(Event::Started { launch, pid }) => {
                let proc = agent.table.lock().started(launch, pid);
                if let Some(proc) = proc {
                    agent.tell_started(proc, pid);
                }
            }
            Ok(Event::Failed { launch, error }) => agent.launch_ended(launch, Cause::Launch(error)),
            Ok(Event::Exited { launch, status, .. }) => agent.launch_ended(launch, status.into()),
            Err(_) => link.close(),
        }
    }

    fn ended(&self, _: &Arc<Link>, _: Option<String>) {
        let Some(agent) = self.agent.upgrade() else { return };
        let running = agent.table.lock().all_running();
        for proc in running {
            agent.proc_ended(proc, Cause::Lost("the keeper of its host is gone, and with it all it kept".into()));
        }
    }
}

impl Agent {
    fn launch_ended(self: &Arc<Self>, launch: u64, cause: Cause) {
        let proc = self.table.lock().proc_of(launch);
        if let Some(proc) = proc {
            self.proc_ended(proc, cause);
        }
    }
}

/// What a process asks of its agent.
struct WorkerRequests {
    agent: Weak<Agent>,
    proc: ProcId,
}

impl Sink for WorkerRequests {
    fn frame(&self, link: &Arc<Link>, frame: Frame, _: Vec<OwnedFd>) {
        let Some(agent) = self.agent.upgrade() else { return };
        match frame.decode_header::<Control>() {
            Ok(Control::Connect { peer }) => agent.connect(self.proc, peer),
            Ok(Control::Spawn(spawn)) => {
                let welcome = frame.parts.into_iter().next().unwrap_or_default();
                agent.spawn_for(SpawnProcs { welcome, ..*spawn });
            }
            Ok(Control::StopProcs(stop)) => agent.stop(stop),
            Ok(Control::Signal { proc, signal }) => agent.signal(proc, signal),
            Ok(Control::KillForStop { proc, reason }) => agent.kill_for_stop(proc, reason),
            Ok(Control::Respawn(respawn)) => agent.respawn(respawn),
            Ok(Control::ChangeLogs { mesh, change }) => agent.change_logs(mesh, change),
            Ok(_) => {}
            Err(_) => link.close(),
        }
    }

    /// A hint only: the keeper says when the process is dead.
    fn ended(&self, _: &Arc<Link>, _: Option<String>) {}
}

impl Agent {
    /// Start a mesh that another process owns, which hears of a failure as the death of its members.
    fn spawn_for(self: &Arc<Self>, spawn: SpawnProcs) {
        let (mesh, name, owner) = (spawn.mesh, spawn.name.clone(), spawn.owner.proc);
        let ranks = spawn.ranks();
        let Err(error) = self.spawn(spawn) else { return };
        for rank in ranks {
            let cause = Cause::Launch(error.to_string());
            let proc = ProcId::first(mesh, rank);
            self.tell_death(owner, Death { name: name.clone(), ..Death::new(proc, cause) });
        }
    }
}
