//! Messages as their receiver sees them, and the duty to answer.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::death::{Cause, Death};
use crate::flow::Charge;
use crate::id::{ActorId, PortId, ProcId};
use crate::mailbox::Mailbox;
use crate::memory::{Part, View};
use crate::runtime::Runtime;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sys::fork::is_forked_child;
use crate::wire::header::{Destination, Kind, MessageHeader, Sender};
use crate::wire::{Frame, FrameError, Priority};

/// One received message.
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Request: the receiver's place in the view as addressed. Answer: the place of who answers.
    pub rank: u32,
    /// Who sent it.
    pub sender: Sender,
    /// The call that it belongs to, if answers are wanted.
    pub call: Option<PortId>,
    /// What the sender says about the payload; the same for all receivers of a cast.
    pub descriptor: Bytes,
    /// The payload.
    pub payload: Bytes,
    /// Buffers that belong to the payload and were never joined with it.
    pub(crate) buffers: Mutex<Vec<Kept>>,
    /// The duty to answer a request.
    pub answer: Option<Answer>,
    /// The room that it takes while it waits.
    pub(crate) charge: Option<Charge>,
}

/// The parts of a message before its buffers: descriptor and payload.
pub(crate) const FIRST_BUFFER: usize = 2;

/// A buffer of a message.
pub(crate) enum Kept {
    Here(Part),
    /// Somebody has taken it, and may have changed it since.
    Taken(Weak<View>),
}

/// Where the answer to one request goes. Dropped without an answer, it tells the caller so: nobody waits in vain.
pub struct Answer {
    runtime: Weak<Runtime>,
    port: PortId,
    rank: u32,
    /// The mailbox that it was delivered to: when that is closed, its death is why no answer comes.
    mailbox: Weak<Mailbox>,
    sent: AtomicBool,
}

impl Message {
    /// A message from a header and the parts that followed it: descriptor, payload, buffers.
    pub fn new(header: MessageHeader, parts: Vec<Part>, runtime: &Arc<Runtime>) -> Self {
        let mut parts = parts.into_iter();
        let mut next = || parts.next().map(|part| part.to_bytes()).unwrap_or_default();
        let (descriptor, payload) = (next(), next());
        let answer = match header.kind {
            Kind::Call => header.reply.map(|port| Answer::new(runtime, port, header.rank)),
            _ => None,
        };
        Self {
            kind: header.kind,
            rank: header.rank,
            sender: header.sender,
            call: header.reply,
            descriptor,
            payload,
            buffers: Mutex::new(parts.map(Kept::Here).collect()),
            answer,
            charge: None,
        }
    }

    /// What a process is told about the end of another.
    pub fn notice(death: Death) -> Self {
        let sender = Sender { proc: death.proc, actor: crate::id::PROCESS_ACTOR };
        Self::bare(Kind::Death(Box::new(death)), 0, sender)
    }

    /// The answer that the runtime gives in place of one that cannot come.
    pub fn dead(death: &Death, rank: u32) -> Self {
        let sender = Sender { proc: death.proc, actor: crate::id::PROCESS_ACTOR };
        Self::bare(Kind::Dead(Box::new(death.clone())), rank, sender)
    }

    /// A message without payload.
    pub fn bare(kind: Kind, rank: u32, sender: Sender) -> Self {
        Self {
            kind,
            rank,
            sender,
            call: None,
            descriptor: Bytes::new(),
            payload: Bytes::new(),
            buffers: Mutex::default(),
            answer: None,
            charge: None,
        }
    }

    /// The buffers, which are the caller's own. Memory that the message came in goes to the first caller, later ones get
    /// copies; none once it is gone. Whoever takes them serves the message, which from now on takes no room.
    pub fn take_buffers(&self) -> Option<Vec<Part>> {
        if let Some(charge) = &self.charge {
            charge.end();
        }
        self.buffers.lock().iter_mut().map(Kept::take).collect()
    }

    /// Copies of the buffers; none once they were taken and are gone.
    pub fn copy_buffers(&self) -> Option<Vec<Bytes>> {
        self.buffers.lock().iter().map(Kept::copy).collect()
    }

    /// Answer a request; only the first answer counts, and without anybody waiting it does nothing.
    pub fn answer(&self, kind: Kind, parts: Vec<Part>) -> Result<(), FrameError> {
        self.answer.as_ref().map_or(Ok(()), |answer| answer.send(kind, parts))
    }
}

impl Message {
    /// Where its answer will be sent from; none where no answer is wanted any more.
    pub fn runtime(&self) -> Option<Arc<Runtime>> {
        self.answer.as_ref()?.runtime.upgrade()
    }

    /// Take over the duty to answer: what was promised here is kept by whoever sends to the call's port.
    pub fn hand_over_answer(&self) {
        if let Some(answer) = &self.answer {
            answer.sent.store(true, Ordering::Relaxed);
        }
    }

    /// Answer a request now with why no answer comes: the end of its actor.
    pub fn refuse(&self) {
        if let Some(answer) = &self.answer {
            answer.refuse();
        }
    }
}

impl Kept {
    fn take(&mut self) -> Option<Part> {
        let view = match self {
            Self::Here(Part::Slot(slot)) => View::of_own(slot.clone()).map(Arc::new).ok(),
            Self::Here(Part::View(view)) => Some(view.clone()),
            Self::Here(Part::Inline(_)) | Self::Taken(_) => None,
        };
        let Some(view) = view else { return self.copy().map(Part::Inline) };
        *self = Self::Taken(Arc::downgrade(&view));
        Some(Part::View(view))
    }

    fn copy(&self) -> Option<Bytes> {
        match self {
            Self::Here(part) => Some(part.to_bytes()),
            Self::Taken(view) => Some(view.upgrade()?.to_vec().into()),
        }
    }
}

impl Answer {
    fn new(runtime: &Arc<Runtime>, port: PortId, rank: u32) -> Self {
        Self { runtime: Arc::downgrade(runtime), port, rank, mailbox: Weak::new(), sent: AtomicBool::new(false) }
    }

    /// Note where its request waits.
    pub(crate) fn delivered_to(&mut self, mailbox: &Arc<Mailbox>) {
        self.mailbox = Arc::downgrade(mailbox);
    }

    /// Why no answer comes.
    fn end(&self, runtime: &Runtime) -> Death {
        if let Some(death) = self.mailbox.upgrade().and_then(|mailbox| mailbox.death()) {
            return (*death).clone();
        }
        let reason = "the request was dropped without an answer".into();
        runtime.own_death(Cause::Actor { stopped: false, reason, detail: Vec::new() })
    }

    fn refuse(&self) {
        if self.sent.load(Ordering::Relaxed) || is_forked_child() {
            return;
        }
        let Some(runtime) = self.runtime.upgrade() else { return };
        let death = self.end(&runtime);
        // A header of this kind always encodes; and a caller that is gone needs no answer.
        let _ = self.send(Kind::Dead(Box::new(death)), Vec::new());
    }

    fn send(&self, kind: Kind, parts: Vec<Part>) -> Result<(), FrameError> {
        if self.sent.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Some(runtime) = self.runtime.upgrade() else { return Ok(()) };
        send_answer(&runtime, self.port, self.rank, kind, &parts)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.refuse();
    }
}

/// The header of a request.
pub fn request(proc: ProcId, actor: ActorId, sender: Sender, rank: u32, reply: Option<PortId>) -> MessageHeader {
    MessageHeader {
        destination: Destination::Actor(proc, actor),
        sender,
        kind: Kind::Call,
        rank,
        reply,
        sequence: 0,
        epoch: 0,
        memory: None,
    }
}

/// Send an answer to where a call collects them.
pub fn send_answer(
    runtime: &Arc<Runtime>,
    port: PortId,
    rank: u32,
    kind: Kind,
    parts: &[Part],
) -> Result<(), FrameError> {
    let header = MessageHeader {
        destination: Destination::Port(port),
        sender: runtime.as_sender(),
        kind,
        rank,
        reply: None,
        sequence: 0,
        epoch: 0,
        memory: None,
    };
    // A caller that is gone needs no answer.
    runtime.send(header, parts).map(drop)
}

/// A message on its way to another process.
pub fn frame(header: &MessageHeader, parts: Vec<Bytes>) -> Result<Frame, FrameError> {
    let is_one_way = matches!(header.kind, Kind::Call) && header.reply.is_none();
    Ok(Frame { can_wait: is_one_way, ..Frame::new(Priority::User, header, parts)? })
}
