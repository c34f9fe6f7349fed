//! Waking one event loop for many things: tokens queue, and a descriptor is readable while there are some.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::park::{Interrupt, Parker, Waited, wait_until};
use crate::sys::wake::WakeFd;

/// A queue of tokens with a descriptor that an event loop watches.
pub struct Notifier {
    fd: WakeFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tokens: Vec<u64>,
    /// A thread in `wait`, which is woken instead of the descriptor.
    waiting: Option<Arc<Parker>>,
}

impl Notifier {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: WakeFd::new()?, state: Mutex::default() })
    }

    /// What an event loop watches.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Queue a token.
    pub fn push(&self, token: u64) {
        let mut state = self.state.lock();
        let was_empty = state.tokens.is_empty();
        state.tokens.push(token);
        let sleeper = state.waiting.clone();
        if sleeper.is_none() && was_empty {
            self.fd.wake();
        }
        drop(state);
        if let Some(parker) = sleeper {
            parker.unpark();
        }
    }

    /// Take all tokens.
    pub fn drain(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        if state.waiting.is_none() && !state.tokens.is_empty() {
            self.fd.clear();
        }
        std::mem::take(&mut state.tokens)
    }

    /// Wait for tokens until `deadline`, then take them.
    pub fn wait<E>(&self, deadline: Option<Instant>, interrupt: Interrupt<'_, E>) -> io::Result<(Waited<E>, Vec<u64>)> {
        let parker = Parker::current();
        self.state.lock().waiting = Some(parker.clone());
        let ready = || !self.state.lock().tokens.is_empty();
        let outcome = wait_until(&parker, ready, None, deadline, interrupt);
        let mut state = self.state.lock();
        state.waiting = None;
        let tokens = match outcome {
            Ok(Waited::Ready) => std::mem::take(&mut state.tokens),
            _ => Vec::new(),
        };
        // Tokens from before the wait had made the descriptor readable, those that stay must.
        self.fd.clear();
        if !state.tokens.is_empty() {
            self.fd.wake();
        }
        drop(state);
        outcome.map(|waited| (waited, tokens))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_waiting_thread_gets_every_token_once() {
        let notifier = Arc::new(Notifier::new().unwrap());
        let sender = notifier.clone();
        let thread = std::thread::spawn(move || (0..1000).for_each(|token| sender.push(token)));
        let mut seen = Vec::new();
        while seen.len() < 1000 {
            seen.extend(notifier.wait::<Infallible>(None, None).unwrap().1);
        }
        thread.join().unwrap();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        assert!(notifier.drain().is_empty());
    }
}
