//! Passing the bytes of a connection on, for a client that cannot reach a host itself but this one.
//!
//! The client has proven to belong to the cluster before it may ask for that. To the host beyond it proves the same
//! again, through the relay, which understands nothing of what it passes on.
//!
//! # Invariants
//! - **RELAY-1** Bytes arrive in order, and what one end sent before it ended arrives, unless the other sends to it still.
//! - **RELAY-2** When one end is gone, so is the other.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::sys::fork::Descriptor;
use crate::sys::socket;

/// The connections that are relayed by one host.
#[derive(Default)]
pub(super) struct Relays {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Arc<[Descriptor; 2]>>,
    next: u64,
    closed: bool,
}

/// Most connections that are relayed at once; each has a thread, which mostly sleeps.
const MOST: usize = 1024;

/// How much of one direction is kept until the other end takes it.
const BUFFER_BYTES: usize = 64 << 10;

impl Relays {
    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.state.lock().open.len() < MOST
    }

    /// Pass bytes on between two sockets until one of them ends; takes the thread.
    pub(super) fn run(&self, client: OwnedFd, host: OwnedFd) {
        let ends = Arc::new([Descriptor::new(client), Descriptor::new(host)]);
        let number = {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.next += 1;
            let number = state.next;
            state.open.insert(number, ends.clone());
            number
        };
        // However it ends, it ends for both.
        let _ = pass_on(&ends);
        hang_up(&ends);
        self.state.lock().open.remove(&number);
        self.ended.notify_all();
    }

    /// Wait until none is open, for at most so long.
    pub(super) fn wait_for_ends(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        while !state.open.is_empty() && !self.ended.wait_until(&mut state, until).timed_out() {}
    }

    /// End all of them, and begin none any more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.open.values().for_each(|ends| hang_up(ends));
    }
}

fn hang_up(ends: &[Descriptor; 2]) {
    for end in ends {
        let _ = rustix::net::shutdown(end, Shutdown::Both);
    }
}

/// What goes from one end to the other.
struct Direction {
    from: usize,
    buffer: Vec<u8>,
    sent: usize,
    has_ended: bool,
}

impl Direction {
    fn from(end: usize) -> Self {
        Self { from: end, buffer: Vec::with_capacity(BUFFER_BYTES), sent: 0, has_ended: false }
    }

    fn is_empty(&self) -> bool {
        self.sent == self.buffer.len()
    }

    /// Which end has to be waited for, and for what.
    fn awaits(&self) -> (usize, PollFlags) {
        if self.is_empty() { (self.from, PollFlags::IN) } else { (1 - self.from, PollFlags::OUT) }
    }

    /// Take what is there, if everything before it has left, and let go what can.
    fn go_on(&mut self, ends: &[Descriptor; 2]) -> io::Result<()> {
        if self.is_empty() {
            self.buffer.resize(BUFFER_BYTES, 0);
            self.sent = 0;
            let count = ready(socket::receive(&ends[self.from], &mut self.buffer, &mut Vec::new()))?;
            self.has_ended = count == Some(0);
            self.buffer.truncate(count.unwrap_or(0));
        }
        if !self.is_empty() {
            let slice = IoSlice::new(&self.buffer[self.sent..]);
            self.sent += ready(socket::send(&ends[1 - self.from], &[slice], &[]))?.unwrap_or(0);
        }
        Ok(())
    }
}

/// None where it would have to wait.
fn ready(outcome: io::Result<usize>) -> io::Result<Option<usize>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

fn pass_on(ends: &[Descriptor; 2]) -> io::Result<()> {
    let mut directions = [Direction::from(0), Direction::from(1)];
    while !directions.iter().any(|direction| direction.has_ended) {
        let awaited = directions.each_ref().map(Direction::awaits);
        let mut entries = awaited.map(|(end, flags)| PollFd::new(&ends[end], flags));
        match poll(&mut entries, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for direction in &mut directions {
            direction.go_on(ends)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn relayed() -> (UnixStream, UnixStream, Arc<Relays>, std::thread::JoinHandle<()>) {
        let (client, client_side) = UnixStream::pair().unwrap();
        let (host, host_side) = UnixStream::pair().unwrap();
        let relays = Arc::new(Relays::default());
        let running = relays.clone();
        let thread = std::thread::spawn(move || running.run(client_side.into(), host_side.into()));
        (client, host, relays, thread)
    }

    #[test]
    fn relay_1_bytes_arrive_in_both_directions_and_whole() {
        let (client, host, _relays, thread) = relayed();
        let sent: Vec<u8> = (0..1_000_000u32).map(|number| number as u8).collect();
        let writers = [&client, &host].map(|end| {
            let (mut end, sent) = (end.try_clone().unwrap(), sent.clone());
            std::thread::spawn(move || end.write_all(&sent).unwrap())
        });
        for mut end in [&client, &host] {
            let mut arrived = vec![0; sent.len()];
            end.read_exact(&mut arrived).unwrap();
            assert!(arrived == sent);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        drop(client);
        thread.join().unwrap();
    }

    #[test]
    fn relay_1_and_2_what_was_sent_before_the_end_arrives_and_the_other_end_hears_of_it() {
        let (mut client, mut host, relays, thread) = relayed();
        client.write_all(b"last words").unwrap();
        drop(client);
        let mut heard = Vec::new();
        host.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"last words");
        thread.join().unwrap();
        assert!(relays.state.lock().open.is_empty());
    }

    #[test]
    fn closed_relays_end_and_none_begins() {
        let (mut client, _host, relays, thread) = relayed();
        client.write_all(b"x").unwrap();
        while relays.state.lock().open.is_empty() {
            std::thread::yield_now();
        }
        relays.close();
        thread.join().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        relays.run(one.into(), other.into());
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    }
}
