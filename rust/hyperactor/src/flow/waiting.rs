//! Waiting for room, and what processes say to each other about it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::cycles::{Cycles, Found, Say, Waiter, Waiting};
use super::server::Blocked;
use super::{About, CurrentLimits, Limits, Search, Server, Word};
use crate::error::{Error, Result};
use crate::id::{FLOW_ACTOR, ProcId};
use crate::mailbox::Mailbox;
use crate::message::{Message, request};
use crate::park::{Interrupt, Parker, Waited, wait_until};
use crate::peer::Peer;
use crate::runtime::Runtime;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::wire::header::{Kind, MessageHeader};

/// How long somebody waits for room before it looks for a cycle. The receiver of a fast sender makes room sooner.
const FIRST_SEARCH: Duration = Duration::from_millis(10);

/// How long between two looks at most: whoever closes the cycle last looks for it, so this matters only where something
/// changed meanwhile.
const LAST_SEARCH: Duration = Duration::from_secs(1);

/// The flow of messages between this process and others.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) limits: CurrentLimits,
    cycles: Mutex<Cycles<Arc<Server>>>,
    searches: Mutex<HashMap<Search, Arc<Proof>>>,
    next_search: AtomicU64,
}

/// Whether a thread waits in vain.
struct Proof {
    found: AtomicBool,
    parker: Arc<Parker>,
}

impl Runtime {
    /// How much may be under way from this process to another one.
    pub fn set_send_limits(&self, limits: Limits) {
        self.flow().limits.set(limits);
    }

    /// The limits may have changed: they are asked for before they matter again.
    pub fn forget_send_limits(&self) {
        self.flow().limits.set(Limits::UNKNOWN);
    }

    /// Wait until a message of this cost may be sent. Fails beyond the hard limit, where waiting would never end.
    pub(crate) fn wait_for_room<E>(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        cost: u64,
        interrupt: &mut Interrupt<'_, E>,
    ) -> Result<Waited<E>> {
        let limits = self.flow().limits.get();
        let parker = Parker::current();
        let _watching = peer.outbound().watch(&parker);
        let mut wait = Wait { runtime: self, search: None, proof: Arc::new(Proof::new(&parker)) };
        let server = Server::current();
        let blocked = server.as_ref().map(|server| server.wait_for_room(peer));
        let mut patience = FIRST_SEARCH;
        loop {
            self.check()?;
            if peer.outbound().has_room(cost, limits) {
                return Ok(Waited::Ready);
            }
            if wait.proof.found.swap(false, Ordering::AcqRel) && !peer.outbound().overdraw(cost, limits) {
                return Err(Error::BackPressure { under_way: peer.outbound().under_way(), cost, limits });
            }
            peer.ask_for_room(self, cost, limits);
            let ready = || self.is_closed() || wait.proof.is_found() || peer.outbound().has_room(cost, limits);
            let until = Some(Instant::now() + patience);
            let link = peer.link();
            let mut check = || interrupt.as_mut().map_or(Ok(()), |interrupt| interrupt());
            let waited = wait_until(&parker, ready, link.as_ref(), until, Some(&mut check))
                .map_err(|error| Error::system("wait for room", error))?;
            match (waited, &server, &blocked) {
                (Waited::Interrupted(why), ..) => return Ok(Waited::Interrupted(why)),
                (Waited::TimedOut, Some(server), Some(blocked)) => {
                    wait.search(server, blocked, peer);
                    patience = LAST_SEARCH.min(patience * 2);
                }
                _ => {}
            }
        }
    }

    /// Say something about room to a process.
    pub(crate) fn say(self: &Arc<Self>, to: ProcId, word: &Word) {
        if to == self.proc() {
            return self.hear_word(to, word);
        }
        // It goes at once, as answers do. Plain data, which always encodes.
        let header = MessageHeader { kind: Kind::Value, ..request(to, FLOW_ACTOR, self.as_sender(), 0, None) };
        if let Ok(word) = postcard::to_allocvec(word) {
            let _ = self.peer(to).send(self, header, vec![Bytes::new().into(), Bytes::from(word).into()]);
        }
    }

    /// Another process says something about room. What does not decode says nothing.
    pub(crate) fn hear(self: &Arc<Self>, message: &Message) {
        if let Ok(word) = postcard::from_bytes(&message.payload) {
            self.hear_word(message.sender.proc, &word);
        }
    }

    fn hear_word(self: &Arc<Self>, from: ProcId, word: &Word) {
        match word {
            Word::Ask { until } => self.peer(from).inbound(from, self).ask(*until),
            Word::Served { bytes } => self.peer(from).served(from, *bytes, self.flow().limits.get()),
            Word::Query(query) => {
                let waiters = self.waiters(from, query.about);
                let words = self.flow().cycles.lock().query(from, query, waiters);
                self.say_all(words);
            }
            Word::Stuck(stuck) => {
                let found = self.flow().cycles.lock().stuck(stuck);
                match found {
                    Found::Cycle(search) => {
                        let proof = self.flow().searches.lock().get(&search).cloned();
                        proof.iter().for_each(|proof| proof.complete());
                    }
                    Found::Say(to, say) => self.say_all(vec![(to, say)]),
                    Found::Nothing => {}
                }
            }
        }
    }

    fn say_all(self: &Arc<Self>, words: Vec<(ProcId, Say)>) {
        for (to, say) in words {
            let word = match say {
                Say::Query(query) => Word::Query(query),
                Say::Stuck(stuck) => Word::Stuck(stuck),
            };
            self.say(to, &word);
        }
    }

    /// Who could do what somebody waits for; none when one of them does not wait itself, or is not known.
    fn waiters(self: &Arc<Self>, from: ProcId, about: About) -> Option<Vec<Waiter<Arc<Server>>>> {
        let mailboxes: Vec<Arc<Mailbox>> = match about {
            About::Room => self.peer(from).inbound(from, self).holders(),
            About::Actor(actor) => self.known_mailbox(actor).into_iter().collect(),
        };
        let waiter = |mailbox: Arc<Mailbox>| {
            let who = mailbox.server()?;
            let (since, edges) = who.waits_for()?;
            Some(Waiter { who, since, edges })
        };
        let mut waiters: Vec<_> = mailboxes.into_iter().map(waiter).collect::<Option<_>>()?;
        // One thread may serve several mailboxes.
        waiters.sort_by_key(|waiter| waiter.who.id());
        waiters.dedup_by_key(|waiter| waiter.who.id());
        Some(waiters)
    }
}

/// A thread waits for room.
struct Wait<'a> {
    runtime: &'a Arc<Runtime>,
    search: Option<Search>,
    proof: Arc<Proof>,
}

impl Wait<'_> {
    /// Look anew whether it waits in vain.
    fn search(&mut self, server: &Arc<Server>, blocked: &Blocked, peer: &Peer) {
        self.forget();
        let flow = self.runtime.flow();
        let number = flow.next_search.fetch_add(1, Ordering::Relaxed);
        let search = Search { proc: self.runtime.proc(), number };
        flow.searches.lock().insert(search, self.proof.clone());
        self.search = Some(search);
        let edges = vec![(peer.proc(), About::Room)];
        let words = flow.cycles.lock().start(search, Waiter { who: server.clone(), since: blocked.epoch, edges });
        self.runtime.say_all(words);
    }

    fn forget(&mut self) {
        if let Some(search) = self.search.take() {
            self.runtime.flow().searches.lock().remove(&search);
            self.runtime.flow().cycles.lock().forget(search);
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Proof {
    fn new(parker: &Arc<Parker>) -> Self {
        Self { found: AtomicBool::new(false), parker: parker.clone() }
    }

    fn complete(&self) {
        self.found.store(true, Ordering::Release);
        self.parker.unpark();
    }

    fn is_found(&self) -> bool {
        self.found.load(Ordering::Acquire)
    }
}
