//! The threads that move large transfers, so that whoever starts one can do something else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use hyperactor::sys::signals;
use parking_lot::{Condvar, Mutex};

use crate::transfer::Transfer;

struct State {
    /// Once for each thread that is to take part.
    queue: VecDeque<Arc<Transfer>>,
    threads: usize,
}

static STATE: Mutex<State> = Mutex::new(State { queue: VecDeque::new(), threads: 0 });
static WORK: Condvar = Condvar::new();
/// Whose threads they are: a forked child has none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Have `threads` threads work on a transfer; false where there are none and none can be had.
pub fn run(transfer: &Arc<Transfer>, threads: usize) -> bool {
    let process = std::process::id();
    let known = PROCESS.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire);
    if known.is_err_and(|other| other != process) {
        return false;
    }
    let mut state = STATE.lock();
    while state.threads < threads {
        if thread::Builder::new().name("monarch-rdma".to_owned()).spawn(work).is_err() {
            break;
        }
        state.threads += 1;
    }
    if state.threads == 0 {
        return false;
    }
    for _ in 0..threads.max(1) {
        state.queue.push_back(transfer.clone());
        WORK.notify_one();
    }
    true
}

fn work() {
    signals::block_all();
    loop {
        let mut state = STATE.lock();
        let transfer = loop {
            match state.queue.pop_front() {
                Some(transfer) => break transfer,
                None => WORK.wait(&mut state),
            }
        };
        drop(state);
        transfer.work();
    }
}
