//! Answers on their way up, many in one frame.
//!
//! Each part of such a frame is a run of whole frames as they would have been alone, so whoever passes it on, or puts it
//! together with others, looks into none of them. It is addressed to the process that called, at no port of its.

use std::collections::HashMap;
use std::hash::Hash;

use bytes::{Bytes, BytesMut};

use crate::id::{PROCESS_ACTOR, PortId, ProcId};
use crate::wire::frame::{Decoded, decode};
use crate::wire::header::{Destination, Kind, MessageHeader, Sender};
use crate::wire::{Frame, FrameError, Limits, Priority};

/// An answer this long goes alone: to copy it costs more than its own frame.
const LONGEST: usize = 16 << 10;

/// What has come together leaves when it is this long.
const FULL: usize = 256 << 10;

/// No port has this number: a frame to it is for the ports of a process.
const ANY_PORT: u64 = 0;

/// Answers that wait for others to leave with, by where they go next and whom they are for.
pub struct Batcher<E> {
    held: HashMap<(E, ProcId), Held>,
}

struct Held {
    sender: Sender,
    /// Runs that came as such.
    runs: Vec<Bytes>,
    run: BytesMut,
    bytes: usize,
    /// The only frame so far: alone it needs nothing around it.
    single: Option<Frame>,
}

impl<E> Default for Batcher<E> {
    fn default() -> Self {
        Self { held: HashMap::new() }
    }
}

impl<E: Copy + Eq + Hash> Batcher<E> {
    /// Take an answer, or several in one frame, for a process; gives back what shall be sent now, in order.
    pub fn add(&mut self, edge: E, to: ProcId, header: &MessageHeader, frame: Frame) -> Result<Vec<Frame>, FrameError> {
        let held = self.held.entry((edge, to)).or_insert_with(|| Held::new(header.sender));
        let is_batch = matches!(header.kind, Kind::Batch);
        let mut ready = Vec::new();
        if !is_batch && frame.encoded_bytes() > LONGEST {
            ready.extend(held.take(to)?);
            ready.push(frame);
        } else {
            if is_batch {
                held.add_runs(frame)
            } else {
                held.add(frame)
            }
            if held.bytes >= FULL || held.runs.len() + 1 >= Limits::default().parts {
                ready.extend(held.take(to)?);
            }
        }
        Ok(ready)
    }

    /// What waits, with where it goes.
    pub fn flush(&mut self) -> Result<Vec<(E, Frame)>, FrameError> {
        let mut ready = Vec::new();
        for ((edge, to), mut held) in self.held.drain() {
            ready.extend(held.take(to)?.map(|frame| (edge, frame)));
        }
        Ok(ready)
    }

    /// What waits to go by one edge to one process.
    pub(super) fn take(&mut self, edge: E, to: ProcId) -> Result<Option<Frame>, FrameError> {
        self.held.remove(&(edge, to)).map_or(Ok(None), |mut held| held.take(to))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Held {
    fn new(sender: Sender) -> Self {
        Self { sender, runs: Vec::new(), run: BytesMut::new(), bytes: 0, single: None }
    }

    fn add(&mut self, frame: Frame) {
        let is_first = self.bytes == 0;
        self.bytes += frame.encoded_bytes();
        if is_first {
            self.single = Some(frame);
            return;
        }
        self.open_single();
        append(&mut self.run, &frame);
    }

    fn add_runs(&mut self, batch: Frame) {
        self.open_single();
        self.close_run();
        self.bytes += batch.encoded_bytes();
        self.runs.extend(batch.parts);
    }

    fn open_single(&mut self) {
        if let Some(first) = self.single.take() {
            append(&mut self.run, &first);
        }
    }

    fn close_run(&mut self) {
        if !self.run.is_empty() {
            self.runs.push(self.run.split().freeze());
        }
    }

    fn take(&mut self, to: ProcId) -> Result<Option<Frame>, FrameError> {
        self.bytes = 0;
        if let Some(frame) = self.single.take() {
            return Ok(Some(frame));
        }
        self.close_run();
        let runs = std::mem::take(&mut self.runs);
        if runs.is_empty() {
            return Ok(None);
        }
        let header = MessageHeader {
            destination: Destination::Port(PortId { proc: to, index: ANY_PORT }),
            sender: Sender { actor: PROCESS_ACTOR, ..self.sender },
            kind: Kind::Batch,
            rank: 0,
            reply: None,
            sequence: 0,
            epoch: 0,
            memory: None,
        };
        Frame::new(Priority::User, &header, runs).map(Some)
    }
}

fn append(run: &mut BytesMut, frame: &Frame) {
    run.extend_from_slice(&frame.encode_head());
    frame.parts.iter().for_each(|part| run.extend_from_slice(part));
}

/// The answers in a frame of [`Kind::Batch`]. One that is no frame, or holds what does not belong there, ends them with an
/// error.
pub fn unbatch(parts: Vec<Bytes>, mut each: impl FnMut(MessageHeader, Frame)) -> Result<(), FrameError> {
    for part in parts {
        let mut run = BytesMut::from(part);
        while !run.is_empty() {
            let Decoded::Frame(frame) = decode(&mut run, &Limits::default())? else {
                return Err(FrameError::Magic);
            };
            let header: MessageHeader = frame.decode_header()?;
            let is_answer = matches!(header.kind, Kind::Value | Kind::Error | Kind::Dead(_));
            if !is_answer || header.memory.is_some() {
                return Err(FrameError::Header(postcard::Error::SerdeDeCustom));
            }
            each(header, frame);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::MeshId;
    use crate::message::request;

    fn caller() -> ProcId {
        ProcId::first(MeshId([9; 16]), 0)
    }

    fn answer(rank: u32, payload: Vec<u8>) -> (MessageHeader, Frame) {
        let proc = ProcId::first(MeshId([1; 16]), rank);
        let header = MessageHeader {
            destination: Destination::Port(PortId { proc: caller(), index: 1 }),
            kind: Kind::Value,
            ..request(proc, PROCESS_ACTOR, Sender { proc, actor: PROCESS_ACTOR }, rank, None)
        };
        let frame = Frame::new(Priority::User, &header, vec![Bytes::new(), payload.into()]).unwrap();
        (header, frame)
    }

    fn open(frame: Frame) -> Vec<(u32, usize)> {
        let header: MessageHeader = frame.decode_header().unwrap();
        if !matches!(header.kind, Kind::Batch) {
            return vec![(header.rank, frame.parts[1].len())];
        }
        let mut found = Vec::new();
        unbatch(frame.parts, |header, frame| found.push((header.rank, frame.parts[1].len()))).unwrap();
        found
    }

    proptest! {
        #[test]
        fn answers_of_any_length_keep_their_order_through_two_gateways(
            answers in prop::collection::vec((0usize..40_000, any::<bool>()), 1..30),
        ) {
            let (mut lower, mut upper) = (Batcher::default(), Batcher::default());
            let mut found = Vec::new();
            let mut up = |frames: Vec<Frame>, upper: &mut Batcher<()>| {
                for frame in frames {
                    let header = frame.decode_header().unwrap();
                    found.extend(upper.add((), caller(), &header, frame).unwrap().into_iter().flat_map(open));
                }
            };
            for (rank, (bytes, flushed)) in answers.iter().enumerate() {
                let (header, frame) = answer(rank as u32, vec![0; *bytes]);
                up(lower.add((), caller(), &header, frame).unwrap(), &mut upper);
                if *flushed {
                    up(lower.flush().unwrap().into_iter().map(|(_, frame)| frame).collect(), &mut upper);
                }
            }
            up(lower.flush().unwrap().into_iter().map(|(_, frame)| frame).collect(), &mut upper);
            found.extend(upper.flush().unwrap().into_iter().flat_map(|(_, frame)| open(frame)));
            let expected: Vec<(u32, usize)> = (0..).zip(answers.iter().map(|(bytes, _)| *bytes)).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn garbage_in_a_batch_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let _ = unbatch(vec![garbage.into()], |_, _| {});
            let mut run = BytesMut::new();
            append(&mut run, &answer(0, vec![0; 50]).1);
            let (whole, cut) = (run.len(), cut.min(run.len()));
            let is_ok = unbatch(vec![run.freeze().slice(..cut)], |_, _| {}).is_ok();
            prop_assert_eq!(is_ok, cut == 0 || cut == whole);
        }
    }

    #[test]
    fn a_batch_holds_answers_and_nothing_else() {
        let (header, _) = answer(0, Vec::new());
        let frame = Frame::new(Priority::User, &MessageHeader { kind: Kind::Call, ..header }, Vec::new()).unwrap();
        let mut run = BytesMut::new();
        append(&mut run, &frame);
        assert!(unbatch(vec![run.freeze()], |_, _| {}).is_err());
    }
}
