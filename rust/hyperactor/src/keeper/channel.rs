//! The keeper's end of the socket: requests come, events go, nothing waits.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::{Buf, BytesMut};

use super::protocol::{Event, Request};
use crate::sys::socket;
use crate::wire::frame::{Decoded, Frame, FrameError, Limits, Priority, decode};

/// Frames to and from the agent.
pub(super) struct Channel {
    socket: OwnedFd,
    incoming: BytesMut,
    descriptors: Vec<OwnedFd>,
    /// A stopped agent reads nothing, so this can grow; by a few bytes for every launch.
    outgoing: BytesMut,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, incoming: BytesMut::new(), descriptors: Vec::new(), outgoing: BytesMut::new() }
    }

    /// Read what is there. False at the end.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            match socket::receive(&self.socket, &mut chunk, &mut self.descriptors) {
                Ok(0) => return Ok(false),
                Ok(count) => self.incoming.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next request that has arrived as a whole, with its descriptors.
    pub(super) fn next_request(&mut self) -> Result<Option<(Request, Vec<OwnedFd>)>, FrameError> {
        let Decoded::Frame(frame) = decode(&mut self.incoming, &LIMITS)? else { return Ok(None) };
        let descriptors = self.descriptors.drain(..self.descriptors.len().min(frame.descriptors.into())).collect();
        Ok(Some((frame.decode_header()?, descriptors)))
    }

    /// Queue an event; [`Channel::flush`] sends it.
    pub(super) fn queue(&mut self, event: &Event) -> Result<(), FrameError> {
        let frame = Frame::new(Priority::Control, event, Vec::new())?;
        self.outgoing.extend_from_slice(&frame.encode_head());
        Ok(())
    }

    /// Send as much as the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match socket::send(&self.socket, &[IoSlice::new(&self.outgoing)], &[]) {
                Ok(count) => self.outgoing.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether something is left to send.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A launch with a usual environment fits.
const CHUNK_BYTES: usize = 16 << 10;

/// Requests have no parts, and a header that holds the largest environment that the kernel takes (2 MiB).
const LIMITS: Limits = Limits { header_bytes: 4 << 20, parts: 0, frame_bytes: 0 };
