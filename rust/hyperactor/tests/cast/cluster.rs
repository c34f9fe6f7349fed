//! Hosts that exist in this process only: the gateways and the root are the real ones, the edges between them are queues
//! of bytes. Every frame is encoded when it is sent and decoded when it arrives, also those to and from processes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyperactor::cast::{Begun, Gateway, Loss, News, Order, RECEIPT, Reduce, Region, Root};
use hyperactor::id::{ActorId, MeshId, PROCESS_ACTOR, PortId, ProcId};
use hyperactor::wire::frame::{Decoded, decode};
use hyperactor::wire::header::{Destination, Kind, MessageHeader, Sender};
use hyperactor::wire::{Frame, Limits, Priority};

/// The sum of numbers.
pub const SUM: u32 = 1;

/// The values behind each other: whoever combines them in another order than that of ranks gives himself away.
pub const JOIN: u32 = 2;

const MESH: MeshId = MeshId([1; 16]);
const ACTOR: ActorId = ActorId([2; 16]);

/// A host by its index, or the root.
type Node = u32;
const ROOT: Node = u32::MAX;

fn caller() -> ProcId {
    ProcId::first(MeshId([9; 16]), 0)
}

struct Reducers;

impl Reduce for Reducers {
    fn combine(&self, reducer: u32, lower: &[u8], higher: &[u8]) -> Vec<u8> {
        match reducer {
            SUM => (number(lower) + number(higher)).to_le_bytes().to_vec(),
            _ => [lower, higher].concat(),
        }
    }
}

pub fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// What comes by an edge.
enum Event {
    Bytes(Bytes),
    /// Who sends by it is lost.
    End,
}

struct Host {
    gateway: Gateway<Node>,
    is_lost: bool,
    /// The casts that each of its actors got, by their number, in order.
    actors: Vec<Vec<u64>>,
}

/// What an edge has carried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub frames: u64,
    pub bytes: u64,
}

/// How a call went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The value by place; none where the member is lost.
    pub places: BTreeMap<u32, Option<u64>>,
    /// The combined value, of how many, and how many are missing.
    pub combined: Option<(Option<Bytes>, u64, u64)>,
}

pub struct Cluster {
    root: Root,
    hosts: Vec<Host>,
    per_host: u32,
    edges: HashMap<(Node, Node), VecDeque<Event>>,
    /// Who has something to read, and by which edges; both in the order in which it came.
    ready: VecDeque<Node>,
    inboxes: HashMap<Node, VecDeque<Node>>,
    casts: u64,
    pub outcomes: BTreeMap<u64, Outcome>,
    pub from_root: Traffic,
    pub to_root: Traffic,
}

impl Cluster {
    pub fn new(hosts: u32, per_host: u32, fan_out: u32) -> Self {
        let mut root = Root::new(MeshId([8; 16]), fan_out, Arc::new(Reducers));
        root.chart(MESH, hosts, per_host);
        let host = |_| Host {
            gateway: Gateway::new(Arc::new(Reducers)),
            is_lost: false,
            actors: vec![Vec::new(); per_host as usize],
        };
        Self {
            root,
            hosts: (0..hosts).map(host).collect(),
            per_host,
            edges: HashMap::new(),
            ready: VecDeque::new(),
            inboxes: HashMap::new(),
            casts: 0,
            outcomes: BTreeMap::new(),
            from_root: Traffic::default(),
            to_root: Traffic::default(),
        }
    }

    /// Tell these ranks the number of the cast, which it returns; with an answer from each, or one for all.
    pub fn cast(&mut self, region: Region, answers: bool, reducer: Option<u32>) -> u64 {
        self.casts += 1;
        let number = self.casts;
        let Begun { down, news } = self
            .root
            .cast(Order {
                mesh: MESH,
                actor: ACTOR,
                region,
                sender: Sender { proc: caller(), actor: PROCESS_ACTOR },
                reply: answers.then(|| PortId { proc: caller(), index: number }),
                reducer,
                parts: vec![Bytes::new(), Bytes::copy_from_slice(&number.to_le_bytes())],
            })
            .expect("a cast encodes");
        if answers {
            self.outcomes.insert(number, Outcome::default());
        }
        self.note(news);
        for (part, frame) in down {
            self.send(ROOT, part.first, &frame);
        }
        number
    }

    /// End a host: what it has sent still arrives, and those who have sent to it hear of its end.
    pub fn lose(&mut self, host: u32) {
        if std::mem::replace(&mut self.hosts[host as usize].is_lost, true) {
            return;
        }
        let sent: BTreeSet<Node> = self.edges.keys().filter(|(_, to)| *to == host).map(|(from, _)| *from).collect();
        sent.into_iter().for_each(|other| self.push(host, other, Event::End));
    }

    /// Let everything that is on its way arrive.
    pub fn run(&mut self) {
        while let Some(node) = self.ready.pop_front() {
            while self.deliver(node, 0) {}
            self.flush(node);
        }
    }

    /// Let one thing arrive that `choose` takes, given how many there are to choose from; gateways hold answers for a
    /// while. False when there is nothing on its way.
    pub fn step(&mut self, mut choose: impl FnMut(usize) -> usize) -> bool {
        if self.ready.is_empty() {
            (0..self.hosts.len() as u32).for_each(|host| self.flush(host));
        }
        if self.ready.is_empty() {
            return false;
        }
        let at = choose(self.ready.len());
        let node = self.ready[at];
        let edges = self.inboxes.get(&node).map_or(0, VecDeque::len);
        if edges > 0 {
            self.deliver(node, choose(edges));
        }
        if self.inboxes.get(&node).is_none_or(VecDeque::is_empty) {
            self.ready.remove(at);
        }
        if choose(3) == 0 {
            self.flush(node);
        }
        true
    }

    /// How many calls have no outcome yet.
    pub fn unanswered(&self) -> usize {
        self.root.unanswered()
    }

    /// The casts that a rank got, in order.
    pub fn received(&self, rank: u32) -> &[u64] {
        &self.hosts[(rank / self.per_host) as usize].actors[(rank % self.per_host) as usize]
    }

    pub fn is_lost(&self, host: u32) -> bool {
        self.hosts[host as usize].is_lost
    }

    fn push(&mut self, from: Node, to: Node, event: Event) {
        let queue = self.edges.entry((from, to)).or_default();
        queue.push_back(event);
        if queue.len() > 1 {
            return;
        }
        let inbox = self.inboxes.entry(to).or_default();
        inbox.push_back(from);
        if inbox.len() == 1 {
            self.ready.push_back(to);
        }
    }

    fn send(&mut self, from: Node, to: Node, frame: &Frame) {
        let is_lost = |node: Node| node != ROOT && self.hosts[node as usize].is_lost;
        if is_lost(from) {
            return;
        }
        if is_lost(to) {
            return self.push(to, from, Event::End);
        }
        let bytes = encode(frame);
        let traffic = if from == ROOT { Some(&mut self.from_root) } else { None };
        let traffic = if to == ROOT { Some(&mut self.to_root) } else { traffic };
        if let Some(traffic) = traffic {
            traffic.frames += 1;
            traffic.bytes += bytes.len() as u64;
        }
        self.push(from, to, Event::Bytes(bytes));
    }

    /// Let the next thing arrive at a node, by one of the edges that have something for it.
    fn deliver(&mut self, node: Node, edge: usize) -> bool {
        let Some(inbox) = self.inboxes.get_mut(&node) else { return false };
        let Some(&from) = inbox.get(edge) else { return false };
        let queue = self.edges.entry((from, node)).or_default();
        let event = queue.pop_front();
        if queue.is_empty() {
            inbox.remove(edge);
        }
        match event {
            Some(Event::Bytes(bytes)) => self.arrived(from, node, decoded(bytes)),
            Some(Event::End) => self.ended(node, from),
            None => {}
        }
        true
    }

    fn arrived(&mut self, from: Node, node: Node, frame: Frame) {
        if frame.priority == Priority::Control {
            let loss: Loss = frame.decode_header().expect("a loss");
            return self.lost(node, &loss);
        }
        let header: MessageHeader = frame.decode_header().expect("a header");
        if node == ROOT {
            let news = self.root.heard(header, frame).expect("answers decode");
            return self.note(news);
        }
        if self.hosts[node as usize].is_lost {
            return;
        }
        if matches!(header.kind, Kind::Cast) {
            self.pass_down(from, node, &header, &frame.parts);
        } else {
            let ready = self.hosts[node as usize].gateway.answer(&header, frame).expect("answers encode");
            self.send_up(node, ready);
        }
    }

    fn pass_down(&mut self, from: Node, node: Node, header: &MessageHeader, parts: &[Bytes]) {
        // Refused where it is late: its members are counted as lost.
        let Ok(passed) = self.hosts[node as usize].gateway.cast(from, header, parts) else { return };
        for (part, frame) in passed.down {
            self.send(node, part.first, &frame);
        }
        for (header, parts) in passed.here {
            let request = decoded(encode(&Frame::new(Priority::User, &header, parts).expect("a request encodes")));
            if let Some(answer) = self.run_actor(node, &request) {
                let answer = decoded(encode(&answer));
                let header = answer.decode_header().expect("a header");
                let ready = self.hosts[node as usize].gateway.answer(&header, answer).expect("answers encode");
                self.send_up(node, ready);
            }
        }
    }

    /// An actor notes what it got, and answers with its rank.
    fn run_actor(&mut self, node: Node, request: &Frame) -> Option<Frame> {
        let header: MessageHeader = request.decode_header().expect("a header");
        let proc = header.destination.proc();
        assert_eq!(proc.rank / self.per_host, node, "a cast reaches the host of its member");
        let actor = &mut self.hosts[node as usize].actors[(proc.rank % self.per_host) as usize];
        actor.push(number(&request.parts[1]));
        let answer = MessageHeader {
            destination: Destination::Port(header.reply?),
            sender: Sender { proc, actor: ACTOR },
            kind: Kind::Value,
            reply: None,
            ..header
        };
        let value = Bytes::copy_from_slice(&u64::from(proc.rank).to_le_bytes());
        Some(Frame::new(Priority::User, &answer, vec![Bytes::new(), value]).expect("an answer encodes"))
    }

    fn send_up(&mut self, node: Node, frames: Vec<(Node, Frame)>) {
        for (to, frame) in frames {
            // Nobody waits for what a lost gateway would have passed on.
            if to == ROOT || !self.is_lost(to) {
                self.send(node, to, &frame);
            }
        }
    }

    fn flush(&mut self, node: Node) {
        if node == ROOT || self.hosts[node as usize].is_lost {
            return;
        }
        let ready = self.hosts[node as usize].gateway.flush().expect("answers encode");
        self.send_up(node, ready);
    }

    fn ended(&mut self, node: Node, lost: Node) {
        if node == ROOT {
            let news = self.root.lose(MESH, lost);
            return self.note(news);
        }
        let ready = self.hosts[node as usize].gateway.lose(MESH, lost).expect("a loss encodes");
        self.send_up(node, ready);
    }

    fn lost(&mut self, node: Node, loss: &Loss) {
        if node == ROOT {
            let news = self.root.lose(loss.mesh, loss.host);
            return self.note(news);
        }
        let up = self.hosts[node as usize].gateway.pass_loss(loss).expect("a loss encodes");
        self.send_up(node, up.into_iter().collect());
    }

    fn note(&mut self, news: Vec<News>) {
        for news in news {
            let (port, place, value) = match news {
                News::Answer { port, header, parts } => (port, header.rank, Some(number(&parts[1]))),
                News::Lost { port, place } => (port, place, None),
                News::Combined { port, value, count, missing } => {
                    let outcome = self.outcomes.get_mut(&port).expect("a call");
                    let before = outcome.combined.replace((value, count, missing));
                    assert!(before.is_none(), "a combined answer comes once");
                    continue;
                }
            };
            let outcome = self.outcomes.get_mut(&port).expect("a call");
            let before = outcome.places.insert(place, value);
            assert!(before.is_none(), "place {place} of call {port} is answered for once");
        }
    }
}

fn encode(frame: &Frame) -> Bytes {
    let mut bytes = BytesMut::from(&frame.encode_head()[..]);
    frame.parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes.freeze()
}

fn decoded(bytes: Bytes) -> Frame {
    let mut buffer = BytesMut::from(bytes);
    match decode(&mut buffer, &Limits::default()) {
        Ok(Decoded::Frame(frame)) if buffer.is_empty() => frame,
        other => panic!("an edge carries whole frames, not {other:?}"),
    }
}

/// Whether every member of a cast to these ranks got it exactly once, or its receipt says that some are missing.
pub fn arrived_or_missing(cluster: &Cluster, cast: u64, ranks: &[u32]) -> bool {
    let got = |rank: &&u32| cluster.received(**rank).contains(&cast);
    let arrived = ranks.iter().filter(got).count() as u64;
    let Some(Outcome { combined: Some((_, count, missing)), .. }) = cluster.outcomes.get(&cast) else { return false };
    count + missing == ranks.len() as u64 && *count <= arrived
}

/// The reducer of receipts, as an order takes it.
pub const RECEIPTS: Option<u32> = Some(RECEIPT);
