//! Casts: one message to many processes, on many hosts. Neither sockets nor clocks nor threads: what arrives goes in, what
//! is to be sent comes out.
//!
//! A cast names its members by a [`Region`] and goes down a tree of hosts ([`Route`]): each edge carries it once, and each
//! gateway repeats it to the processes of its own host. Answers come back the same way, many in one frame ([`Batcher`]);
//! where a call wants them combined, each gateway sends one answer for all beyond it.
//!
//! # Invariants
//! - **CAST-1** Every member gets a cast at most once; it gets it, or whoever cast hears that it is lost.
//! - **CAST-2** A member gets the casts of one process in the order in which they were cast: the way to a host is the same
//!   for all of them, and each edge keeps the order.
//! - **CAST-3** The death of a gateway raises the *epoch* of its tree, which changes the ways to those behind it and to
//!   nobody else. A cast of an earlier epoch that is late is refused by whoever has seen the later one.
//! - **CAST-4** Every call is answered for every member: by the member, or by the root for those that are behind a lost
//!   gateway.
//! - **CAST-5** What the root sends grows with its fan-out, and so does what it gets of combined answers.

mod batch;
mod gateway;
mod region;
mod root;
mod tree;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use batch::{Batcher, unbatch};
pub use gateway::{Gateway, Passed, Refused};
pub use region::{Member, Region};
pub use root::{Begun, News, Order, Root};
pub use tree::{Route, Span};

use crate::id::{ActorId, MeshId, ProcId};
use crate::wire::header::{Destination, Kind, MessageHeader};
use crate::wire::{Frame, FrameError, Priority};

/// Into how many parts a gateway splits the hosts beyond it. Found by measurement, see `docs/performance.md`: clusters of
/// up to so many hosts have one level, and up to its square two.
pub const FAN_OUT: u32 = 64;

/// Longest description of the members of a cast, in bytes. Only views without any regularity are longer than a few dozen.
const MOST_BYTES: usize = 64 << 20;

/// Whom a message is for: the first part of a frame of [`Kind::Cast`]. The parts of the message follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cast {
    /// The view.
    pub region: Region,
    /// Ranks that get it in other ways: first and count, in order.
    pub except: Vec<(u32, u32)>,
    /// The places whose process is not their first: rank and generation, in order.
    pub generations: Vec<(u32, u32)>,
    /// How it gets on; none on the way from a process to its gateway.
    pub route: Option<Route>,
    /// Answers are combined on the way up, by this reducer.
    pub reducer: Option<u32>,
}

/// How two answers become one. Associative: a gateway combines neighbours, in the order of ranks.
pub trait Reduce: Send + Sync {
    /// Combine the answers of lower and of higher ranks by a reducer.
    fn combine(&self, reducer: u32, lower: &[u8], higher: &[u8]) -> Vec<u8>;
}

/// The reducer that only counts: for casts of which the sender wants to know no more than whether they have arrived.
pub const RECEIPT: u32 = 0;

/// A gateway is lost: what a host says to the next one on the way to the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Whose tree.
    pub root: MeshId,
    /// Of which mesh.
    pub mesh: MeshId,
    /// Which of its hosts is lost.
    pub host: u32,
}

impl Cast {
    /// The first part of a frame.
    pub fn to_bytes(&self) -> Result<Bytes, FrameError> {
        postcard::to_allocvec(self).map(Bytes::from).map_err(FrameError::Header)
    }

    /// From the first part of a frame.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FrameError> {
        let limit = MOST_BYTES as u64;
        if bytes.len() > MOST_BYTES {
            return Err(FrameError::TooLong { what: "list of members", value: bytes.len() as u64, limit });
        }
        let cast: Self = postcard::from_bytes(bytes).map_err(FrameError::Header)?;
        let is_sound = cast.region.is_sound() && cast.route.as_ref().is_none_or(Route::is_sound);
        if is_sound { Ok(cast) } else { Err(FrameError::Header(postcard::Error::SerdeDeCustom)) }
    }

    /// The members on these ranks that it is for, in the order of the view.
    pub fn members_in(&self, ranks: std::ops::Range<u32>) -> Vec<Member> {
        let mut members = self.region.members_in(ranks);
        if !self.except.is_empty() {
            members.retain(|member| !self.is_excepted(member.rank));
        }
        members
    }

    /// How many members it is for on these ranks.
    pub fn count_in(&self, ranks: std::ops::Range<u32>) -> u64 {
        let excepted = self.except.iter().map(|(first, count)| {
            let (start, end) = (ranks.start.max(*first), ranks.end.min(first.saturating_add(*count)));
            if start < end { self.region.count_in(start..end) } else { 0 }
        });
        self.region.count_in(ranks.clone()).saturating_sub(excepted.sum())
    }

    fn is_excepted(&self, rank: u32) -> bool {
        let before = self.except.partition_point(|(first, _)| *first <= rank);
        before > 0 && rank - self.except[before - 1].0 < self.except[before - 1].1
    }

    /// The process that a rank stood for when it was cast.
    fn proc(&self, mesh: MeshId, rank: u32) -> ProcId {
        let found = self.generations.binary_search_by_key(&rank, |(rank, _)| *rank);
        let generation = found.map_or(0, |at| self.generations[at].1);
        ProcId { mesh, rank, generation }
    }

    /// One frame for each part that `hosts` are split into and that has members; with the host that it is for.
    pub fn spread(
        &self,
        header: &MessageHeader,
        parts: &[Bytes],
        hosts: Span,
    ) -> Result<Vec<(Span, Frame)>, FrameError> {
        let Some(route) = &self.route else { return Ok(Vec::new()) };
        let mut frames = Vec::new();
        for part in route.parts(hosts) {
            let ranks = part.ranks(route.per_host);
            let skipped = route.skipped_in(part);
            let unreached =
                skipped.iter().map(|host| self.count_in(Span { first: *host, count: 1 }.ranks(route.per_host)));
            if self.count_in(ranks.clone()) == unreached.sum() {
                continue;
            }
            let generations = self.generations.iter().filter(|(rank, _)| ranks.contains(rank)).copied().collect();
            let onward = Route { hosts: part, skipped, ..route.clone() };
            let cast = Self { generations, route: Some(onward), ..self.clone() };
            frames.push((part, cast.frame(header, parts)?));
        }
        Ok(frames)
    }

    /// The frame that carries it, with the parts of its message.
    pub fn frame(&self, header: &MessageHeader, parts: &[Bytes]) -> Result<Frame, FrameError> {
        let mut all = Vec::with_capacity(parts.len() + 1);
        all.push(self.to_bytes()?);
        all.extend_from_slice(parts);
        let header = MessageHeader { kind: Kind::Cast, ..header.clone() };
        Ok(Frame { can_wait: header.reply.is_none(), ..Frame::new(Priority::User, &header, all)? })
    }

    /// What a member gets of it.
    pub fn header_for(&self, header: &MessageHeader, member: Member) -> MessageHeader {
        let (mesh, actor) = target(header);
        let destination = Destination::Actor(self.proc(mesh, member.rank), actor);
        MessageHeader { destination, kind: Kind::Call, rank: member.place, ..header.clone() }
    }
}

/// Ranks as [`Cast::except`] names them: runs of consecutive ones, in order.
pub fn runs(mut ranks: Vec<u32>) -> Vec<(u32, u32)> {
    ranks.sort_unstable();
    ranks.dedup();
    ranks.chunk_by(|one, next| one + 1 == *next).map(|run| (run[0], run.len() as u32)).collect()
}

/// The mesh that a cast goes to, and the actor in each of its processes.
pub fn target(header: &MessageHeader) -> (MeshId, ActorId) {
    match header.destination {
        Destination::Actor(proc, actor) => (proc.mesh, actor),
        Destination::Port(port) => (port.proc.mesh, crate::id::PROCESS_ACTOR),
    }
}
