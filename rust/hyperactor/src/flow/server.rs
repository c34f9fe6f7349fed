//! Threads that serve mailboxes, and what they wait for meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::id::ProcId;
use crate::peer::Peer;
use crate::replies::Replies;
use crate::sync::Mutex;

use super::About;
use super::cycles::Waiting;

/// What somebody waits for: something at a process.
pub(crate) type Edge = (ProcId, About);

/// A thread.
pub(crate) struct Server {
    id: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Raised whenever what it waits for changes.
    epoch: u64,
    blocked: Option<On>,
    /// What the message awaits that its event loop serves, before which no other is served.
    awaited: Option<Weak<Replies>>,
}

#[derive(Clone)]
enum On {
    Replies(Weak<Replies>),
    Room(Arc<Peer>),
}

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CURRENT: Arc<Server> = Arc::new(Server::new());
}

impl Server {
    fn new() -> Self {
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::default() }
    }

    /// The calling thread. None in a thread that ends.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Make `server` the calling thread, if it is not.
    pub(crate) fn note_current(server: &mut Option<Arc<Self>>) {
        let _ = CURRENT.try_with(|current| {
            if !server.as_ref().is_some_and(|known| Arc::ptr_eq(known, current)) {
                *server = Some(current.clone());
            }
        });
    }

    /// It waits for answers, for as long as the result lives.
    pub(crate) fn wait_for_answers(self: &Arc<Self>, replies: &Arc<Replies>) -> Blocked {
        self.block(On::Replies(Arc::downgrade(replies)))
    }

    /// It waits for room, for as long as the result lives.
    pub(crate) fn wait_for_room(self: &Arc<Self>, peer: &Arc<Peer>) -> Blocked {
        self.block(On::Room(peer.clone()))
    }

    fn block(self: &Arc<Self>, on: On) -> Blocked {
        let mut state = self.state.lock();
        state.epoch += 1;
        let before = state.blocked.replace(on);
        Blocked { server: self.clone(), epoch: state.epoch, before }
    }

    /// Who serves messages on this thread's event loop waits for answers, or does not any more. The thread may work.
    pub(crate) fn awaits(&self, replies: Option<&Arc<Replies>>) {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.awaited = replies.map(Arc::downgrade);
    }

    /// What it waits for, any of which lets it go on, and since when. None when it works, or waits for something else.
    pub(crate) fn waits_for(&self) -> Option<(u64, Vec<Edge>)> {
        let (epoch, blocked, awaited) = {
            let state = self.state.lock();
            (state.epoch, state.blocked.clone(), state.awaited.clone())
        };
        let edges = match (blocked, awaited) {
            (Some(On::Room(peer)), _) => vec![(peer.proc(), About::Room)],
            (Some(On::Replies(replies)), _) | (None, Some(replies)) => edges_of(&replies),
            (None, None) => Vec::new(),
        };
        (!edges.is_empty()).then_some((epoch, edges))
    }
}

fn edges_of(replies: &Weak<Replies>) -> Vec<Edge> {
    let pending = replies.upgrade().map_or_else(Vec::new, |replies| replies.pending());
    pending.into_iter().map(|asked| (asked.proc, About::Actor(asked.actor))).collect()
}

/// A thread waits.
pub(crate) struct Blocked {
    server: Arc<Server>,
    pub(crate) epoch: u64,
    before: Option<On>,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let mut state = self.server.state.lock();
        state.epoch += 1;
        state.blocked = self.before.take();
    }
}

impl Waiting for Arc<Server> {
    fn id(&self) -> u64 {
        self.id
    }

    fn since(&self) -> Option<u64> {
        Some(self.waits_for()?.0)
    }
}
