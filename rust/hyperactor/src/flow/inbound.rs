//! What another process has sent here, as far as nobody has served it.

use std::sync::{Arc, Weak};

use crate::id::ProcId;
use crate::mailbox::Mailbox;
use crate::runtime::Runtime;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sys::fork::is_forked_child;

use super::Word;

/// Counters of one process that sends here.
pub(crate) struct Inbound {
    from: ProcId,
    runtime: Weak<Runtime>,
    served: AtomicU64,
    /// From when on the sender wants to hear.
    wanted: AtomicU64,
    held: Mutex<Vec<Weak<Held>>>,
}

/// The sender wants to hear of nothing.
const NOTHING: u64 = u64::MAX;

/// What of it waits for one actor.
pub(crate) struct Held {
    inbound: Arc<Inbound>,
    mailbox: Weak<Mailbox>,
    bytes: AtomicU64,
}

/// The room that one message takes, until it is served or dropped.
pub(crate) struct Charge {
    held: Arc<Held>,
    cost: AtomicU64,
}

impl Inbound {
    pub(crate) fn new(from: ProcId, runtime: &Arc<Runtime>) -> Arc<Self> {
        Arc::new(Self {
            from,
            runtime: Arc::downgrade(runtime),
            served: AtomicU64::new(0),
            wanted: AtomicU64::new(NOTHING),
            held: Mutex::default(),
        })
    }

    /// Whose it is.
    pub(crate) fn from(&self) -> ProcId {
        self.from
    }

    /// What waits for the actor of a mailbox.
    pub(crate) fn hold(self: &Arc<Self>, mailbox: &Arc<Mailbox>) -> Arc<Held> {
        let held = Held { inbound: self.clone(), mailbox: Arc::downgrade(mailbox), bytes: AtomicU64::new(0) };
        let held = Arc::new(held);
        let mut all = self.held.lock();
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// The mailboxes in which something waits.
    pub(crate) fn holders(&self) -> Vec<Arc<Mailbox>> {
        let held = self.held.lock();
        let held = held.iter().filter_map(Weak::upgrade).filter(|held| held.bytes.load(Ordering::Relaxed) > 0);
        held.filter_map(|held| held.mailbox.upgrade()).collect()
    }

    /// The sender wants to hear when so much is served.
    pub(crate) fn ask(&self, until: u64) {
        // Of two questions that threads of the sender ask at the same time, the smaller may come last.
        let later = |wanted| (wanted == NOTHING || wanted < until).then_some(until);
        let _ = self.wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        self.look(self.served.load(Ordering::SeqCst));
    }

    fn serve(&self, cost: u64) {
        self.look(self.served.fetch_add(cost, Ordering::SeqCst) + cost);
    }

    fn look(&self, served: u64) {
        // What was asked meanwhile stays asked, unless it is served, too.
        let answered = |wanted| (wanted != NOTHING && wanted <= served).then_some(NOTHING);
        if self.wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, answered).is_err() {
            return;
        }
        if let Some(runtime) = self.runtime.upgrade()
            && !is_forked_child()
        {
            runtime.say(self.from, &Word::Served { bytes: served });
        }
    }
}

impl Held {
    pub(crate) fn charge(self: &Arc<Self>, cost: u64) -> Charge {
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        Charge { held: self.clone(), cost: AtomicU64::new(cost) }
    }

    pub(crate) fn inbound(&self) -> &Arc<Inbound> {
        &self.inbound
    }
}

impl Charge {
    /// Its message begins to be served: from now on it is the receiver's own.
    pub(crate) fn end(&self) {
        let cost = self.cost.swap(0, Ordering::Relaxed);
        if cost > 0 {
            self.held.bytes.fetch_sub(cost, Ordering::Relaxed);
            self.held.inbound.serve(cost);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.end();
    }
}
