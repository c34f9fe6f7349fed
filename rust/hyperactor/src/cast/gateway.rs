//! A gateway: passes casts on to the processes of its host and to the hosts beyond it, and answers back.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;

use super::{Batcher, Cast, Loss, Member, Reduce, Span, target};
use crate::id::{MeshId, PROCESS_ACTOR, PortId, ProcId};
use crate::wire::header::{Destination, Kind, MessageHeader, Sender};
use crate::wire::{Frame, FrameError, Priority};

/// What one host knows of the trees that it is part of. `E` names the edges to hosts nearer to a root.
pub struct Gateway<E> {
    reduce: Arc<dyn Reduce>,
    trees: HashMap<(MeshId, MeshId), Tree<E>>,
    ways: HashMap<(ProcId, MeshId), E>,
    combining: HashMap<PortId, Combining<E>>,
    batcher: Batcher<E>,
}

/// As of the last cast that came down it.
struct Tree<E> {
    epoch: u32,
    parent: E,
}

/// The answers to one call that become one.
struct Combining<E> {
    parent: E,
    header: MessageHeader,
    mesh: MeshId,
    per_host: u32,
    reducer: u32,
    count: u64,
    open: usize,
    /// By rank, of the processes of this host.
    here: BTreeMap<u32, Slot>,
    /// By host, of all behind it.
    beyond: BTreeMap<u32, Slot>,
}

enum Slot {
    Awaited,
    /// None comes any more.
    Gone,
    Value(Bytes),
}

/// Where a cast goes on.
pub struct Passed {
    /// To the processes of this host: header and parts.
    pub here: Vec<(MessageHeader, Vec<Bytes>)>,
    /// To the gateways of the hosts beyond.
    pub down: Vec<(Span, Frame)>,
}

/// Why a cast does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It is late: whoever cast it has changed the ways since, and has counted it as lost.
    #[error("a cast of epoch {cast} came after one of epoch {seen}")]
    Stale {
        /// Its epoch.
        cast: u32,
        /// The latest that was seen.
        seen: u32,
    },
    /// It cannot be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl<E: Copy + Eq + Hash> Gateway<E> {
    /// A gateway that combines answers by `reduce`.
    pub fn new(reduce: Arc<dyn Reduce>) -> Self {
        Self {
            reduce,
            trees: HashMap::new(),
            ways: HashMap::new(),
            combining: HashMap::new(),
            batcher: Batcher::default(),
        }
    }

    /// A cast arrives by an edge, for this host and those behind it.
    pub fn cast(&mut self, parent: E, header: &MessageHeader, parts: &[Bytes]) -> Result<Passed, Refused> {
        let (first, parts) = parts.split_first().ok_or(FrameError::Magic)?;
        let cast = Cast::from_bytes(first)?;
        let Some(route) = &cast.route else { return Ok(Passed { here: Vec::new(), down: Vec::new() }) };
        let (mesh, _) = target(header);
        let tree = self.trees.entry((route.root, mesh)).or_insert(Tree { epoch: header.epoch, parent });
        if header.epoch < tree.epoch {
            return Err(Refused::Stale { cast: header.epoch, seen: tree.epoch });
        }
        *tree = Tree { epoch: header.epoch, parent };
        let here = cast.members_in(Span { first: route.hosts.first, count: 1 }.ranks(route.per_host));
        let down = cast.spread(header, parts, route.hosts.beyond())?;
        if let Some(port) = header.reply {
            self.ways.insert((port.proc, mesh), parent);
            if let Some(reducer) = cast.reducer {
                let combining = Combining::new(parent, header, &cast, reducer, &here, &down);
                self.combining.insert(port, combining);
            }
        }
        let here = here.into_iter().map(|member| (cast.header_for(header, member), parts.to_vec())).collect();
        Ok(Passed { here, down })
    }

    /// Whether answers of a mesh to this process go up by here: it has cast to the mesh and wanted some.
    pub fn knows(&self, caller: ProcId, mesh: MeshId) -> bool {
        self.ways.contains_key(&(caller, mesh))
    }

    /// An answer of a process of this host, or what comes up from a host beyond; gives back what goes on now. The rest
    /// waits for [`Gateway::flush`].
    pub fn answer(&mut self, header: &MessageHeader, frame: Frame) -> Result<Vec<(E, Frame)>, FrameError> {
        let Destination::Port(port) = header.destination else { return Ok(Vec::new()) };
        let mesh = header.sender.proc.mesh;
        let Some(&parent) = self.ways.get(&(port.proc, mesh)) else { return Ok(Vec::new()) };
        let mut ready = Vec::new();
        let passes = match self.combining.get_mut(&port) {
            Some(combining) => !combining.take(header, &frame),
            // What is combined here is late where nothing is.
            None => !matches!(header.kind, Kind::Combined(_)),
        };
        if passes {
            let frames = self.batcher.add(parent, port.proc, header, frame)?;
            ready.extend(frames.into_iter().map(|frame| (parent, frame)));
        }
        ready.extend(self.combined(port)?);
        Ok(ready)
    }

    /// What waits for company goes on.
    pub fn flush(&mut self) -> Result<Vec<(E, Frame)>, FrameError> {
        self.batcher.flush()
    }

    /// A host beyond is lost, and with it the way to all behind it; what is to be said about that.
    pub fn lose(&mut self, mesh: MeshId, host: u32) -> Result<Vec<(E, Frame)>, FrameError> {
        let mut ready = Vec::new();
        for ((root, _), tree) in self.trees.iter().filter(|((_, of), _)| *of == mesh) {
            ready.push((tree.parent, loss_frame(&Loss { root: *root, mesh, host })?));
        }
        let mut touched = Vec::new();
        for (port, combining) in self.combining.iter_mut().filter(|(_, combining)| combining.mesh == mesh) {
            combining.fill_beyond(host, Slot::Gone);
            touched.push(*port);
        }
        for port in touched {
            ready.extend(self.combined(port)?);
        }
        Ok(ready)
    }

    /// News of a lost gateway, on its way to the root.
    pub fn pass_loss(&self, loss: &Loss) -> Result<Option<(E, Frame)>, FrameError> {
        let Some(tree) = self.trees.get(&(loss.root, loss.mesh)) else { return Ok(None) };
        Ok(Some((tree.parent, loss_frame(loss)?)))
    }

    /// A process that called is gone: nothing is kept for it.
    pub fn forget(&mut self, caller: ProcId) {
        self.ways.retain(|(proc, _), _| *proc != caller);
        self.combining.retain(|port, _| port.proc != caller);
    }

    /// A mesh ends: nothing is kept of the casts to it.
    pub fn forget_mesh(&mut self, mesh: MeshId) {
        self.trees.retain(|(_, of), _| *of != mesh);
        self.ways.retain(|(_, of), _| *of != mesh);
        self.combining.retain(|_, combining| combining.mesh != mesh);
    }

    /// The combined answer to a call, once all that it is made of is there.
    fn combined(&mut self, port: PortId) -> Result<Vec<(E, Frame)>, FrameError> {
        if self.combining.get(&port).is_none_or(|combining| combining.open > 0) {
            return Ok(Vec::new());
        }
        let Some(combining) = self.combining.remove(&port) else { return Ok(Vec::new()) };
        let parent = combining.parent;
        // What came one by one is before it.
        let mut ready: Vec<(E, Frame)> =
            self.batcher.take(parent, port.proc)?.into_iter().map(|frame| (parent, frame)).collect();
        ready.push((parent, combining.into_frame(&*self.reduce)?));
        Ok(ready)
    }
}

impl<E> Combining<E> {
    fn new(
        parent: E,
        header: &MessageHeader,
        cast: &Cast,
        reducer: u32,
        here: &[Member],
        down: &[(Span, Frame)],
    ) -> Self {
        let (mesh, _) = target(header);
        let route = cast.route.as_ref();
        let (first, per_host) = route.map_or((0, 1), |route| (route.hosts.first, route.per_host));
        let sender = Sender { proc: ProcId::first(mesh, first * per_host), actor: PROCESS_ACTOR };
        let destination = header.reply.map_or(header.destination, Destination::Port);
        let header = MessageHeader { destination, sender, reply: None, rank: 0, ..header.clone() };
        let here: BTreeMap<u32, Slot> = here.iter().map(|member| (member.rank, Slot::Awaited)).collect();
        let beyond: BTreeMap<u32, Slot> = down.iter().map(|(part, _)| (part.first, Slot::Awaited)).collect();
        let open = here.len() + beyond.len();
        Self { parent, header, mesh, per_host, reducer, count: 0, open, here, beyond }
    }

    /// Whether it is one of those that are combined; then it is kept.
    fn take(&mut self, header: &MessageHeader, frame: &Frame) -> bool {
        let value = frame.parts.get(1).cloned().unwrap_or_default();
        let rank = header.sender.proc.rank;
        match header.kind {
            Kind::Combined(count) => {
                let value = if count > 0 { Slot::Value(value) } else { Slot::Gone };
                if self.fill_beyond(rank / self.per_host, value) {
                    self.count += count;
                }
                true
            }
            Kind::Value => {
                let is_new = fill(&mut self.here, rank, Slot::Value(value), &mut self.open);
                self.count += u64::from(is_new);
                is_new
            }
            // What went wrong is told for each member.
            Kind::Error | Kind::Dead(_) => {
                fill(&mut self.here, rank, Slot::Gone, &mut self.open);
                false
            }
            _ => false,
        }
    }

    fn fill_beyond(&mut self, host: u32, slot: Slot) -> bool {
        fill(&mut self.beyond, host, slot, &mut self.open)
    }

    fn into_frame(self, reduce: &dyn Reduce) -> Result<Frame, FrameError> {
        let value = fold(self.here.into_values().chain(self.beyond.into_values()), self.reducer, reduce);
        let header = MessageHeader { kind: Kind::Combined(self.count), ..self.header };
        Frame::new(Priority::User, &header, vec![Bytes::new(), value.unwrap_or_default()])
    }
}

fn fill(slots: &mut BTreeMap<u32, Slot>, at: u32, value: Slot, open: &mut usize) -> bool {
    let Some(slot @ Slot::Awaited) = slots.get_mut(&at) else { return false };
    *slot = value;
    *open -= 1;
    true
}

fn fold(slots: impl Iterator<Item = Slot>, reducer: u32, reduce: &dyn Reduce) -> Option<Bytes> {
    let values = slots.filter_map(|slot| if let Slot::Value(value) = slot { Some(value) } else { None });
    combine(values, reducer, reduce)
}

/// What neighbours combine to, lower ranks first.
pub(super) fn combine(values: impl Iterator<Item = Bytes>, reducer: u32, reduce: &dyn Reduce) -> Option<Bytes> {
    if reducer == super::RECEIPT {
        return values.last().map(|_| Bytes::new());
    }
    values.reduce(|lower, higher| reduce.combine(reducer, &lower, &higher).into())
}

fn loss_frame(loss: &Loss) -> Result<Frame, FrameError> {
    Frame::new(Priority::Control, loss, Vec::new())
}
