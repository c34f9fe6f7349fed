//! Flow control: how much a process may have sent to another one that waits there, and what happens where waiting for
//! room would never end.
//!
//! Requests cost their bytes and [`MESSAGE_BYTES`] each, from when they are sent until they begin to be served, or are
//! dropped. Sender and receiver count all that was sent and all that was served; the difference is what is under way.
//! Nothing is said as long as that is little. A sender whose messages fill half of the window asks for word of how much
//! has been served; one that finds the window full asks, and waits.
//!
//! # Invariants
//! - **FLOW-1** What one process has sent to another, and what waits there, is at most the window and one message for each
//!   thread that sends. The exception is a proven cycle, for which it is the hard limit.
//! - **FLOW-2** Whoever waits for room goes on when there is some, or when the receiver dies or this process ends.
//! - **FLOW-3** Answers, messages to the process itself, what agents pass on and control never wait. Answers use the room
//!   of their requests.
//! - **FLOW-4** An overdraft is granted, or a send refused, only after everybody that the sender waits for, directly or
//!   through others, has said that it waits too.

mod cycles;
mod inbound;
mod outbound;
mod server;
mod waiting;

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::id::{ActorId, FLOW_ACTOR, PROCESS_ACTOR, ProcId, STACKS_ACTOR};
use crate::memory::Part;
use crate::wire::header::{Destination, Kind, MessageHeader};

pub(crate) use inbound::{Charge, Held, Inbound};
pub(crate) use outbound::Outbound;
pub(crate) use server::Server;
pub(crate) use waiting::Flow;

use cycles::{Query, Stuck};

/// What a waiting message costs beside its bytes.
pub const MESSAGE_BYTES: u64 = 512;

/// How much may be under way to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without a proven cycle.
    pub window: u64,
    /// With one.
    pub hard: u64,
}

impl Limits {
    /// So little that whoever knows the limits is asked before they matter.
    pub const UNKNOWN: Self = Self { window: 64 << 10, hard: 64 << 10 };

    /// The limits; a hard limit below the window is the window.
    pub fn new(window: u64, hard: u64) -> Self {
        Self { window, hard: hard.max(window) }
    }
}

/// The limits of this process.
pub(crate) struct CurrentLimits {
    window: AtomicU64,
    hard: AtomicU64,
}

impl Default for CurrentLimits {
    fn default() -> Self {
        let Limits { window, hard } = Limits::UNKNOWN;
        Self { window: AtomicU64::new(window), hard: AtomicU64::new(hard) }
    }
}

impl CurrentLimits {
    pub(crate) fn get(&self) -> Limits {
        Limits::new(self.window.load(Ordering::Relaxed), self.hard.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, limits: Limits) {
        self.window.store(limits.window, Ordering::Relaxed);
        self.hard.store(limits.hard, Ordering::Relaxed);
    }
}

/// What a message with these parts costs.
pub fn cost(parts: &[Part]) -> u64 {
    MESSAGE_BYTES + parts.iter().map(|part| part.len() as u64).sum::<u64>()
}

/// Whether a message takes room: a request to an actor of a program.
pub(crate) fn takes_room(header: &MessageHeader) -> bool {
    matches!(header.kind, Kind::Call) && matches!(header.destination, Destination::Actor(_, actor) if is_counted(actor))
}

/// Whether requests to an actor take room. Those that processes serve themselves are control.
pub(crate) fn is_counted(actor: ActorId) -> bool {
    ![PROCESS_ACTOR, STACKS_ACTOR, FLOW_ACTOR].contains(&actor)
}

/// What processes say to each other about room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// Sender to receiver: say when you have served so much of what I sent.
    Ask { until: u64 },
    /// Receiver to sender: so much of what you sent is served.
    Served { bytes: u64 },
    /// To whom somebody waits for: do you wait as well?
    Query(Query),
    /// The answer of somebody who does, and so does everybody that it waits for.
    Stuck(Stuck),
}

/// What somebody waits for at a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum About {
    /// For an actor to answer.
    Actor(ActorId),
    /// For somebody to serve what the asking process has sent.
    Room,
}

/// The search of one thread for a cycle that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Search {
    pub(crate) proc: ProcId,
    pub(crate) number: u64,
}
