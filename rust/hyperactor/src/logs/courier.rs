//! What takes the lines of another host's processes to the client's console, a few at a time.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::{LogOptions, Origin, Stream};
use crate::id::MeshId;

/// What a host says about the output of its processes. The text of all lines goes beside it, each with its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// Lines of one stream of a process.
    Lines {
        /// Whose they are.
        origin: Origin,
        /// Which stream.
        stream: Stream,
        /// How they are treated.
        options: LogOptions,
        /// How long they are.
        bytes: u32,
    },
    /// What waits for equal lines in a mesh comes out.
    LetOut(MeshId),
    /// A word of the runtime itself.
    Complaint(String),
}

/// Sends lines, as long as there is credit.
pub struct Courier {
    host: String,
    send: Box<dyn Fn(Vec<Said>, Bytes) + Send>,
    credit: Arc<Credit>,
    said: Vec<Said>,
    /// The origin of the last lines in `said`.
    last: Option<Arc<Origin>>,
    text: Vec<u8>,
}

/// How much may be on its way: what was sent counts until the console has taken it.
#[derive(Default)]
pub struct Credit {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: usize,
    closed: bool,
}

/// What may be on its way.
///
/// Other messages may have to wait for so much: 2 ms at a gigabit. It is enough for 25 MB/s over 10 ms.
const MOST_BYTES: usize = 256 << 10;

/// Counted for each frame beside its text, for whose lines it has.
const FRAME_BYTES: usize = 128;

impl Courier {
    /// One from `host` that sends by `send`.
    pub fn new(host: &str, credit: Arc<Credit>, send: impl Fn(Vec<Said>, Bytes) + Send + 'static) -> Self {
        Self { host: host.into(), send: Box::new(send), credit, said: Vec::new(), last: None, text: Vec::new() }
    }

    pub(super) fn line(&mut self, origin: &Arc<Origin>, stream: Stream, line: &[u8], options: &LogOptions) {
        let length = line.len() as u32 + 1;
        let is_same = self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, origin));
        match self.said.last_mut() {
            Some(Said::Lines { stream: last, options: as_before, bytes, .. })
                if is_same && *last == stream && as_before == options =>
            {
                *bytes += length;
            }
            _ => {
                let (origin, options) = (Origin::clone(origin), options.clone());
                self.said.push(Said::Lines { origin, stream, options, bytes: length });
            }
        }
        self.last = Some(origin.clone());
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
    }

    pub(super) fn complain(&mut self, text: &str) {
        self.said.push(Said::Complaint(format!("on {}: {text}", self.host)));
    }

    pub(super) fn let_out_mesh(&mut self, mesh: MeshId) {
        self.said.push(Said::LetOut(mesh));
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.text.len() + self.said.len()
    }

    /// Send what was taken, once there is credit for it; without anybody to send to it is dropped.
    pub(super) fn send(&mut self) {
        let (said, text) = (std::mem::take(&mut self.said), std::mem::take(&mut self.text));
        self.last = None;
        if self.credit.take(cost(&text)) {
            (self.send)(said, text.into());
        }
    }
}

/// How much of the credit a frame with this text takes.
pub(crate) fn cost(text: &[u8]) -> usize {
    text.len() + FRAME_BYTES
}

impl Credit {
    /// Wait until so much more may be on its way; false if nobody is there any more.
    fn take(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        // A frame that is longer than all of it goes alone.
        while !state.closed && state.bytes > 0 && state.bytes + bytes > MOST_BYTES {
            self.changed.wait(&mut state);
        }
        state.bytes += bytes;
        !state.closed
    }

    /// So much has arrived and was taken.
    pub fn give_back(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Nobody is there any more.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::id::ProcId;

    fn origin(rank: u32) -> Arc<Origin> {
        Arc::new(Origin { proc: ProcId::first(MeshId([1; 16]), rank), mesh: "w".into(), host: "there".into() })
    }

    type Frame = (Vec<Said>, Bytes);

    fn courier() -> (Courier, Arc<Credit>, mpsc::Receiver<Frame>) {
        let credit = Arc::new(Credit::default());
        let (sender, receiver) = mpsc::channel();
        let courier = Courier::new("there", credit.clone(), move |said, text| drop(sender.send((said, text))));
        (courier, credit, receiver)
    }

    #[test]
    fn lines_of_one_stream_that_follow_each_other_are_said_to_be_its_once() {
        let (mut courier, _, sent) = courier();
        let (one, other, options) = (origin(0), origin(1), LogOptions::default());
        courier.line(&one, Stream::Stdout, b"a", &options);
        courier.line(&one, Stream::Stdout, b"bc", &options);
        courier.line(&one, Stream::Stderr, b"d", &options);
        courier.line(&other, Stream::Stderr, b"", &options);
        courier.let_out_mesh(MeshId([1; 16]));
        courier.send();
        let (said, text) = sent.recv().unwrap();
        assert_eq!(text, "a\nbc\nd\n\n");
        let lengths: Vec<_> =
            said.iter().map(|said| if let Said::Lines { bytes, .. } = said { *bytes } else { 0 }).collect();
        assert_eq!(lengths, [5, 2, 1, 0]);
    }

    #[test]
    fn logs_4_what_is_on_its_way_is_bounded_and_goes_on_when_it_was_taken() {
        let (mut courier, credit, sent) = courier();
        let (origin, options, line) = (origin(0), LogOptions::default(), vec![b'x'; 100 << 10]);
        let writer = std::thread::spawn(move || {
            for _ in 0..100 {
                courier.line(&origin, Stream::Stdout, &line, &options);
                courier.send();
            }
        });
        let mut on_their_way = Vec::new();
        for _ in 0..100 {
            let (_, text) = sent.recv().unwrap();
            on_their_way.push(cost(&text));
            assert!(on_their_way.iter().sum::<usize>() <= MOST_BYTES);
            if on_their_way.len() == 2 {
                on_their_way.drain(..).for_each(|bytes| credit.give_back(bytes));
            }
        }
        writer.join().unwrap();
    }

    #[test]
    fn nobody_waits_for_credit_when_the_client_is_gone() {
        let (mut courier, credit, sent) = courier();
        for closed in [false, true] {
            courier.line(&origin(0), Stream::Stdout, &vec![b'x'; 2 * MOST_BYTES], &LogOptions::default());
            courier.send();
            assert_eq!(sent.try_recv().is_ok(), !closed, "a line that is longer than the credit goes alone");
            credit.close();
        }
    }
}
