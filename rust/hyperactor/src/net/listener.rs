//! A host's front door: takes connections, lets in who belongs to the cluster, and serves one client at a time.
//!
//! # Invariants
//! - **DOOR-1** Strangers take neither more than [`HANDSHAKES`] connections nor more than a handshake's time and memory.
//! - **DOOR-2** One client is served at a time. Another one is told so, unless the first is about to be gone.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::address::{Address, Endpoint};
use super::handshake::{self, Auth};
use super::key::ClusterKey;
use super::protocol::{Net, Unreachable};
use super::relay::Relays;
use super::socket::{self, Bound};
use crate::error::{Error, Result};
use crate::id::{MeshId, ProcId};
use crate::link::Reader;
use crate::sys::wake::WakeFd;
use crate::sys::{poll, signals};
use crate::wire::{Frame, Priority};

/// Most connections that may shake hands at the same time.
pub const HANDSHAKES: usize = 64;

/// How long a new client waits for the one before it to be gone.
const TURN_PATIENCE: Duration = Duration::from_secs(1);

/// How long a host may take to end what the client before left.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// How long a host that ends passes on what other hosts and their client still say.
const RELAY_PATIENCE: Duration = Duration::from_secs(10);

/// Where a host finds its key.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// It has it.
    Known(ClusterKey),
    /// In this file, which a client or a job of the same user may make later.
    File(PathBuf),
    /// It demands none: the user said so, or the socket tells who is there.
    None,
}

/// A client that was let in.
pub struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) reader: Reader,
    pub(crate) host: MeshId,
    pub(crate) hub: ProcId,
    /// Who it is, for a person.
    pub name: String,
    /// The name of its run.
    pub run: String,
    /// What its code has set of the keys that matter to hosts.
    pub settings: Vec<(String, String)>,
}

/// A host's listening socket and the thread that minds it.
pub struct Listener {
    door: Arc<Door>,
    is_open_to_strangers: bool,
    minder: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Door {
    key: KeySource,
    dial: Address,
    version: String,
    closing: AtomicBool,
    wake: WakeFd,
    shaking: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    relays: Relays,
}

#[derive(Default)]
struct State {
    served: Option<Served>,
    waiting: Option<Client>,
}

struct Served {
    name: String,
    is_ending: bool,
}

impl Listener {
    /// Listen at `endpoint`. Fails where others than this machine's could connect and nothing keeps strangers out.
    pub fn open(endpoint: &Endpoint, key: KeySource, is_insecure: bool, version: &str) -> Result<Self> {
        let bound = Bound::new(&endpoint.bind)
            .map_err(|error| Error::system(format!("listen at `{}`", endpoint.bind), error))?;
        let key = match (&endpoint.bind, key) {
            // The kernel says which user is there.
            (Address::Abstract(_) | Address::Path(_), _) => KeySource::None,
            (_, KeySource::None) if !is_insecure => return Err(no_key(&bound.address)),
            (_, KeySource::File(path)) if bound.is_exposed && ClusterKey::read(&path)?.is_none() => {
                return Err(no_key(&bound.address));
            }
            (_, key) => key,
        };
        let dial = match (&endpoint.dial, &bound.address) {
            (Address::Inherited(host, _), Address::Tcp(_, port)) => Address::Tcp(Some(host.clone()), *port),
            (Address::Tcp(host, 0), Address::Tcp(_, port)) => Address::Tcp(host.clone(), *port),
            (dial, _) => dial.clone(),
        };
        let door = Arc::new(Door {
            key,
            dial,
            version: version.into(),
            closing: AtomicBool::new(false),
            wake: WakeFd::new().map_err(|error| Error::system("listen", error))?,
            shaking: AtomicUsize::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            relays: Relays::default(),
        });
        let is_open_to_strangers = matches!((&door.key, &bound.address), (KeySource::None, Address::Tcp(..)));
        let minding = door.clone();
        let minder = std::thread::Builder::new()
            .name("monarch-door".into())
            .spawn(move || mind(&minding, &bound))
            .map_err(|error| Error::system("start a thread", error))?;
        Ok(Self { door, is_open_to_strangers, minder: Mutex::new(Some(minder)) })
    }

    /// Under which address others find it.
    pub fn address(&self) -> &Address {
        &self.door.dial
    }

    /// Whether others than this machine's can reach it with no key.
    pub fn is_open_to_strangers(&self) -> bool {
        self.is_open_to_strangers
    }

    /// The next client, if it comes within `patience`. From now on it is served.
    pub fn next(&self, patience: Duration) -> Option<Client> {
        let mut state = self.door.state.lock();
        if state.waiting.is_none() {
            self.door.changed.wait_for(&mut state, patience);
        }
        state.waiting.take()
    }

    /// Listen no more.
    pub fn close(&self) {
        self.door.closing.store(true, Ordering::Relaxed);
        self.door.wake.wake();
        if let Some(minder) = self.minder.lock().take().filter(|_| !crate::sys::fork::is_forked_child()) {
            // The socket and its name are gone with it.
            let _ = minder.join();
        }
    }

    /// Wait, for a while, until nothing is passed on to other hosts any more.
    pub fn finish_relays(&self) {
        self.door.relays.wait_for_ends(RELAY_PATIENCE);
    }

    /// The client that is served is about to be gone.
    pub fn ending(&self) {
        if let Some(served) = &mut self.door.state.lock().served {
            served.is_ending = true;
        }
        self.door.changed.notify_all();
    }

    /// The client that was served is gone, and all that it left has ended.
    pub fn done(&self) {
        self.door.state.lock().served = None;
        self.door.changed.notify_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
        self.door.relays.close();
    }
}

fn no_key(address: &Address) -> Error {
    Error::Misuse(format!(
        "refusing to listen at `{address}` without a cluster key: whoever connects could run code as this user. Make a \
         key with `monarch key create` and copy the file to every host (mode 0600), or name it by --key-file or \
         MONARCH_CLUSTER_KEY_FILE. In a network where nobody else is, MONARCH_INSECURE_NETWORK=1 goes without"
    ))
}

/// The life of the thread at the door.
fn mind(door: &Arc<Door>, bound: &Bound) {
    signals::block_all();
    while !door.closing.load(Ordering::Relaxed) {
        if poll::readable([bound.as_fd(), door.wake.as_fd()], None).is_err() {
            return;
        }
        match bound.accept() {
            Ok(Some(socket)) => greet_apart(door, socket),
            Ok(None) => {}
            // Out of descriptors: those that are shaking hands give theirs back soon.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn greet_apart(door: &Arc<Door>, socket: OwnedFd) {
    if door.shaking.fetch_add(1, Ordering::Relaxed) >= HANDSHAKES {
        door.shaking.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let greeting = door.clone();
    let started = std::thread::Builder::new().name("monarch-greet".into()).spawn(move || {
        signals::block_all();
        let outcome = greet(&greeting, socket);
        greeting.shaking.fetch_sub(1, Ordering::Relaxed);
        match outcome {
            Ok(Wish::Attach(client)) => greeting.admit(*client),
            Ok(Wish::Relay(client, host)) => greeting.relays.run(client, host),
            Err(()) => {}
        }
    });
    if started.is_err() {
        door.shaking.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What somebody came for who belongs to the cluster.
enum Wish {
    Attach(Box<Client>),
    /// To be passed on to another host.
    Relay(OwnedFd, OwnedFd),
}

fn greet(door: &Door, socket: OwnedFd) -> std::result::Result<Wish, ()> {
    let auth = match &door.key {
        KeySource::Known(key) => Auth::Key(key.clone()),
        KeySource::None => Auth::Open,
        KeySource::File(path) => match ClusterKey::read(path) {
            Ok(Some(key)) => Auth::Key(key),
            Ok(None) => {
                let why = format!("this host has no cluster key: `{}` is not there", path.display());
                return handshake::refuse(&socket, &why).map_err(drop).and(Err(()));
            }
            Err(error) => return handshake::refuse(&socket, &error.to_string()).map_err(drop).and(Err(())),
        },
    };
    handshake::accept(&socket, &door.version, &auth).map_err(drop)?;
    // From here on whoever is there belongs to the cluster.
    let mut reader = Reader::default();
    let (frame, _) = reader.first_frame(&socket).map_err(drop)?;
    match frame.decode_header() {
        Ok(Net::Attach { host, hub, client, run, settings }) => {
            Ok(Wish::Attach(Box::new(Client { socket, reader, host, hub, name: client, run, settings })))
        }
        Ok(Net::Relay { address }) => {
            let reached = if door.relays.has_room() {
                reach(&address)
            } else {
                Err(Unreachable { is_nobody_there: false, reason: "this host passes on too much already".into() })
            };
            say(&socket, &Net::Relayed(reached.as_ref().map(|_| ()).map_err(Clone::clone)));
            reached.map(|host| Wish::Relay(socket, host)).map_err(drop)
        }
        _ => Err(()),
    }
}

/// Connect to another host for somebody.
fn reach(address: &str) -> std::result::Result<OwnedFd, Unreachable> {
    let malformed = |error: Error| Unreachable { is_nobody_there: false, reason: error.to_string() };
    let address = address.parse().map_err(malformed)?;
    socket::connect(&address).map_err(|error| socket::unreachable(&error))
}

impl Door {
    /// Let the client be served next, or tell it that another one is.
    fn admit(&self, client: Client) {
        let mut state = self.state.lock();
        let begin = Instant::now();
        while let Some(served) = &state.served {
            let until = begin + if served.is_ending { END_PATIENCE } else { TURN_PATIENCE };
            if self.changed.wait_until(&mut state, until).timed_out()
                && let Some(served) = &state.served
            {
                let why = format!("it serves another client, {}; a host serves one at a time", served.name);
                drop(state);
                refuse(&client, &why);
                return;
            }
        }
        state.served = Some(Served { name: client.name.clone(), is_ending: false });
        state.waiting = Some(client);
        drop(state);
        self.changed.notify_all();
    }
}

fn refuse(client: &Client, why: &str) {
    say(&client.socket, &Net::Refused(why.into()));
}

/// A short word, which fits into the buffer of a new socket.
fn say(socket: &OwnedFd, net: &Net) {
    if let Ok(frame) = Frame::new(Priority::Control, net, Vec::new()) {
        let head = frame.encode_head();
        let _ = crate::sys::socket::send(socket, &[std::io::IoSlice::new(&head)], &[]);
    }
}
