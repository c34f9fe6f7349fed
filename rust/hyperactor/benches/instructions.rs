//! The inner parts of a message's way, each on its own in one thread, to be counted in instructions.
//!
//! `instructions WORKLOAD TIMES` does one of them so many times; without arguments it lists them. Instructions hardly vary
//! from run to run, as times do, so `benches/instructions/count.py` notices when a change makes one of them dearer.
#![allow(clippy::unwrap_used)] // Here a panic is the way to fail.

#[path = "../tests/cast/cluster.rs"]
#[allow(dead_code, missing_docs)]
mod cluster;

use std::convert::Infallible;
use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use cluster::Cluster;
use hyperactor::cast::{FAN_OUT, Region};
use hyperactor::id::{ActorId, MeshId, PROCESS_ACTOR, PortId, ProcId};
use hyperactor::link::{Link, Reader, Sink};
use hyperactor::memory::Part;
use hyperactor::memory::pool::Receivers;
use hyperactor::message::{self, Message, request};
use hyperactor::ownership::{End, Mesh, Owner, Tree};
use hyperactor::reactor::Reactor;
use hyperactor::runtime::Runtime;
use hyperactor::sys::socket;
use hyperactor::targets::Targets;
use hyperactor::wire::frame::{Decoded, decode};
use hyperactor::wire::header::{Control, Kind, MessageHeader, Sender};
use hyperactor::wire::{Frame, Limits, Priority};

/// What is done how many times.
type Workload = fn(usize);

const WORKLOADS: &[(&str, Workload)] = &[
    ("frame_encoded_and_decoded", frame_encoded_and_decoded),
    ("frame_sent_by_a_link", frame_sent_by_a_link),
    ("message_through_a_mailbox", message_through_a_mailbox),
    ("call_routed_and_answered", call_routed_and_answered),
    ("cast_routed_to_one_of_64", cast_routed_to_one_of_64),
    ("cast_over_16_hosts_and_its_256_answers", cast_over_16_hosts_and_its_256_answers),
    ("slice_of_4096_members_as_a_region", slice_of_4096_members_as_a_region),
    ("region_of_4096_cut_by_hosts", region_of_4096_cut_by_hosts),
    ("slot_taken_and_given_back", slot_taken_and_given_back),
    ("death_among_1024_owned_processes", death_among_1024_owned_processes),
];

const ACTOR: ActorId = ActorId([7; 16]);
const HERE: ProcId = ProcId { mesh: MeshId([1; 16]), rank: 0, generation: 0 };
const THERE: ProcId = ProcId { mesh: MeshId([2; 16]), rank: 0, generation: 0 };

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [name, times] = &arguments[..] else {
        WORKLOADS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, run) = WORKLOADS.iter().find(|(known, _)| known == name).expect("a workload of the list");
    run(times.parse().expect("how many times"));
    // What the system does at an end is no part of it.
    std::process::exit(0);
}

fn header(reply: bool) -> MessageHeader {
    let sender = Sender { proc: HERE, actor: PROCESS_ACTOR };
    let port = PortId { proc: HERE, index: 9 };
    request(THERE, ACTOR, sender, 3, reply.then_some(port))
}

/// As a call has them: which endpoint, and its arguments.
fn parts() -> Vec<Bytes> {
    vec![Bytes::from_static(b"endpoint"), Bytes::from_static(&[5; 200])]
}

fn frame_encoded_and_decoded(times: usize) {
    let limits = Limits::default();
    let mut buffer = BytesMut::new();
    for _ in 0..times {
        let frame = message::frame(&header(true), parts()).unwrap();
        buffer.extend_from_slice(&frame.encode_head());
        frame.parts.iter().for_each(|part| buffer.extend_from_slice(part));
        let Decoded::Frame(frame) = decode(&mut buffer, &limits).unwrap() else { panic!("a whole frame") };
        black_box(frame.decode_header::<MessageHeader>().unwrap());
    }
}

/// Counts what arrives.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Sink for Counted {
    fn frame(&self, _: &Arc<Link>, frame: Frame, _: Vec<OwnedFd>) {
        black_box(frame);
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self, _: &Arc<Link>, _: Option<String>) {}
}

fn frame_sent_by_a_link(times: usize) {
    let (a, b) = socket::pair().unwrap();
    let reactor = Reactor::start().unwrap();
    let counted = Arc::new(Counted::default());
    let left = Link::open_later(a, Reader::default(), counted.clone(), &reactor);
    let right = Link::open_later(b, Reader::default(), counted.clone(), &reactor);
    for time in 0..times {
        left.send(&message::frame(&header(true), parts()).unwrap(), Vec::new());
        let mut lease = right.try_lease().unwrap();
        while counted.0.load(Ordering::Relaxed) <= time {
            lease.read();
        }
    }
}

/// A process's runtime with nobody else: its agent says who it is, and nothing more.
fn runtime() -> Arc<Runtime> {
    let (agents, control) = socket::pair().unwrap();
    let welcome = Control::Welcome { proc: HERE, agent: THERE, host: "host".into(), log_level: None };
    let frame = Frame::new(Priority::Control, &welcome, vec![Bytes::new()]).unwrap();
    let mut bytes = frame.encode_head().to_vec();
    frame.parts.iter().for_each(|part| bytes.extend_from_slice(part));
    rustix::io::write(agents.as_fd(), &bytes).unwrap();
    // An agent that goes would end this process.
    std::mem::forget(agents);
    Runtime::start_worker(control).unwrap()
}

fn message_through_a_mailbox(times: usize) {
    let runtime = runtime();
    let mailbox = runtime.open_mailbox(ACTOR);
    for _ in 0..times {
        let parts = parts().into_iter().map(Part::from).collect();
        mailbox.push(Message::new(header(false), parts, &runtime), None);
        black_box(mailbox.try_recv().unwrap().take_buffers());
    }
}

fn call_routed_and_answered(times: usize) {
    let runtime = runtime();
    let mailbox = runtime.open_mailbox(ACTOR);
    let targets = Targets::new(runtime, HERE.mesh, vec![0], ACTOR);
    let parts: Vec<Part> = parts().into_iter().map(Part::from).collect();
    for _ in 0..times {
        let replies = targets.call_at(0, PROCESS_ACTOR, &parts).unwrap();
        let message = mailbox.try_recv().unwrap();
        black_box(message.take_buffers());
        message.answer(Kind::Value, parts.clone()).unwrap();
        replies.wait::<Infallible>(1, None, None).unwrap();
    }
}

/// To this process, of a mesh whose others are not asked.
fn cast_routed_to_one_of_64(times: usize) {
    let runtime = runtime();
    let mailbox = runtime.open_mailbox(ACTOR);
    let ranks: Vec<u32> = (0..64).collect();
    let targets = Targets::new(runtime, HERE.mesh, ranks, ACTOR);
    let parts: Vec<Part> = parts().into_iter().map(Part::from).collect();
    for _ in 0..times {
        black_box(targets.call_at(0, PROCESS_ACTOR, &parts).unwrap());
        black_box(mailbox.try_recv().unwrap());
    }
}

fn cast_over_16_hosts_and_its_256_answers(times: usize) {
    let mut cluster = Cluster::new(16, 16, FAN_OUT);
    let region = Region::of(&(0..256).collect::<Vec<_>>());
    for _ in 0..times {
        let call = cluster.cast(region.clone(), true, None);
        cluster.run();
        black_box(cluster.outcomes.remove(&call).unwrap());
    }
}

fn slice_of_4096_members_as_a_region(times: usize) {
    let ranks: Vec<u32> = (0..4096).filter(|rank| rank % 8 < 3).collect();
    for _ in 0..times {
        black_box(Region::of(black_box(&ranks)));
    }
}

fn region_of_4096_cut_by_hosts(times: usize) {
    let region = Region::of(&(0..4096).filter(|rank| rank % 8 < 3).collect::<Vec<_>>());
    for _ in 0..times {
        for host in 0..512 {
            black_box(region.count_in(host * 8..(host + 1) * 8));
        }
        black_box(region.members_in(2048..2056));
    }
}

fn slot_taken_and_given_back(times: usize) {
    let runtime = runtime();
    // Little is copied, since processors differ in how many instructions that takes.
    for _ in 0..times {
        black_box(runtime.pool().fill(&[3; 1 << 10], Receivers::One).unwrap());
    }
}

fn death_among_1024_owned_processes(times: usize) {
    let owner = Owner { proc: HERE, actor: PROCESS_ACTOR };
    let processes = || (0..1024).map(|rank| ProcId::first(THERE.mesh, rank));
    let mut tree: Tree<u32> = Tree::default();
    for _ in 0..times {
        tree.spawn_procs(owner, THERE.mesh, 0..1024);
        tree.spawn_actors(owner, ACTOR, THERE.mesh, processes());
        black_box(tree.process_ended(ProcId::first(THERE.mesh, 512), End::Failed(9)).unwrap());
        tree.forget(Mesh::Actors(ACTOR));
        tree.forget(Mesh::Procs(THERE.mesh));
    }
}
