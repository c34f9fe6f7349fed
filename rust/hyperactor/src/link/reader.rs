//! Making frames of what a socket gives.

use std::io::{self, IoSliceMut};
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::BytesMut;

use crate::sys::socket;
use crate::wire::frame::{self, Decoded};
use crate::wire::{Frame, FrameError, Limits};

/// How much one read can take in beyond the frame that is under way.
const ROOM_BYTES: usize = 64 << 10;

/// Most bytes of a frame under way that one read asks for.
const MAX_READ_BYTES: usize = 4 << 20;

/// What was read and is not yet a frame.
///
/// Each frame gets memory of its own, as much as it needs: one that somebody keeps holds nobody else's.
#[derive(Default)]
pub struct Reader {
    /// Where reads go that begin with a new frame; made once, by the first.
    room: Box<[u8]>,
    /// What of it belongs to no frame yet.
    unread: Range<usize>,
    /// The frame under way.
    partial: BytesMut,
    /// How many bytes that one still lacks, as far as is known.
    missing: usize,
    descriptors: Vec<OwnedFd>,
}

impl Reader {
    /// Receive once: the rest of the frame under way, and what comes after it.
    pub(super) fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.room.is_empty() {
            self.room = vec![0; ROOM_BYTES].into();
        }
        let begun = self.partial.len();
        let asked = self.missing.min(MAX_READ_BYTES);
        self.partial.resize(begun + asked, 0);
        let mut slices = [IoSliceMut::new(&mut self.partial[begun..]), IoSliceMut::new(&mut self.room)];
        let outcome = socket::receive_scattered(socket, &mut slices, &mut self.descriptors);
        let count = outcome.as_ref().map_or(0, |count| *count);
        self.partial.truncate(begun + count.min(asked));
        self.unread = 0..count.saturating_sub(asked);
        outcome
    }

    /// The next whole frame of what was received, with its descriptors.
    pub(super) fn next(&mut self) -> Result<Option<(Frame, Vec<OwnedFd>)>, FrameError> {
        loop {
            let front = if self.partial.is_empty() { &self.room[self.unread.clone()] } else { &self.partial[..] };
            if front.is_empty() {
                self.missing = 0;
                return Ok(None);
            }
            let needed = frame::needed(front, &Limits::default())?;
            let is_whole = needed <= front.len();
            self.missing = needed.saturating_sub(self.partial.len());
            self.take();
            if is_whole {
                return self.decode();
            }
            if self.missing > 0 {
                return Ok(None);
            }
        }
    }

    /// Move to the frame under way what it lacks, as far as it is there.
    fn take(&mut self) {
        let count = self.missing.min(self.unread.len());
        let end = self.unread.start + count;
        self.partial.reserve(self.missing);
        self.partial.extend_from_slice(&self.room[self.unread.start..end]);
        self.unread.start = end;
        self.missing -= count;
    }

    fn decode(&mut self) -> Result<Option<(Frame, Vec<OwnedFd>)>, FrameError> {
        let Decoded::Frame(frame) = frame::decode(&mut mem::take(&mut self.partial), &Limits::default())? else {
            return Ok(None);
        };
        let count = usize::from(frame.descriptors).min(self.descriptors.len());
        let descriptors = self.descriptors.drain(..count).collect();
        Ok(Some((frame, descriptors)))
    }

    /// Wait for the first frame of a stream that no link has yet.
    pub fn first_frame(&mut self, socket: &OwnedFd) -> Result<(Frame, Vec<OwnedFd>), String> {
        loop {
            if let Some(first) = self.next().map_err(|error| error.to_string())? {
                return Ok(first);
            }
            crate::sys::poll::readable([socket.as_fd()], None).map_err(|error| error.to_string())?;
            match self.fill(socket.as_fd()) {
                Ok(0) => return Err("the agent closed the control socket".into()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.to_string()),
                _ => {}
            }
        }
    }
}
