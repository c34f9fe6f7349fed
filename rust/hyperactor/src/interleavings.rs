//! What threads do to each other where they meet, in many interleavings: deaths, closes, answers and ends.
//!
//! Whole runtimes take hundreds of steps, so that trying all orders (as loom does) is out of reach; shuttle samples them,
//! prints the schedule of a failure so that it can be repeated, and says when all threads wait for ever.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shuttle::thread;

use crate::death::{Cause, Death};
use crate::id::{ActorId, MeshId, PROCESS_ACTOR, ProcId};
use crate::notifier::Notifier;
use crate::replies::Replies;
use crate::runtime::Runtime;
use crate::targets::{Targets, cancel};
use crate::wire::header::Kind;

const ACTOR: ActorId = ActorId([7; 16]);

/// So many schedules of each: half of them random, half of them with few but well-placed changes of threads.
const SCHEDULES: usize = 2_000;

fn here() -> ProcId {
    ProcId::first(MeshId([1; 16]), 0)
}

fn there() -> ProcId {
    ProcId::first(MeshId([2; 16]), 0)
}

fn runtime() -> Arc<Runtime> {
    Runtime::start(here(), "host", Bytes::new()).unwrap()
}

fn targets(runtime: &Arc<Runtime>, proc: ProcId) -> Targets {
    Targets::new(runtime.clone(), proc.mesh, vec![proc.rank], ACTOR)
}

fn end(runtime: &Runtime) {
    runtime.shutdown::<Infallible>(Duration::ZERO, None);
}

/// Wait for ever, which shuttle takes as a failure.
fn wait(replies: &Arc<Replies>) {
    replies.wait::<Infallible>(1, None, None).unwrap();
}

fn in_many_orders(test: fn()) {
    shuttle::check_random(test, SCHEDULES / 2);
    shuttle::check_pct(test, SCHEDULES / 2, 3);
}

#[test]
fn a_call_to_a_process_that_dies_is_answered_exactly_once() {
    in_many_orders(|| {
        let runtime = runtime();
        let dying = runtime.clone();
        let death = thread::spawn(move || dying.proc_died(Death { pid: 1, ..Death::new(there(), Cause::Signal(9)) }));
        let replies = targets(&runtime, there()).call(PROCESS_ACTOR, &[], true).unwrap();
        wait(&replies);
        death.join().unwrap();
        assert_eq!(replies.arrived(), 1);
        assert!(matches!(replies.message(0).unwrap().kind, Kind::Dead(_)));
        end(&runtime);
    });
}

#[test]
fn mailbox_3_a_request_meets_its_actor_or_the_reason_of_the_close() {
    in_many_orders(|| {
        let runtime = runtime();
        let mailbox = runtime.open_mailbox(ACTOR);
        let (closing, serving) = (mailbox.clone(), mailbox);
        let death = runtime.own_death(Cause::Stopped("enough".into()));
        let close = thread::spawn(move || closing.close(death));
        let serve = thread::spawn(move || {
            while let (_, Some(message)) = serving.recv::<Infallible>(None, None).unwrap() {
                message.answer(Kind::Value, Vec::new()).unwrap();
            }
        });
        let calls: Vec<_> = (0..2).map(|_| targets(&runtime, here()).call(PROCESS_ACTOR, &[], true).unwrap()).collect();
        for replies in calls {
            wait(&replies);
            assert_eq!(replies.arrived(), 1);
        }
        close.join().unwrap();
        serve.join().unwrap();
        end(&runtime);
    });
}

#[test]
fn a_request_that_is_dropped_while_its_mailbox_closes_is_answered_exactly_once() {
    in_many_orders(|| {
        let runtime = runtime();
        let mailbox = runtime.open_mailbox(ACTOR);
        let replies = targets(&runtime, here()).call(PROCESS_ACTOR, &[], true).unwrap();
        let (closing, dropping) = (mailbox.clone(), mailbox);
        let death = runtime.own_death(Cause::Stopped("enough".into()));
        let close = thread::spawn(move || closing.close(death));
        let drop = thread::spawn(move || std::mem::drop(dropping.drain()));
        wait(&replies);
        close.join().unwrap();
        drop.join().unwrap();
        assert_eq!(replies.arrived(), 1);
        end(&runtime);
    });
}

#[test]
fn nobody_waits_for_a_runtime_that_has_ended() {
    in_many_orders(|| {
        let runtime = runtime();
        runtime.open_mailbox(ACTOR);
        let ending = runtime.clone();
        let end = thread::spawn(move || end(&ending));
        for proc in [here(), there()] {
            if let Ok(replies) = targets(&runtime, proc).call(PROCESS_ACTOR, &[], true) {
                wait(&replies);
            }
        }
        end.join().unwrap();
    });
}

#[test]
fn a_call_that_is_cancelled_while_it_is_answered_ends_its_waits() {
    in_many_orders(|| {
        let runtime = runtime();
        let mailbox = runtime.open_mailbox(ACTOR);
        let replies = targets(&runtime, here()).call(PROCESS_ACTOR, &[], true).unwrap();
        let (cancelling, call) = (runtime.clone(), replies.clone());
        let cancelled = thread::spawn(move || cancel(&cancelling, &call).unwrap());
        let answered = thread::spawn(move || {
            for message in mailbox.drain() {
                message.answer(Kind::Value, Vec::new()).unwrap();
            }
        });
        wait(&replies);
        cancelled.join().unwrap();
        answered.join().unwrap();
        assert!(replies.arrived() <= 1);
        end(&runtime);
    });
}

#[test]
fn replies_3_a_notifier_gets_its_token_exactly_once() {
    in_many_orders(|| {
        let runtime = runtime();
        let replies = targets(&runtime, there()).call(PROCESS_ACTOR, &[], true).unwrap();
        let notifier = Arc::new(Notifier::new().unwrap());
        let dying = runtime.clone();
        let death = thread::spawn(move || dying.proc_died(Death::new(there(), Cause::Signal(9))));
        replies.notify(1, notifier.clone(), 7);
        death.join().unwrap();
        assert_eq!(notifier.drain(), [7]);
        end(&runtime);
    });
}
