//! The first moments of a worker, as its agent sees them.
#![allow(clippy::unwrap_used)] // In a test a panic is the way to fail.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use hyperactor::id::{ActorId, MeshId, PROCESS_ACTOR, ProcId};
use hyperactor::link::{Link, Reader, Sink};
use hyperactor::message::{frame, request};
use hyperactor::reactor::Reactor;
use hyperactor::runtime::Runtime;
use hyperactor::sys::socket;
use hyperactor::wire::header::{self, Control};
use hyperactor::wire::{Frame, Priority};
use parking_lot::Mutex;

/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Passes on what a worker says to its agent.
struct Hears(Mutex<Sender<Control>>);

impl Sink for Hears {
    fn frame(&self, _: &Arc<Link>, frame: Frame, _: Vec<OwnedFd>) {
        let _ = self.0.lock().send(frame.decode_header().unwrap());
    }

    fn ended(&self, _: &Arc<Link>, _: Option<String>) {}
}

fn process(mesh: u8) -> ProcId {
    ProcId::first(MeshId([mesh; 16]), 0)
}

#[test]
fn whoever_sent_what_a_worker_finds_at_its_start_is_connected_with_it() {
    let reactor = Reactor::start().unwrap();
    // The message is read while the worker still starts, so this is about the order of its steps: a few starts may not show
    // all orders.
    for _ in 0..100 {
        let (said, says) = channel();
        let (control, workers_control) = socket::pair().unwrap();
        let (data, workers_data) = socket::pair().unwrap();
        let hears = Arc::new(Hears(Mutex::new(said)));
        let control = Link::open(control, Reader::default(), hears.clone(), &reactor).unwrap();
        let data = Link::open(data, Reader::default(), hears, &reactor).unwrap();
        let (worker, agent, sender) = (process(1), process(2), process(3));
        let from = header::Sender { proc: sender, actor: PROCESS_ACTOR };
        let message = request(worker, ActorId([7; 16]), from, 0, None);
        data.send(&frame(&message, vec![Bytes::new(), Bytes::new()]).unwrap(), Vec::new());
        let welcome = Control::Welcome { proc: worker, agent, host: "host".into(), log_level: None };
        let mut welcome = Frame::new(Priority::Control, &welcome, vec![Bytes::new()]).unwrap();
        welcome.descriptors = 1;
        control.send(&welcome, vec![workers_data]);
        let runtime = Runtime::start_worker(workers_control).unwrap();
        assert_eq!(says.recv_timeout(PATIENCE).unwrap(), Control::Connect { peer: sender });
        runtime.shutdown::<Infallible>(Duration::ZERO, None);
        control.close();
        data.close();
    }
}
