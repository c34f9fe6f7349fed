//! The answers to one call, collected where the call was made.
//!
//! # Invariants
//! - **REPLIES-1** Every target takes exactly one place: its answer, or, when it cannot answer, the runtime's.
//! - **REPLIES-2** Answers are kept in order of arrival and never change their index.
//! - **REPLIES-3** Whoever waits is woken when what it waits for has arrived, by whichever thread brought it.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::death::Death;
use crate::flow::Server;
use crate::id::{ActorId, PortId, ProcId};
use crate::link::Link;
use crate::message::Message;
use crate::notifier::Notifier;
use crate::park::{Interrupt, Parker, Waited, wait_until};
use crate::sync::Mutex;
use crate::wire::header::Kind;

/// Who was asked, in the order of the view.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The process.
    pub proc: ProcId,
    /// The actor in it.
    pub actor: ActorId,
    /// Its place in the view.
    pub rank: u32,
}

/// The answers to one call.
pub struct Replies {
    /// Where they are sent to; none for an event of this process.
    pub port: Option<PortId>,
    asked: Vec<Asked>,
    expected: usize,
    fail_fast: bool,
    /// The link that the only answer will come by, until it is here.
    link: Mutex<Option<Arc<Link>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arrived: Vec<Arc<Message>>,
    answered: Vec<bool>,
    dead: usize,
    completed: bool,
    waiters: Vec<Waiter>,
}

struct Waiter {
    count: usize,
    wake: Wake,
}

enum Wake {
    Notifier(Arc<Notifier>, u64),
    Thread(Arc<Parker>),
}

impl Replies {
    /// For a call to `asked`, whose answers are sent to `port`.
    pub fn new(port: PortId, asked: Vec<Asked>, fail_fast: bool, link: Option<Arc<Link>>) -> Self {
        let answered = vec![false; asked.len()];
        let state = Mutex::new(State { answered, ..State::default() });
        Self { port: Some(port), expected: asked.len(), asked, fail_fast, link: Mutex::new(link), state }
    }

    /// For something in this process that is complete when [`Replies::complete`] says so.
    pub fn event(expected: usize) -> Self {
        Self {
            port: None,
            asked: Vec::new(),
            expected,
            fail_fast: false,
            link: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// For so many answers of the agent.
    pub fn of_agent(port: PortId, expected: usize) -> Self {
        Self { port: Some(port), ..Self::event(expected) }
    }

    /// How many answers there will be.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// How many answers are here.
    pub fn arrived(&self) -> usize {
        self.state.lock().arrived.len()
    }

    /// An answer, in order of arrival.
    pub fn message(&self, index: usize) -> Option<Arc<Message>> {
        self.state.lock().arrived.get(index).cloned()
    }

    /// Whether `count` answers are here, or one that ends the call early.
    pub fn ready(&self, count: usize) -> bool {
        self.is_ready(&self.state.lock(), count)
    }

    fn is_ready(&self, state: &State, count: usize) -> bool {
        state.completed || state.arrived.len() >= count || (self.fail_fast && state.dead > 0)
    }

    /// Who has not answered.
    pub fn pending(&self) -> Vec<Asked> {
        let state = self.state.lock();
        let open = self.asked.iter().zip(&state.answered).filter(|(_, answered)| !**answered);
        open.map(|(asked, _)| asked.clone()).collect()
    }

    /// Take an answer; true when it was the last.
    pub fn push(&self, message: Message) -> bool {
        let mut state = self.state.lock();
        if !self.asked.is_empty() {
            let Some(place) = self.place(message.rank) else { return false };
            if std::mem::replace(&mut state.answered[place], true) {
                return false;
            }
        }
        state.dead += usize::from(matches!(message.kind, Kind::Dead(_)));
        state.arrived.push(Arc::new(message));
        let ready = self.take_ready(&mut state);
        let last = state.arrived.len() >= self.expected;
        drop(state);
        ready.into_iter().for_each(Waiter::wake);
        if last {
            // A future that somebody keeps must not keep a socket open.
            self.link.lock().take();
        }
        last
    }

    /// Where in `asked` a rank is: a call to all has them in order, a call to one has one.
    fn place(&self, rank: u32) -> Option<usize> {
        let guess = (rank as usize).min(self.asked.len().saturating_sub(1));
        (self.asked.get(guess)?.rank == rank).then_some(guess)
    }

    /// Answer for every target in a dead process; true when those were the last.
    pub fn proc_died(&self, death: &Death) -> bool {
        let mut last = false;
        for asked in self.asked.iter().filter(|asked| asked.proc.is_or_was_before(death.proc)) {
            last |= self.push(Message::dead(death, asked.rank));
        }
        last
    }

    /// From now on, until [`Replies::let_go`], who serves messages on this thread waits for these answers.
    pub fn hold_up(self: &Arc<Self>) {
        if let Some(server) = Server::current() {
            server.awaits(Some(self));
        }
    }

    /// Who serves messages on this thread goes on.
    pub fn let_go() {
        if let Some(server) = Server::current() {
            server.awaits(None);
        }
    }

    /// Be complete as it is.
    pub fn complete(&self) {
        let mut state = self.state.lock();
        state.completed = true;
        let ready = self.take_ready(&mut state);
        drop(state);
        ready.into_iter().for_each(Waiter::wake);
    }

    /// Wait until ready for `count`, or until `deadline`.
    pub fn wait<E>(
        self: &Arc<Self>,
        count: usize,
        deadline: Option<Instant>,
        interrupt: Interrupt<'_, E>,
    ) -> io::Result<Waited<E>> {
        if self.ready(count) {
            return Ok(Waited::Ready);
        }
        let parker = Parker::current();
        self.state.lock().waiters.push(Waiter { count, wake: Wake::Thread(parker.clone()) });
        let link = self.link.lock().clone();
        let server = Server::current();
        let _blocked = server.as_ref().map(|server| server.wait_for_answers(self));
        let outcome = wait_until(&parker, || self.ready(count), link.as_ref(), deadline, interrupt);
        let is_ours = |waiter: &Waiter| matches!(&waiter.wake, Wake::Thread(other) if Arc::ptr_eq(other, &parker));
        self.state.lock().waiters.retain(|waiter| !is_ours(waiter));
        outcome
    }

    /// Push `token` once when ready for `count`; at once if it is.
    pub fn notify(&self, count: usize, notifier: Arc<Notifier>, token: u64) {
        let mut state = self.state.lock();
        if self.is_ready(&state, count) {
            drop(state);
            notifier.push(token);
            return;
        }
        state.waiters.push(Waiter { count, wake: Wake::Notifier(notifier, token) });
    }

    /// Who waits for no more than is here. They are to be woken without the lock, which is the first thing they take.
    fn take_ready(&self, state: &mut State) -> Vec<Waiter> {
        let (ready, waiting) =
            std::mem::take(&mut state.waiters).into_iter().partition(|waiter| self.is_ready(state, waiter.count));
        state.waiters = waiting;
        ready
    }
}

impl Waiter {
    fn wake(self) {
        match self.wake {
            Wake::Notifier(notifier, token) => notifier.push(token),
            Wake::Thread(parker) => parker.unpark(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::death::Cause;
    use crate::id::MeshId;
    use crate::wire::header::Sender;

    fn proc(rank: u32) -> ProcId {
        ProcId::first(MeshId([1; 16]), rank)
    }

    fn replies(count: u32, fail_fast: bool) -> Replies {
        let asked = (0..count).map(|rank| Asked { proc: proc(rank), actor: ActorId([2; 16]), rank }).collect();
        Replies::new(PortId { proc: proc(99), index: 1 }, asked, fail_fast, None)
    }

    fn answer(rank: u32) -> Message {
        Message::bare(Kind::Value, rank, Sender { proc: proc(rank), actor: ActorId([2; 16]) })
    }

    fn death(rank: u32) -> Death {
        Death::new(proc(rank), Cause::Signal(9))
    }

    proptest! {
        #[test]
        fn replies_1_every_target_takes_exactly_one_place(
            events in prop::collection::vec((0u32..5, any::<bool>()), 0..30),
        ) {
            let replies = replies(5, false);
            let mut first: Vec<(u32, bool)> = Vec::new();
            for (rank, dies) in events {
                if !first.iter().any(|(seen, _)| *seen == rank) {
                    first.push((rank, dies));
                }
                let last = if dies { replies.proc_died(&death(rank)) } else { replies.push(answer(rank)) };
                prop_assert!(!last || first.len() == 5);
            }
            let kept: Vec<(u32, bool)> = (0..replies.arrived())
                .filter_map(|index| replies.message(index))
                .map(|message| (message.rank, matches!(message.kind, Kind::Dead(_))))
                .collect();
            prop_assert_eq!(kept, first);
        }
    }

    #[test]
    fn a_death_makes_a_call_that_fails_fast_ready_at_once() {
        let (fast, patient) = (replies(3, true), replies(3, false));
        for call in [&fast, &patient] {
            call.proc_died(&death(1));
        }
        assert!(fast.ready(3));
        assert!(!patient.ready(3));
    }

    #[test]
    fn replies_3_a_waiting_thread_is_woken_by_the_thread_that_brings_the_answer() {
        let call = Arc::new(replies(2, false));
        let bringing = call.clone();
        let thread = std::thread::spawn(move || {
            bringing.push(answer(1));
            bringing.push(answer(0));
        });
        assert_eq!(call.wait::<()>(2, None, None).unwrap(), Waited::Ready);
        thread.join().unwrap();
    }

    #[test]
    fn a_notifier_gets_its_token_when_enough_has_arrived() {
        let call = replies(2, false);
        let notifier = Arc::new(Notifier::new().unwrap());
        call.notify(2, notifier.clone(), 7);
        call.push(answer(0));
        assert!(notifier.drain().is_empty());
        call.push(answer(1));
        assert_eq!(notifier.drain(), [7]);
    }
}
