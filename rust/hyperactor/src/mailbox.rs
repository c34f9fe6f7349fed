//! Mailboxes: where the requests to one actor queue.
//!
//! # Invariants
//! - **MAILBOX-1** Messages leave in the order in which they came.
//! - **MAILBOX-2** A mailbox that nobody opened yet keeps what arrives: a reference may be used the moment it arrives.
//! - **MAILBOX-3** After the close every request, queued or later, is answered with the reason of the close.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::death::Death;
use crate::flow::{Held, Inbound, Server};
use crate::id::ProcId;
use crate::link::Link;
use crate::message::Message;
use crate::notifier::Notifier;
use crate::park::{Interrupt, Parker, Waited, wait_until};
use crate::sync::Mutex;
use crate::wire::header::Kind;

/// The queue of one actor.
#[derive(Default)]
pub struct Mailbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    /// Its actor is there.
    open: bool,
    closed: Option<Arc<Death>>,
    waiting: Option<Arc<Parker>>,
    notifier: Option<(Arc<Notifier>, u64)>,
    /// The link that the last message came by: the next one probably comes by it too.
    link: Option<Arc<Link>>,
    /// The thread that takes messages.
    server: Option<Arc<Server>>,
    /// What each process has waiting here, and which one sent last.
    held: HashMap<ProcId, Arc<Held>>,
    last_held: Option<Arc<Held>>,
}

impl Mailbox {
    /// Deliver a message, which came by `link` if it came from another process.
    pub fn push(&self, message: Message, link: Option<&Arc<Link>>) {
        let mut state = self.state.lock();
        if let Some(death) = &state.closed {
            let death = death.clone();
            drop(state);
            refuse(&message, &death);
            return;
        }
        if let Kind::Cancel = message.kind
            && let Some(withdrawn) = state.withdraw(&message)
        {
            // A request answers when it is dropped, and looks into its mailbox for why.
            drop(state);
            drop(withdrawn);
            return;
        }
        let was_empty = state.queue.is_empty();
        state.queue.push_back(message);
        state.remember(link);
        let sleeper = state.notify(was_empty);
        drop(state);
        // Not with the lock, which is the first thing that it takes.
        if let Some(parker) = sleeper {
            parker.unpark();
        }
    }

    /// Have a message take room until it is served.
    pub(crate) fn charge(self: &Arc<Self>, message: &mut Message, cost: u64, inbound: impl FnOnce() -> Arc<Inbound>) {
        let from = message.sender.proc;
        let mut state = self.state.lock();
        let held = match &state.last_held {
            Some(held) if held.inbound().from() == from => held.clone(),
            _ => {
                let held = state.held.entry(from).or_insert_with(|| inbound().hold(self)).clone();
                state.last_held = Some(held.clone());
                held
            }
        };
        message.charge = Some(held.charge(cost));
    }

    /// The thread that takes messages, if one ever did.
    pub(crate) fn server(&self) -> Option<Arc<Server>> {
        self.state.lock().server.clone()
    }

    /// Take the next message, if there is one.
    pub fn try_recv(&self) -> Option<Message> {
        self.state.lock().queue.pop_front()
    }

    /// Take all messages.
    pub fn drain(&self) -> Vec<Message> {
        let mut state = self.state.lock();
        Server::note_current(&mut state.server);
        state.queue.drain(..).collect()
    }

    /// Wait for the next message until `deadline`; none when it passed or the mailbox is closed.
    pub fn recv<E>(
        &self,
        deadline: Option<Instant>,
        interrupt: Interrupt<'_, E>,
    ) -> io::Result<(Waited<E>, Option<Message>)> {
        if let Some(message) = self.try_recv() {
            return Ok((Waited::Ready, Some(message)));
        }
        let parker = Parker::current();
        let link = {
            let mut state = self.state.lock();
            state.waiting = Some(parker.clone());
            Server::note_current(&mut state.server);
            state.link.clone()
        };
        let ready = || {
            let state = self.state.lock();
            !state.queue.is_empty() || state.closed.is_some()
        };
        let outcome = wait_until(&parker, ready, link.as_ref(), deadline, interrupt);
        let mut state = self.state.lock();
        state.waiting = None;
        let waited = outcome?;
        // Who is interrupted gets no message, so none may be taken for it.
        let message = if let Waited::Interrupted(_) = waited { None } else { state.queue.pop_front() };
        Ok((waited, message))
    }

    /// From now on push `token` whenever a message comes into the empty queue, and now if it is not empty.
    pub fn notify(&self, notifier: Arc<Notifier>, token: u64) {
        let mut state = self.state.lock();
        Server::note_current(&mut state.server);
        if !state.queue.is_empty() || state.closed.is_some() {
            notifier.push(token);
        }
        if state.closed.is_none() {
            state.notifier = Some((notifier, token));
        }
    }

    /// Its actor is there.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.open = true;
        Server::note_current(&mut state.server);
    }

    /// Whether its actor ever was there.
    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().open
    }

    /// Why it is closed, if it is.
    pub fn death(&self) -> Option<Arc<Death>> {
        self.state.lock().closed.clone()
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    /// End it: what queues and what comes later is answered with `death`. The first close counts.
    pub fn close(&self, death: Death) {
        let death = Arc::new(death);
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(death.clone());
        let queue = std::mem::take(&mut state.queue);
        let sleeper = state.notify(true);
        // Nothing comes any more; a closed mailbox is kept for its reason, without what costs descriptors.
        state.link = None;
        state.server = None;
        state.held.clear();
        state.last_held = None;
        let notifier = state.notifier.take();
        drop(state);
        drop(notifier);
        if let Some(parker) = sleeper {
            parker.unpark();
        }
        queue.iter().for_each(|message| refuse(message, &death));
    }
}

impl State {
    /// Take the cancelled request out of the queue, if it still waits there.
    fn withdraw(&mut self, cancel: &Message) -> Option<Message> {
        let is_it = |message: &Message| matches!(message.kind, Kind::Call) && message.call == cancel.call;
        let at = self.queue.iter().position(is_it)?;
        self.queue.remove(at)
    }

    fn remember(&mut self, link: Option<&Arc<Link>>) {
        let Some(link) = link else { return };
        if !self.link.as_ref().is_some_and(|known| Arc::ptr_eq(known, link)) {
            self.link = Some(link.clone());
        }
    }

    /// Say that something has come; who waits, if it is a thread, is still to be woken.
    fn notify(&self, was_empty: bool) -> Option<Arc<Parker>> {
        if self.waiting.is_none()
            && was_empty
            && let Some((notifier, token)) = &self.notifier
        {
            notifier.push(*token);
        }
        self.waiting.clone()
    }
}

fn refuse(message: &Message, death: &Death) {
    // A header of this kind always encodes; and a caller that is gone needs no answer.
    let _ = message.answer(Kind::Dead(Box::new(death.clone())), Vec::new());
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;
    use crate::death::Cause;
    use crate::id::{ActorId, MeshId, PortId, ProcId};
    use crate::wire::header::Sender;

    fn sender() -> Sender {
        Sender { proc: ProcId::first(MeshId([1; 16]), 0), actor: ActorId([2; 16]) }
    }

    fn request(rank: u32) -> Message {
        Message::bare(Kind::Call, rank, sender())
    }

    fn death() -> Death {
        Death::new(sender().proc, Cause::Stopped("test".into()))
    }

    #[test]
    fn mailbox_1_messages_leave_in_the_order_in_which_they_came() {
        let mailbox = Mailbox::default();
        (0..10).for_each(|rank| mailbox.push(request(rank), None));
        let ranks: Vec<u32> = std::iter::from_fn(|| mailbox.try_recv()).map(|message| message.rank).collect();
        assert_eq!(ranks, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_waiting_thread_gets_what_another_thread_pushes() {
        let mailbox = Arc::new(Mailbox::default());
        let pushing = mailbox.clone();
        let thread = std::thread::spawn(move || (0..1000).for_each(|rank| pushing.push(request(rank), None)));
        for rank in 0..1000 {
            let (_, message) = mailbox.recv::<Infallible>(None, None).unwrap();
            assert_eq!(message.unwrap().rank, rank);
        }
        thread.join().unwrap();
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let deadline = Some(Instant::now() + Duration::from_millis(5));
        let (waited, message) = Mailbox::default().recv::<Infallible>(deadline, None).unwrap();
        assert_eq!(waited, Waited::TimedOut);
        assert!(message.is_none());
    }

    #[test]
    fn an_interrupted_wait_takes_no_message() {
        let mailbox = Mailbox::default();
        let mut arrives_and_interrupts = || {
            mailbox.push(request(7), None);
            Err("interrupted")
        };
        let (waited, message) = mailbox.recv(None, Some(&mut arrives_and_interrupts)).unwrap();
        assert_eq!(waited, Waited::Interrupted("interrupted"));
        assert!(message.is_none());
        assert_eq!(mailbox.try_recv().map(|message| message.rank), Some(7));
    }

    #[test]
    fn mailbox_3_nothing_queues_after_the_close() {
        let mailbox = Mailbox::default();
        mailbox.push(request(0), None);
        mailbox.close(death());
        mailbox.push(request(1), None);
        assert!(mailbox.try_recv().is_none());
        let (_, message) = mailbox.recv::<Infallible>(None, None).unwrap();
        assert!(message.is_none());
    }

    #[test]
    fn a_cancelled_request_that_still_waits_is_withdrawn() {
        let mailbox = Mailbox::default();
        let call = Some(PortId { proc: sender().proc, index: 5 });
        mailbox.push(Message { call, ..request(0) }, None);
        mailbox.push(request(1), None);
        mailbox.push(Message { call, ..Message::bare(Kind::Cancel, 0, sender()) }, None);
        assert_eq!(mailbox.drain().iter().map(|message| message.rank).collect::<Vec<_>>(), [1]);
    }
}
