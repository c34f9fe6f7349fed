//! How hosts come and go: a client attaches them, a host's program serves its client, and both hear of the end.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::remote::{Ending, Host, HostWords, HubWords, Reach, State, lost_text};
use super::{Agent, KEEPER_PATIENCE};
use crate::death::{Cause, Death};
use crate::error::{Error, Result};
use crate::id::{MeshId, PortId};
use crate::keeper::KeeperCommand;
use crate::link::{Link, Reader};
use crate::logs::{Courier, RunPlace};
use crate::message::send_answer;
use crate::net::address::Endpoint;
use crate::net::dial::{self, Gateway};
use crate::net::edge::Edge;
use crate::net::handshake::{self, Auth};
use crate::net::listener::Client;
use crate::net::protocol::Net;
use crate::park::{Interrupt, Waited};
use crate::runtime::Runtime;
use crate::wire::header::{Kind, ProcCommand, SpawnProcs};

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
    /// The name of its run, under which hosts keep the output of processes.
    pub run: String,
    /// What its code has set of the keys that matter to hosts: names, and values as variables have them.
    pub settings: Vec<(String, String)>,
    /// How long it may take until somebody listens there.
    pub patience: Duration,
    /// The host by way of which it is reached; none: directly.
    pub gateway: Option<Gateway>,
}

/// How long a host may take to serve once somebody listens there: it may have to end what its last client left.
const ATTACH_PATIENCE: Duration = Duration::from_secs(60);

/// How long until a connection is tried again.
const CONNECT_RETRY: Duration = Duration::from_millis(50);

/// How long the processes of a client that is gone may take to end.
const LOST_GRACE: Duration = Duration::from_secs(1);

impl Agent {
    /// Attach a host, or one in the place of another that is lost; `reply` is answered as of `rank` when it serves, or
    /// with why not.
    pub(crate) fn attach(self: &Arc<Self>, attachment: Attachment, reply: PortId, rank: u32) {
        let host = attachment.host;
        let mut state = self.network.state.lock();
        let first = match state.hosts.get(&host) {
            Some(Host { reach: Reach::Gone(_), name, .. }) => state.to_adopt(host, name),
            Some(Host { name, .. }) => {
                let why = format!("the host {name} is there: only one that is lost can be replaced");
                drop(state);
                return self.answer_attach(Some((reply, rank)), Kind::Error, &why);
            }
            None => Vec::new(),
        };
        let name = attachment.endpoint.dial.to_string();
        let reply = Some((reply, rank));
        state.hosts.insert(host, Host { name, reach: Reach::Coming(first), reply, released: None, flushed: 0 });
        drop(state);
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
            match dial::reach(&attachment.endpoint.dial, attachment.gateway.as_ref(), &attachment.version) {
                Ok(socket) => break socket,
                // Its program may just be starting.
                Err(why) if why.is_nobody_there && Instant::now() < deadline && !runtime.is_closed() => {
                    std::thread::sleep(CONNECT_RETRY);
                }
                Err(why) => return Err(why.reason),
            }
        };
        handshake::dial(&socket, &attachment.version, &attachment.auth).map_err(|failure| failure.to_string())?;
        let host = attachment.host;
        let words = Arc::new(HostWords { agent: Arc::downgrade(self), host });
        let link = Link::open_later(socket, Reader::default(), words, runtime.reactor());
        let edge = Edge::new(link.clone());
        self.network.state.lock().opening.insert(host, edge.clone());
        let (client, run, settings) = (&attachment.client, &attachment.run, &attachment.settings);
        let (client, run, settings) = (client.clone(), run.clone(), settings.clone());
        edge.say(&Net::Attach { host, hub: runtime.proc(), client, run, settings }, Vec::new());
        link.start().map_err(|error| error.to_string())?;
        let agent = Arc::downgrade(self);
        runtime.reactor().after(ATTACH_PATIENCE, move || {
            if let Some(agent) = agent.upgrade() {
                agent.give_up_host(host, &link);
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

    fn give_up_host(self: &Arc<Self>, host: MeshId, link: &Arc<Link>) {
        let mut state = self.network.state.lock();
        // Meanwhile it may serve, or another one may be tried in its place.
        let is_opening = state.opening.get(&host).is_some_and(|edge| Arc::ptr_eq(edge.link(), link));
        let edge = if is_opening { state.opening.remove(&host) } else { None };
        drop(state);
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
            (state.atlas.lose(host, &lost_text(&name, reason)), name, reply, edge, cause)
        };
        self.stop_listening();
        if let Some(edge) = edge {
            edge.close();
        }
        for (mesh_name, proc, pid) in lost.procs {
            let death = Death { name: mesh_name, host: name.clone(), pid, ..Death::new(proc, cause.clone()) };
            self.foreign_end(death, None);
        }
        lost.answers.into_iter().for_each(|answer| self.answer_errand(answer));
        self.answer_attach(reply, Kind::Error, reason);
    }

    fn answer_attach(&self, reply: Option<(PortId, u32)>, kind: Kind, text: &str) {
        let (Some(runtime), Some((port, rank))) = (self.runtime.upgrade(), reply) else { return };
        let parts = [Bytes::new(), Bytes::copy_from_slice(text.as_bytes())].map(Into::into);
        // Plain data, which always encodes.
        let _ = send_answer(&runtime, port, rank, kind, &parts);
    }

    /// Let hosts end all processes and serve this client no more; with `exit` their programs end. `reply` is answered
    /// when all have.
    pub(crate) fn release(&self, hosts: &[MeshId], exit: bool, grace: Duration, reply: PortId) {
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
        let grace_ms = grace.as_millis() as u64;
        // Only a client attaches hosts, and it has no uplink.
        let _ = self.send_errand(reply, true, false, open, |host, port| {
            self.say_to(host, Net::Release { request: port.index, exit, grace_ms });
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

impl State {
    /// What a host that takes the place of a lost one hears first: what it may have to start again.
    fn to_adopt(&self, host: MeshId, lost: &str) -> Vec<(Net, Vec<Bytes>)> {
        let adopt = |(spawn, generations): (SpawnProcs, Vec<u32>)| {
            let welcome = spawn.welcome.clone();
            (Net::Adopt { spawn: Box::new(spawn), generations, lost: lost.into() }, vec![welcome])
        };
        self.atlas.kept_on(host).into_iter().map(adopt).collect()
    }
}

/// A host's program while it serves one client.
pub struct HostSession {
    runtime: Arc<Runtime>,
    agent: Arc<Agent>,
    uplink: Edge,
}

impl HostSession {
    /// Serve a client that was let in: processes run `command` where it says nothing else, and what they print is kept
    /// at `place` and shown by the client.
    pub fn start(
        client: Client,
        name: &str,
        keeper: &KeeperCommand,
        command: ProcCommand,
        place: Option<RunPlace>,
    ) -> Result<Self> {
        let (runtime, agent) = Runtime::start_host(client.host, name, keeper, command)?;
        let words = Arc::new(HubWords { agent: Arc::downgrade(&agent) });
        // Until the uplink is known nothing may arrive by it.
        let mut state = agent.network.state.lock();
        let link = Link::open_later(client.socket, client.reader, words, runtime.reactor());
        let uplink = Edge::new(link.clone());
        state.atlas.set_beyond(client.hub.mesh);
        state.uplink = Some(uplink.clone());
        drop(state);
        let way = uplink.clone();
        let say = move |said, text| way.say(&Net::Output(said), vec![text]);
        agent.logs().set_up(place, Courier::new(name, agent.network.credit.clone(), say));
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
        let grace = match ending {
            Some(Ending::Released { grace_ms, .. }) => Duration::from_millis(grace_ms),
            _ => LOST_GRACE,
        };
        // Nobody may hurry it: whoever does so kills the program.
        self.agent.shutdown::<Infallible>(grace, None);
        let exits = match ending {
            Some(Ending::Released { request, exit, .. }) => {
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
