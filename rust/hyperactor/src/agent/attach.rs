//! How hosts come and go: a client attaches them, a host's program serves its client, and both hear of the end.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::remote::{Ending, Host, HostWords, HubWords, Reach};
use super::{Agent, KEEPER_PATIENCE};
use crate::death::{Cause, Death};
use crate::error::{Error, Result};
use crate::id::{MeshId, PortId};
use crate::keeper::KeeperCommand;
use crate::link::{Link, Reader};
use crate::logs::Console;
use crate::message::send_answer;
use crate::net::address::Endpoint;
use crate::net::edge::Edge;
use crate::net::handshake::{self, Auth};
use crate::net::listener::Client;
use crate::net::protocol::Net;
use crate::net::socket;
use crate::park::{Interrupt, Waited};
use crate::runtime::Runtime;
use crate::sys::stdio::kept_open;
use crate::wire::header::{Kind, ProcCommand};

/// How to attach a host.
#[derive(Clone)]
pub struct Attachment {
    /// The identity that the host gets.
    pub host: MeshId,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// What its program has to prove, and this one proves to it.
    pub auth: Auth,
    /// The version of this package, which has to be the host's too.
    pub version: String,
    /// Who attaches, for a person.
    pub client: String,
    /// How long it may take until somebody listens there.
    pub patience: Duration,
}

/// How long a host may take to serve once somebody listens there: it may have to end what its last client left.
const ATTACH_PATIENCE: Duration = Duration::from_secs(60);

/// How long until a connection is tried again.
const CONNECT_RETRY: Duration = Duration::from_millis(50);

/// How long the processes of a client that is gone may take to end.
const LOST_GRACE: Duration = Duration::from_secs(1);

/// How long the processes of a client that releases its host may take to end.
const RELEASE_GRACE: Duration = Duration::from_secs(10);

impl Agent {
    /// Attach a host; `reply` is answered as of `rank` when it serves, or with why not.
    pub(crate) fn attach(self: &Arc<Self>, attachment: Attachment, reply: PortId, rank: u32) {
        let host = attachment.host;
        let name = attachment.endpoint.dial.to_string();
        let coming = Host { name, reach: Reach::Coming(Vec::new()), reply: Some((reply, rank)), released: None };
        self.network.state.lock().hosts.insert(host, coming);
        let agent = self.clone();
        let started = std::thread::Builder::new().name("monarch-attach".into()).spawn(move || {
            crate::sys::signals::block_all();
            if let Err(reason) = agent.connect_host(&attachment) {
                agent.host_lost(host, &reason);
            }
        });
        if let Err(error) = started {
            self.host_lost(host, &format!("cannot start a thread: {error}"));
        }
    }

    fn connect_host(self: &Arc<Self>, attachment: &Attachment) -> std::result::Result<(), String> {
        let Some(runtime) = self.runtime.upgrade() else { return Ok(()) };
        let deadline = Instant::now() + attachment.patience;
        let socket = loop {
            match socket::connect(&attachment.endpoint.dial) {
                Ok(socket) => break socket,
                // Its program may just be starting.
                Err(error) if is_nobody_there(&error) && Instant::now() < deadline && !runtime.is_closed() => {
                    std::thread::sleep(CONNECT_RETRY);
                }
                Err(error) => return Err(unreachable_text(&error)),
            }
        };
        handshake::dial(&socket, &attachment.version, &attachment.auth).map_err(|failure| failure.to_string())?;
        let host = attachment.host;
        let words = Arc::new(HostWords { agent: Arc::downgrade(self), host });
        let link = Link::open_later(socket, Reader::default(), words, runtime.reactor());
        let edge = Edge::new(link.clone());
        self.network.state.lock().opening.insert(host, edge.clone());
        edge.say(&Net::Attach { host, hub: runtime.proc(), client: attachment.client.clone() }, Vec::new());
        link.start().map_err(|error| error.to_string())?;
        let agent = Arc::downgrade(self);
        runtime.reactor().after(ATTACH_PATIENCE, move || {
            if let Some(agent) = agent.upgrade() {
                agent.give_up_host(host);
            }
        });
        Ok(())
    }

    /// A host serves: what was meant for it meanwhile goes there.
    pub(super) fn host_attached(self: &Arc<Self>, host: MeshId, name: String) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let (reply, procs, edge) = {
            let mut state = self.network.state.lock();
            let Some(edge) = state.opening.remove(&host) else { return };
            let procs = state.atlas.procs_on(host);
            let Some(found) = state.hosts.get_mut(&host) else { return };
            found.name = name.clone();
            if let Reach::Coming(queue) = std::mem::replace(&mut found.reach, Reach::Up(edge.clone())) {
                queue.into_iter().for_each(|(net, parts)| edge.say(&net, parts));
            }
            (found.reply.take(), procs, edge)
        };
        procs.into_iter().for_each(|proc| runtime.open_edge(proc, edge.clone()));
        self.answer_attach(reply, Kind::Value, &name);
    }

    fn give_up_host(self: &Arc<Self>, host: MeshId) {
        let edge = self.network.state.lock().opening.remove(&host);
        if let Some(edge) = edge {
            edge.close();
            self.host_lost(host, &format!("it does not begin to serve within {} s", ATTACH_PATIENCE.as_secs()));
        }
    }

    /// A host is gone, or never came.
    pub(super) fn host_lost(self: &Arc<Self>, host: MeshId, reason: &str) {
        let (lost, name, reply, edge, cause) = {
            let mut state = self.network.state.lock();
            state.opening.remove(&host);
            let Some(found) = state.hosts.get_mut(&host) else { return };
            let cause = match (&found.reach, &found.released) {
                (Reach::Gone(_), _) => return,
                (_, Some(reason)) => Cause::Stopped(reason.clone()),
                (Reach::Coming(_), None) => Cause::Launch(format!("its host is not there: {reason}")),
                (Reach::Up(_), None) => Cause::HostLost(reason.into()),
            };
            let before = std::mem::replace(&mut found.reach, Reach::Gone(reason.into()));
            let edge = if let Reach::Up(edge) = before { Some(edge) } else { None };
            let (name, reply) = (found.name.clone(), found.reply.take());
            (state.atlas.lose(host), name, reply, edge, cause)
        };
        if let Some(edge) = edge {
            edge.close();
        }
        for (mesh_name, proc, pid) in lost.procs {
            let death = Death { name: mesh_name, host: name.clone(), pid, ..Death::new(proc, cause.clone()) };
            self.foreign_end(death, None);
        }
        lost.answers.into_iter().for_each(|port| self.answer(port));
        self.answer_attach(reply, Kind::Error, reason);
    }

    fn answer_attach(&self, reply: Option<(PortId, u32)>, kind: Kind, text: &str) {
        let (Some(runtime), Some((port, rank))) = (self.runtime.upgrade(), reply) else { return };
        let parts = [Bytes::new(), Bytes::copy_from_slice(text.as_bytes())];
        // Plain data, which always encodes.
        let _ = send_answer(&runtime, port, rank, kind, &parts);
    }

    /// Let hosts end all processes and serve this client no more; with `exit` their programs end. `reply` is answered
    /// when all have.
    pub(crate) fn release(&self, hosts: &[MeshId], exit: bool, reply: PortId) {
        let reason = if exit { "its host was shut down" } else { "its host was stopped" };
        {
            let mut state = self.network.state.lock();
            for host in hosts {
                if let Some(found) = state.hosts.get_mut(host) {
                    found.released.get_or_insert_with(|| reason.into());
                }
            }
        }
        let open = hosts.iter().map(|host| (*host, 1)).collect();
        // Only a client attaches hosts, and it has no uplink.
        let _ = self.send_errand(reply, true, open, |host, port| {
            self.say_to(host, Net::Release { request: port.index, exit });
        });
    }

    /// Close the edges to all hosts: what is left there ends.
    pub(super) fn leave_hosts(&self) {
        let state = self.network.state.lock();
        for host in state.hosts.values() {
            if let Reach::Up(edge) = &host.reach {
                edge.close();
            }
        }
        state.opening.values().for_each(Edge::close);
    }
}

fn is_nobody_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn unreachable_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nobody listens there; is its `monarch worker` running?".into(),
        io::ErrorKind::NotFound => format!("nobody listens there ({error})"),
        _ => format!("cannot connect: {error}"),
    }
}

/// A host's program while it serves one client.
pub struct HostSession {
    runtime: Arc<Runtime>,
    agent: Arc<Agent>,
    uplink: Edge,
}

impl HostSession {
    /// Serve a client that was let in: processes run `command` where it says nothing else.
    pub fn start(client: Client, name: &str, keeper: &KeeperCommand, command: ProcCommand) -> Result<Self> {
        let (runtime, agent) = Runtime::start_host(client.host, name, keeper, command)?;
        // What processes print is shown where the host's program prints.
        agent.logs().set_up(None, Console::new(name, kept_open(1), kept_open(2)));
        let words = Arc::new(HubWords { agent: Arc::downgrade(&agent) });
        // Until the uplink is known nothing may arrive by it.
        let mut state = agent.network.state.lock();
        let link = Link::open_later(client.socket, client.reader, words, runtime.reactor());
        let uplink = Edge::new(link.clone());
        state.atlas.set_beyond(client.hub.mesh);
        state.uplink = Some(uplink.clone());
        drop(state);
        uplink.say(&Net::Attached { name: name.into() }, Vec::new());
        link.start().map_err(|error| Error::system("watch the connection to the client", error))?;
        Ok(Self { runtime, agent, uplink })
    }

    /// Wait until the client is gone or has released the host, for at most so long.
    pub fn wait<E>(&self, deadline: Option<Instant>, interrupt: Interrupt<'_, E>) -> io::Result<Waited<E>> {
        self.agent.network.ended.wait(1, deadline, interrupt)
    }

    /// Whether the host's program shall end with this client.
    pub fn exits(&self) -> bool {
        matches!(self.agent.network.state.lock().ending, Some(Ending::Released { exit: true, .. }))
    }

    /// End all processes; true if the host's program shall end too.
    pub fn end(&self) -> bool {
        let ending = self.agent.network.state.lock().ending.clone();
        let grace = if let Some(Ending::Released { .. }) = ending { RELEASE_GRACE } else { LOST_GRACE };
        // Nobody may hurry it: whoever does so kills the program.
        self.agent.shutdown::<Infallible>(grace, None);
        let exits = match ending {
            Some(Ending::Released { request, exit }) => {
                self.uplink.say(&Net::Done(request), Vec::new());
                exit
            }
            _ => false,
        };
        let until = Instant::now() + KEEPER_PATIENCE;
        while !self.uplink.is_flushed() && Instant::now() < until {
            std::thread::yield_now();
        }
        self.uplink.close();
        self.runtime.shutdown::<Infallible>(Duration::ZERO, None);
        exits
    }
}
