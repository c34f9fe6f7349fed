//! Links over real sockets: order, completeness, the read lease, descriptors, and the end of a stream.
#![allow(clippy::unwrap_used)] // In a test a panic is the way to fail.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use hyperactor::link::{Link, Reader, Sink};
use hyperactor::park::{Parker, Waited, wait_until};
use hyperactor::reactor::Reactor;
use hyperactor::sys::socket;
use hyperactor::wire::{Frame, Priority};
use parking_lot::Mutex;

/// Keeps what arrives, and tells when the stream ends.
struct Collect {
    frames: Mutex<Vec<(Frame, Vec<OwnedFd>)>>,
    parker: Mutex<Option<Arc<Parker>>>,
    ended: Mutex<Sender<Option<String>>>,
}

impl Collect {
    fn new() -> (Arc<Self>, Receiver<Option<String>>) {
        let (ended, end) = channel();
        (Arc::new(Self { frames: Mutex::default(), parker: Mutex::default(), ended: Mutex::new(ended) }), end)
    }

    fn numbers(&self) -> Vec<u64> {
        self.frames.lock().iter().map(|(frame, _)| frame.decode_header().unwrap()).collect()
    }

    fn wait_for(&self, count: usize, link: Option<&Arc<Link>>) {
        let parker = Parker::current();
        *self.parker.lock() = Some(parker.clone());
        let ready = || self.frames.lock().len() >= count;
        assert_eq!(wait_until::<()>(&parker, ready, link, None, None).unwrap(), Waited::Ready);
    }
}

impl Sink for Collect {
    fn frame(&self, _: &Arc<Link>, frame: Frame, descriptors: Vec<OwnedFd>) {
        self.frames.lock().push((frame, descriptors));
        if let Some(parker) = &*self.parker.lock() {
            parker.unpark();
        }
    }

    fn ended(&self, _: &Arc<Link>, error: Option<String>) {
        let _ = self.ended.lock().send(error);
    }
}

struct Pair {
    left: Arc<Link>,
    right: Arc<Link>,
    arrived: Arc<Collect>,
    end: Receiver<Option<String>>,
}

fn pair() -> Pair {
    let (a, b) = socket::pair().unwrap();
    let reactor = Reactor::start().unwrap();
    let left = Link::open(a, Reader::default(), Collect::new().0, &reactor).unwrap();
    let (arrived, end) = Collect::new();
    // A reactor each, as in two processes.
    let right = Link::open(b, Reader::default(), arrived.clone(), &Reactor::start().unwrap()).unwrap();
    std::mem::forget(reactor);
    Pair { left, right, arrived, end }
}

fn frame(number: u64, bytes: usize) -> Frame {
    Frame::new(Priority::User, &number, vec![Bytes::from(vec![number as u8; bytes]), Bytes::new()]).unwrap()
}

#[test]
fn frames_larger_than_any_socket_buffer_arrive_whole_and_in_order() {
    let pair = pair();
    let sizes = [0, 1, 100_000, 8 << 20, 3, 2 << 20];
    for (number, size) in (0..).zip(sizes) {
        pair.left.send(&frame(number, size), Vec::new());
    }
    pair.arrived.wait_for(sizes.len(), None);
    assert_eq!(pair.arrived.numbers(), (0..sizes.len() as u64).collect::<Vec<_>>());
    for ((frame, _), size) in pair.arrived.frames.lock().iter().zip(sizes) {
        let number: u64 = frame.decode_header().unwrap();
        assert_eq!(frame.parts[0].len(), size);
        assert!(frame.parts[0].iter().all(|byte| *byte == number as u8));
    }
}

#[test]
fn link_1_order_holds_while_the_lease_changes_hands() {
    let pair = pair();
    let sender = pair.left.clone();
    let count = 20_000;
    let thread = std::thread::spawn(move || (0..count).for_each(|number| sender.send(&frame(number, 16), Vec::new())));
    for step in 1..=100 {
        // Every other wait takes the lease from the I/O thread and gives it back.
        let link = (step % 2 == 0).then_some(&pair.right);
        pair.arrived.wait_for((count * step / 100) as usize, link);
    }
    thread.join().unwrap();
    assert_eq!(pair.arrived.numbers(), (0..count).collect::<Vec<_>>());
}

#[test]
fn link_2_the_frames_of_each_of_several_threads_stay_in_order() {
    let pair = pair();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let sender = pair.left.clone();
            let numbers = (0..2000).map(move |number| thread * 10_000 + number);
            std::thread::spawn(move || numbers.for_each(|number| sender.send(&frame(number, 2000), Vec::new())))
        })
        .collect();
    pair.arrived.wait_for(8000, None);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let numbers = pair.arrived.numbers();
    for thread in 0..4 {
        let own: Vec<u64> = numbers.iter().copied().filter(|number| number / 10_000 == thread).collect();
        assert_eq!(own, (0..2000).map(|number| thread * 10_000 + number).collect::<Vec<_>>());
    }
}

#[test]
fn link_4_a_reply_that_was_sent_before_the_death_is_delivered_before_the_end() {
    let pair = pair();
    pair.left.send(&frame(7, 1 << 16), Vec::new());
    pair.left.close();
    assert_eq!(pair.end.recv().unwrap(), None);
    assert_eq!(pair.arrived.numbers(), [7]);
}

#[test]
fn draining_wakes_a_thread_that_waits_with_the_lease() {
    let pair = pair();
    let (right, arrived) = (pair.right.clone(), pair.arrived.clone());
    let waiting = std::thread::spawn(move || arrived.wait_for(1, Some(&right)));
    // Looking must not take the lease: the thread tries for it once, then waits without.
    while !pair.right.is_being_read() {
        std::thread::yield_now();
    }
    // The peer's end stays open, as it does when a child of the dead process has a copy.
    pair.right.drain();
    assert_eq!(pair.end.recv().unwrap(), None);
    pair.arrived.frames.lock().push((frame(0, 0), Vec::new()));
    if let Some(parker) = &*pair.arrived.parker.lock() {
        parker.unpark();
    }
    waiting.join().unwrap();
}

#[test]
fn descriptors_arrive_with_their_frame() {
    let pair = pair();
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    let mut with_descriptor = frame(1, 300_000);
    with_descriptor.descriptors = 1;
    pair.left.send(&frame(0, 300_000), Vec::new());
    pair.left.send(&with_descriptor, vec![writing]);
    pair.left.send(&frame(2, 10), Vec::new());
    pair.arrived.wait_for(3, None);
    let mut frames = std::mem::take(&mut *pair.arrived.frames.lock());
    let counts: Vec<usize> = frames.iter().map(|(_, descriptors)| descriptors.len()).collect();
    assert_eq!(counts, [0, 1, 0]);
    std::fs::File::from(frames[1].1.remove(0)).write_all(b"hello").unwrap();
    let mut text = String::new();
    std::fs::File::from(reading).read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn a_peer_that_sends_garbage_is_hung_up_on_and_named() {
    let (ours, theirs) = socket::pair().unwrap();
    let (arrived, end) = Collect::new();
    let _link = Link::open(ours, Reader::default(), arrived.clone(), &Reactor::start().unwrap()).unwrap();
    std::fs::File::from(theirs).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let error = end.recv().unwrap().unwrap();
    assert!(error.contains("does not hold a frame"), "{error}");
    assert!(arrived.frames.lock().is_empty());
}

#[test]
fn frames_survive_any_cutting_of_the_stream() {
    let (ours, theirs) = socket::pair().unwrap();
    let (arrived, _end) = Collect::new();
    let _link = Link::open(ours, Reader::default(), arrived.clone(), &Reactor::start().unwrap()).unwrap();
    let sizes = [0, 5, 65_400, 65_536, 3, 200_000, 1, 70_000, 16, 0, 131_072];
    let frames: Vec<Frame> = (0..).zip(sizes).map(|(number, size)| frame(number, size)).collect();
    let mut theirs = std::fs::File::from(theirs);
    let mut sent = 0;
    for cut in [1, 7, 977, 65_535, 65_536, 65_537, 1 << 20] {
        let wire: Vec<u8> =
            frames.iter().flat_map(|frame| [&frame.encode_head()[..], &frame.parts[0]].concat()).collect();
        wire.chunks(cut).for_each(|piece| theirs.write_all(piece).unwrap());
        sent += frames.len();
        arrived.wait_for(sent, None);
    }
    for (index, (arrived, _)) in arrived.frames.lock().iter().enumerate() {
        assert!(*arrived == frames[index % frames.len()], "frame {index}");
    }
}

#[test]
fn a_frame_that_is_kept_holds_its_own_memory_only() {
    let (ours, theirs) = socket::pair().unwrap();
    let (arrived, _end) = Collect::new();
    let wire: Vec<u8> =
        (0..300).flat_map(|n| [&frame(n, 100).encode_head()[..], &frame(n, 100).parts[0]].concat()).collect();
    std::fs::File::from(theirs.try_clone().unwrap()).write_all(&wire).unwrap();
    let _link = Link::open(ours, Reader::default(), arrived.clone(), &Reactor::start().unwrap()).unwrap();
    arrived.wait_for(300, None);
    let mut frames = std::mem::take(&mut *arrived.frames.lock());
    // As a receiver that keeps one message of many, and of it only the payload.
    let kept = std::mem::take(&mut frames[150].0.parts);
    drop(frames);
    let payload = kept.into_iter().next().unwrap();
    let memory = payload.try_into_mut().unwrap();
    assert!(memory.capacity() < 200, "{} bytes held for 100", memory.capacity());
}

fn one_way(number: u64) -> Frame {
    Frame { can_wait: true, ..frame(number, 8) }
}

#[test]
fn link_3_one_way_messages_arrive_in_order_though_nothing_follows_them() {
    let pair = pair();
    (0..1000).for_each(|number| pair.left.send(&one_way(number), Vec::new()));
    pair.arrived.wait_for(1000, None);
    assert_eq!(pair.arrived.numbers(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn link_3_what_cannot_wait_takes_with_it_what_waited() {
    let (ours, theirs) = socket::pair().unwrap();
    let reactor = Reactor::start().unwrap();
    let link = Link::open(ours, Reader::default(), Collect::new().0, &reactor).unwrap();
    reactor.stop();
    // Nobody comes by to flush: what arrives is what the sender's own thread has written.
    (0..3).for_each(|number| link.send(&one_way(number), Vec::new()));
    link.send(&frame(3, 0), Vec::new());
    assert!(link.is_flushed());
    let mut reader = Reader::default();
    let first = reader.first_frame(&theirs).unwrap().0;
    assert_eq!(first.decode_header::<u64>().unwrap(), 0);
    for number in 1..4u64 {
        assert_eq!(reader.first_frame(&theirs).unwrap().0.decode_header::<u64>().unwrap(), number);
    }
}

#[test]
fn link_3_a_burst_does_not_grow_without_bound_before_it_leaves() {
    let (ours, theirs) = socket::pair().unwrap();
    let reactor = Reactor::start().unwrap();
    let link = Link::open(ours, Reader::default(), Collect::new().0, &reactor).unwrap();
    reactor.stop();
    let large = Frame { can_wait: true, ..frame(7, 20_000) };
    (0..3).for_each(|_| link.send(&large, Vec::new()));
    assert!(link.is_flushed());
    drop(theirs);
}

#[test]
fn link_3_closing_sends_what_waited() {
    let (ours, theirs) = socket::pair().unwrap();
    let reactor = Reactor::start().unwrap();
    let link = Link::open(ours, Reader::default(), Collect::new().0, &reactor).unwrap();
    reactor.stop();
    (0..3).for_each(|number| link.send(&one_way(number), Vec::new()));
    link.close();
    let mut reader = Reader::default();
    for number in 0..3u64 {
        assert_eq!(reader.first_frame(&theirs).unwrap().0.decode_header::<u64>().unwrap(), number);
    }
}

#[test]
fn link_3_messages_to_others_in_between_are_no_pause() {
    let reactor = Reactor::start().unwrap();
    let open = |socket| Link::open(socket, Reader::default(), Collect::new().0, &reactor).unwrap();
    let (one, one_theirs) = socket::pair().unwrap();
    let (other, other_theirs) = socket::pair().unwrap();
    let (one, other) = (open(one), open(other));
    reactor.stop();
    one.send(&one_way(0), Vec::new());
    assert!(one.is_flushed());
    (0..50_000).for_each(|number| other.send(&one_way(number), Vec::new()));
    one.send(&one_way(1), Vec::new());
    assert!(!one.is_flushed(), "it waits for others to leave with");
    drop((one_theirs, other_theirs));
}
