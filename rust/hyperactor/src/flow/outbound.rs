//! What this process has sent to another one, as its senders see it.

use std::sync::Arc;

use super::Limits;
use crate::park::Parker;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of one process that is sent to. They belong to one generation: see [`Outbound::restart`].
#[derive(Default)]
pub(crate) struct Outbound {
    sent: AtomicU64,
    /// As far as the receiver has said.
    served: AtomicU64,
    /// What the receiver was asked to say.
    asked: AtomicU64,
    overdraft: AtomicU64,
    /// Nobody will ever serve it.
    over: AtomicBool,
    waiting: Mutex<Vec<Arc<Parker>>>,
}

impl Outbound {
    /// How much is under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).saturating_sub(self.served.load(Ordering::Relaxed))
    }

    /// Whether a message of this cost may be sent now. One that is larger than the window has it for itself.
    pub(crate) fn has_room(&self, cost: u64, limits: Limits) -> bool {
        let under_way = self.under_way();
        under_way == 0
            || under_way + cost <= limits.window + self.overdraft.load(Ordering::Relaxed)
            || self.over.load(Ordering::Relaxed)
    }

    /// Count a message that is sent; says what to ask the receiver, once half of the window is used.
    pub(crate) fn send(&self, cost: u64, limits: Limits) -> Option<u64> {
        let sent = self.sent.fetch_add(cost, Ordering::Relaxed) + cost;
        let served = self.served.load(Ordering::Relaxed);
        let is_asked = self.asked.load(Ordering::Relaxed) > served;
        if is_asked || sent.saturating_sub(served) <= limits.window / 2 {
            return None;
        }
        self.ask(sent.min(served + limits.window / 4))
    }

    /// What to ask the receiver before waiting for room: to have served what makes it, and a quarter of the window, so
    /// that a flood of small messages is not answered one by one. None where that was asked already.
    pub(crate) fn ask_for(&self, cost: u64, limits: Limits) -> Option<u64> {
        let sent = self.sent.load(Ordering::Relaxed);
        let needed = (sent + cost).saturating_sub(limits.window);
        self.ask(needed.max(sent.saturating_sub(limits.window / 4 * 3)).min(sent))
    }

    fn ask(&self, until: u64) -> Option<u64> {
        (self.asked.fetch_max(until, Ordering::Relaxed) < until).then_some(until)
    }

    /// The receiver says how much it has served.
    pub(crate) fn served(&self, bytes: u64, limits: Limits) {
        self.served.fetch_max(bytes, Ordering::Relaxed);
        if self.under_way() <= limits.window / 2 {
            self.overdraft.store(0, Ordering::Relaxed);
        }
        self.wake();
    }

    /// There is a cycle: take room beyond the window for a message. False beyond the hard limit.
    pub(crate) fn overdraw(&self, cost: u64, limits: Limits) -> bool {
        let under_way = self.under_way();
        if under_way + cost > limits.hard {
            return false;
        }
        // Not for one message alone: what has to be proven for each of many small ones would hold up the cycle.
        let allowed = limits.hard.min(under_way + cost.max(limits.window / 4));
        self.overdraft.fetch_max(allowed.saturating_sub(limits.window), Ordering::Relaxed);
        true
    }

    /// Nobody serves anything any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Another process is sent to from now on.
    pub(crate) fn restart(&self) {
        for counter in [&self.sent, &self.served, &self.asked, &self.overdraft] {
            counter.store(0, Ordering::Relaxed);
        }
        self.over.store(false, Ordering::Relaxed);
        self.wake();
    }

    /// Be woken when something changes, for as long as the result lives.
    pub(crate) fn watch<'a>(&'a self, parker: &Arc<Parker>) -> Watching<'a> {
        self.waiting.lock().push(parker.clone());
        Watching { outbound: self, parker: parker.clone() }
    }

    pub(crate) fn wake(&self) {
        self.waiting.lock().iter().for_each(|parker| parker.unpark());
    }
}

/// A thread that is woken when something changes.
pub(crate) struct Watching<'a> {
    outbound: &'a Outbound,
    parker: Arc<Parker>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.outbound.waiting.lock().retain(|parker| !Arc::ptr_eq(parker, &self.parker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { window: 1000, hard: 2000 };

    #[test]
    fn flow_1_there_is_room_for_the_window_or_for_one_message_that_is_larger() {
        let outbound = Outbound::default();
        assert!(outbound.has_room(5000, LIMITS));
        outbound.send(900, LIMITS);
        assert!(outbound.has_room(100, LIMITS));
        assert!(!outbound.has_room(101, LIMITS));
        outbound.served(900, LIMITS);
        assert!(outbound.has_room(5000, LIMITS));
    }

    #[test]
    fn the_receiver_is_asked_once_at_half_of_the_window_and_again_when_it_has_answered() {
        let outbound = Outbound::default();
        assert_eq!(outbound.send(500, LIMITS), None);
        assert_eq!(outbound.send(100, LIMITS), Some(250));
        assert_eq!(outbound.send(100, LIMITS), None);
        outbound.served(600, LIMITS);
        assert_eq!(outbound.send(500, LIMITS), Some(850));
    }

    #[test]
    fn who_waits_asks_for_a_quarter_of_the_window_or_for_what_it_needs() {
        let outbound = Outbound::default();
        outbound.send(1000, LIMITS);
        assert_eq!(outbound.ask_for(1, LIMITS), None, "the quarter was asked for when it was sent");
        assert_eq!(outbound.ask_for(600, LIMITS), Some(600));
        assert_eq!(outbound.ask_for(5000, LIMITS), Some(1000));
    }

    #[test]
    fn flow_1_an_overdraft_goes_to_the_hard_limit_and_ends_with_its_need() {
        let outbound = Outbound::default();
        outbound.send(1000, LIMITS);
        assert!(outbound.overdraw(1, LIMITS));
        assert!(outbound.has_room(250, LIMITS), "for more than one message");
        assert!(!outbound.overdraw(1001, LIMITS));
        outbound.served(600, LIMITS);
        outbound.send(600, LIMITS);
        assert!(!outbound.has_room(1, LIMITS));
    }

    #[test]
    fn flow_2_there_is_room_at_the_dead() {
        let outbound = Outbound::default();
        outbound.send(1000, LIMITS);
        outbound.end();
        assert!(outbound.has_room(1, LIMITS));
    }
}
