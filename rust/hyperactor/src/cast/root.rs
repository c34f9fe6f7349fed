//! Where casts begin: which way they go, and what became of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::gateway::combine;
use super::{Cast, Reduce, Region, Route, Span, unbatch};
use crate::id::{ActorId, MeshId, PortId, ProcId};
use crate::message::request;
use crate::wire::header::{Destination, Kind, MessageHeader, Sender};
use crate::wire::{Frame, FrameError};

/// The casts of one process, as the root of the trees that they go down.
pub struct Root {
    host: MeshId,
    fan_out: u32,
    reduce: Arc<dyn Reduce>,
    meshes: HashMap<MeshId, Standing>,
    /// By port. What wants no answer is not kept.
    open: BTreeMap<u64, Open>,
}

/// How a mesh is reached now.
struct Standing {
    hosts: u32,
    per_host: u32,
    epoch: u32,
    lost: Vec<u32>,
}

/// A call that is not answered by all.
struct Open {
    mesh: MeshId,
    cast: Cast,
    /// Answers that have not come.
    left: u64,
    answers: Answers,
}

enum Answers {
    /// Whether each place has answered.
    Each(Vec<bool>),
    Combined {
        reducer: u32,
        count: u64,
        /// By the first host of each part; none while its answer has not come.
        parts: BTreeMap<u32, Option<Bytes>>,
        awaited: usize,
    },
}

/// What to cast.
pub struct Order {
    /// To which mesh.
    pub mesh: MeshId,
    /// To which actor in each process.
    pub actor: ActorId,
    /// The members.
    pub region: Region,
    /// Who casts.
    pub sender: Sender,
    /// Where answers go, if any are wanted; never used twice.
    pub reply: Option<PortId>,
    /// Answers are combined on the way up, by this reducer.
    pub reducer: Option<u32>,
    /// The message.
    pub parts: Vec<Bytes>,
}

/// A cast that has begun.
#[derive(Default)]
pub struct Begun {
    /// What to send to the hosts next to this one, the first of each part.
    pub down: Vec<(Span, Frame)>,
    /// Which members are behind lost hosts already.
    pub news: Vec<News>,
}

/// What became of a cast.
pub enum News {
    /// A member has answered.
    Answer {
        /// The call.
        port: u64,
        /// The answer's header: its rank is the place of the member.
        header: MessageHeader,
        /// Its parts.
        parts: Vec<Bytes>,
    },
    /// All that will be combined is.
    Combined {
        /// The call.
        port: u64,
        /// The value, unless it is of nobody.
        value: Option<Bytes>,
        /// Of how many members.
        count: u64,
        /// How many members have no part in it: they are lost, or have answered otherwise.
        missing: u64,
    },
    /// A member is behind a lost gateway.
    Lost {
        /// The call.
        port: u64,
        /// The member's place.
        place: u32,
    },
}

impl Root {
    /// On this host, with as many children as `fan_out` at most.
    pub fn new(host: MeshId, fan_out: u32, reduce: Arc<dyn Reduce>) -> Self {
        Self { host, fan_out, reduce, meshes: HashMap::new(), open: BTreeMap::new() }
    }

    /// A mesh lies on so many hosts, with so many processes on each.
    pub fn chart(&mut self, mesh: MeshId, hosts: u32, per_host: u32) {
        self.meshes.insert(mesh, Standing { hosts, per_host, epoch: 0, lost: Vec::new() });
    }

    /// Cast a message.
    pub fn cast(&mut self, order: Order) -> Result<Begun, FrameError> {
        let Some(standing) = self.meshes.get(&order.mesh) else { return Ok(Begun::default()) };
        let all = Span { first: 0, count: standing.hosts };
        let route = Route {
            root: self.host,
            hosts: all,
            per_host: standing.per_host,
            fan_out: self.fan_out,
            skipped: standing.lost.clone(),
        };
        let cast = Cast {
            region: order.region,
            except: Vec::new(),
            generations: Vec::new(),
            route: Some(route),
            reducer: order.reducer,
        };
        let first = ProcId::first(order.mesh, 0);
        let header =
            MessageHeader { epoch: standing.epoch, ..request(first, order.actor, order.sender, 0, order.reply) };
        let down = cast.spread(&header, &order.parts, all)?;
        let mut news = Vec::new();
        if let Some(port) = order.reply {
            let mut open = Open::new(order.mesh, cast, &down);
            for host in standing.lost.clone() {
                open.lose(port.index, Span { first: host, count: 1 }, &mut news);
            }
            self.keep(port.index, open, &mut news);
        }
        Ok(Begun { down, news })
    }

    /// Something comes up from one of the hosts next to this one.
    pub fn heard(&mut self, header: MessageHeader, frame: Frame) -> Result<Vec<News>, FrameError> {
        let mut news = Vec::new();
        if matches!(header.kind, Kind::Batch) {
            unbatch(frame.parts, |header, frame| self.answered(header, frame.parts, &mut news))?;
        } else {
            self.answered(header, frame.parts, &mut news);
        }
        Ok(news)
    }

    /// A host is lost, next to this one or farther away: ways change, and who was behind it is answered for.
    pub fn lose(&mut self, mesh: MeshId, host: u32) -> Vec<News> {
        let mut news = Vec::new();
        let Some(standing) = self.meshes.get_mut(&mesh) else { return news };
        let Err(at) = standing.lost.binary_search(&host) else { return news };
        standing.lost.insert(at, host);
        standing.epoch += 1;
        for (port, mut open) in std::mem::take(&mut self.open) {
            let behind = open.cast.route.as_ref().and_then(|route| route.behind(host));
            if let Some(behind) = behind.filter(|_| open.mesh == mesh) {
                open.lose(port, behind, &mut news);
            }
            self.keep(port, open, &mut news);
        }
        news
    }

    /// How many calls are not answered by all.
    pub fn unanswered(&self) -> usize {
        self.open.len()
    }

    fn answered(&mut self, header: MessageHeader, parts: Vec<Bytes>, news: &mut Vec<News>) {
        let Destination::Port(PortId { index: port, .. }) = header.destination else { return };
        // An answer that is late: its place was answered for when its gateway was lost.
        let Some(open) = self.open.get_mut(&port) else { return };
        if !open.answer(port, header, parts, news) {
            return;
        }
        if let Some(open) = self.open.remove(&port) {
            self.keep(port, open, news);
        }
    }

    /// Keep a call as long as answers are to come.
    fn keep(&mut self, port: u64, open: Open, news: &mut Vec<News>) {
        if !open.is_complete() {
            self.open.insert(port, open);
            return;
        }
        let total = open.cast.region.len();
        if let Answers::Combined { reducer, count, parts, .. } = open.answers {
            let value = combine(parts.into_values().flatten(), reducer, &*self.reduce);
            news.push(News::Combined { port, value, count, missing: total - count });
        }
    }
}

impl Open {
    fn new(mesh: MeshId, cast: Cast, down: &[(Span, Frame)]) -> Self {
        let left = cast.region.len();
        let answers = match cast.reducer {
            None => Answers::Each(vec![false; left as usize]),
            Some(reducer) => {
                let parts = down.iter().map(|(part, _)| (part.first, None)).collect();
                Answers::Combined { reducer, count: 0, parts, awaited: down.len() }
            }
        };
        Self { mesh, cast, left, answers }
    }

    fn is_complete(&self) -> bool {
        match &self.answers {
            Answers::Each(_) => self.left == 0,
            Answers::Combined { awaited, .. } => *awaited == 0,
        }
    }

    /// Take an answer; true when it may have been the last.
    fn answer(&mut self, port: u64, header: MessageHeader, parts: Vec<Bytes>, news: &mut Vec<News>) -> bool {
        let per_host = self.cast.route.as_ref().map_or(1, |route| route.per_host);
        match (&mut self.answers, &header.kind) {
            (Answers::Each(answered), _) => {
                let Some(place @ false) = answered.get_mut(header.rank as usize) else { return false };
                *place = true;
                self.left -= 1;
                news.push(News::Answer { port, header, parts });
                self.left == 0
            }
            (Answers::Combined { count, parts: values, awaited, .. }, Kind::Combined(of)) => {
                let host = header.sender.proc.rank / per_host;
                let Some(slot @ None) = values.get_mut(&host) else { return false };
                let value = parts.into_iter().nth(1).unwrap_or_default();
                if *of > 0 {
                    *slot = Some(value)
                } else {
                    drop(values.remove(&host))
                }
                *count += of;
                *awaited -= 1;
                *awaited == 0
            }
            (Answers::Combined { .. }, _) => {
                news.push(News::Answer { port, header, parts });
                false
            }
        }
    }

    /// Who is behind a lost host is answered for.
    fn lose(&mut self, port: u64, behind: Span, news: &mut Vec<News>) {
        let per_host = self.cast.route.as_ref().map_or(1, |route| route.per_host);
        match &mut self.answers {
            Answers::Each(answered) => {
                for member in self.cast.members_in(behind.ranks(per_host)) {
                    if !std::mem::replace(&mut answered[member.place as usize], true) {
                        self.left -= 1;
                        news.push(News::Lost { port, place: member.place });
                    }
                }
            }
            // Of those farther away their gateway tells.
            Answers::Combined { parts, awaited, .. } => {
                if let Some(None) = parts.get(&behind.first) {
                    parts.remove(&behind.first);
                    *awaited -= 1;
                }
            }
        }
    }
}
