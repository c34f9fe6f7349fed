//! Memory lent between two processes' ends of a real link: order, contents, and the return of every lease.
#![allow(clippy::unwrap_used)] // In a test a panic is the way to fail.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyperactor::id::{ActorId, MeshId, ProcId};
use hyperactor::link::{Link, Reader, Sink};
use hyperactor::memory::exchange::Exchange;
use hyperactor::memory::pool::Receivers;
use hyperactor::memory::{Part, Pool};
use hyperactor::message::request;
use hyperactor::reactor::Reactor;
use hyperactor::sys::socket;
use hyperactor::wire::header::{Control, MessageHeader, Sender};
use hyperactor::wire::{Frame, Priority};
use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;

/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// One process: its end of the link, and what arrived there.
struct End {
    memory: Arc<Exchange>,
    arrived: Mutex<Vec<(u32, Vec<Part>)>>,
    changed: Condvar,
    /// Descriptors of every so manieth notice are lost, as at the limit of a process.
    loses_each: u32,
    notices: Mutex<u32>,
}

impl End {
    fn new(reactor: &Arc<Reactor>, loses_each: u32) -> Arc<Self> {
        Arc::new(Self {
            memory: Exchange::new(reactor),
            arrived: Mutex::default(),
            changed: Condvar::new(),
            loses_each,
            notices: Mutex::new(0),
        })
    }

    fn wait_for(&self, count: usize) {
        let mut arrived = self.arrived.lock();
        let deadline = Instant::now() + PATIENCE;
        while arrived.len() < count {
            assert!(!self.changed.wait_until(&mut arrived, deadline).timed_out(), "{} of {count}", arrived.len());
        }
    }

    fn loses(&self) -> bool {
        let mut notices = self.notices.lock();
        *notices += 1;
        self.loses_each > 0 && (*notices).is_multiple_of(self.loses_each)
    }
}

impl Sink for End {
    fn frame(&self, link: &Arc<Link>, frame: Frame, descriptors: Vec<OwnedFd>) {
        let deliver = |header: MessageHeader, parts| {
            self.arrived.lock().push((header.rank, parts));
            self.changed.notify_all();
        };
        if frame.priority == Priority::User {
            self.memory.accept(link, frame.decode_header().unwrap(), frame.parts, deliver);
            return;
        }
        let is_lost = !descriptors.is_empty() && self.loses();
        let descriptors = if is_lost { Vec::new() } else { descriptors };
        let Ok(Control::Memory(notice)) = frame.decode_header() else { panic!("word of something else than memory") };
        self.memory.heed(link, *notice, frame.parts, descriptors, deliver);
    }

    fn ended(&self, _: &Arc<Link>, _: Option<String>) {
        self.memory.end();
    }
}

struct Pair {
    pool: Arc<Pool>,
    sender: Arc<End>,
    link: Arc<Link>,
    receiver: Arc<End>,
    other_link: Arc<Link>,
    reactor: Arc<Reactor>,
}

fn pair(loses_each: u32) -> Pair {
    let (a, b) = socket::pair().unwrap();
    let reactor = Reactor::start().unwrap();
    let (sender, receiver) = (End::new(&reactor, 0), End::new(&reactor, loses_each));
    let link = Link::open(a, Reader::default(), sender.clone(), &reactor).unwrap();
    let other_link = Link::open(b, Reader::default(), receiver.clone(), &reactor).unwrap();
    sender.memory.set_link(&link);
    receiver.memory.set_link(&other_link);
    Pair { pool: Pool::new(&reactor), sender, link, receiver, other_link, reactor }
}

impl Pair {
    fn send(&self, number: u32, parts: Vec<Part>) {
        let (proc, actor) = (ProcId::first(MeshId([1; 16]), 0), ActorId([2; 16]));
        let header = request(proc, actor, Sender { proc, actor }, number, None);
        self.sender.memory.send(&self.link, header, parts).unwrap();
    }

    fn part(&self, number: u32, bytes: usize, receivers: Receivers) -> Part {
        let bytes = content(number, bytes);
        self.pool.fill(&bytes, receivers).map_or(Part::Inline(Bytes::from(bytes)), Part::Slot)
    }

    fn wait_for_leases(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.pool.usage().1 > 0 {
            assert!(Instant::now() < deadline, "{} slots are lent", self.pool.usage().1);
            std::thread::yield_now();
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.link.close();
        self.other_link.close();
        self.reactor.stop();
    }
}

fn content(number: u32, bytes: usize) -> Vec<u8> {
    vec![number as u8 + 1; bytes]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn messages_arrive_whole_and_in_order_and_every_lease_ends_whatever_descriptors_are_lost(
        messages in prop::collection::vec(prop::collection::vec((1usize..400_000, any::<bool>()), 0..4), 1..20),
        loses_each in 0u32..4,
        drops in prop::collection::vec(any::<bool>(), 20),
    ) {
        let pair = pair(loses_each);
        let count = messages.len();
        for (number, buffers) in messages.iter().enumerate() {
            let part = |(bytes, is_for_one): &(usize, bool)| {
                pair.part(number as u32, *bytes, if *is_for_one { Receivers::One } else { Receivers::Many })
            };
            pair.send(number as u32, buffers.iter().map(part).collect());
            if drops[number] {
                // What is dropped on the way makes room for what comes.
                pair.receiver.wait_for(number + 1);
                pair.receiver.arrived.lock()[number].1.iter_mut().for_each(|part| *part = part.to_bytes().into());
            }
        }
        pair.receiver.wait_for(count);
        let arrived = std::mem::take(&mut *pair.receiver.arrived.lock());
        for (number, ((rank, parts), sent)) in arrived.iter().zip(&messages).enumerate() {
            prop_assert_eq!(*rank as usize, number);
            prop_assert_eq!(parts.len(), sent.len());
            for (part, (bytes, _)) in parts.iter().zip(sent) {
                prop_assert!(part.to_bytes() == content(*rank, *bytes));
            }
        }
        drop(arrived);
        pair.wait_for_leases();
    }
}

#[test]
fn what_is_handed_over_arrives_in_the_memory_of_the_sender() {
    let pair = pair(0);
    let part = pair.part(7, 100_000, Receivers::One);
    pair.send(0, vec![part.clone()]);
    pair.receiver.wait_for(1);
    let arrived = pair.receiver.arrived.lock().pop().unwrap();
    let (Part::Slot(slot), [Part::View(view)]) = (&part, &arrived.1[..]) else { panic!("it was sent inline") };
    assert_eq!((slot.len(), view.len()), (100_000, 100_000));
    assert_eq!(view.to_vec(), content(7, 100_000));
}

#[test]
fn slab_2_the_end_of_the_link_ends_all_leases_and_the_memory_lives_with_its_views() {
    let pair = pair(0);
    pair.send(0, vec![pair.part(3, 3 << 20, Receivers::One), pair.part(4, 3 << 20, Receivers::Many)]);
    pair.receiver.wait_for(1);
    assert_eq!(pair.pool.usage().1, 2);
    pair.other_link.close();
    pair.receiver.memory.end();
    pair.wait_for_leases();
    let (_, parts) = pair.receiver.arrived.lock().pop().unwrap();
    assert_eq!(parts[0].to_bytes(), content(3, 3 << 20));
    assert_eq!(parts[1].to_bytes(), content(4, 3 << 20));
    let next = pair.part(9, 3 << 20, Receivers::One);
    assert_eq!(next.len(), 3 << 20);
    assert_eq!(parts[0].to_bytes(), content(3, 3 << 20), "a slot whose receiver vanished is not used again");
}
