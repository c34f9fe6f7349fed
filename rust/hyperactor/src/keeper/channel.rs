//! The keeper's ends of its sockets: frames come and go, and nothing waits that was not asked to.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Serialize, de::DeserializeOwned};

use crate::sys::socket;
use crate::wire::frame::{Decoded, Frame, FrameError, Limits, Priority, decode};

/// Frames to and from the agent, or between a keeper and one of its templates.
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

    /// The next header that has arrived as a whole, with its descriptors.
    pub(super) fn next<H: DeserializeOwned>(&mut self) -> Result<Option<(H, Vec<OwnedFd>)>, FrameError> {
        let Decoded::Frame(frame) = decode(&mut self.incoming, &LIMITS)? else { return Ok(None) };
        let descriptors = self.descriptors.drain(..self.descriptors.len().min(frame.descriptors.into())).collect();
        Ok(Some((frame.decode_header()?, descriptors)))
    }

    /// Wait for the next header, until `deadline` if there is one. None at the end.
    pub(super) fn wait_for<H: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
    ) -> io::Result<Option<(H, Vec<OwnedFd>)>> {
        let mut alive = true;
        loop {
            match self.next().map_err(io::Error::other)? {
                Some(found) => return Ok(Some(found)),
                None if !alive => return Ok(None),
                None => wait(self.socket.as_fd(), PollFlags::IN, deadline)?,
            }
            alive = self.receive()?;
        }
    }

    /// Queue a header; [`Channel::flush`] sends it.
    pub(super) fn queue<H: Serialize>(&mut self, header: &H) -> Result<(), FrameError> {
        let frame = Frame::new(Priority::Control, header, Vec::new())?;
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

    /// Send a header with descriptors, and wait until the socket has taken it.
    pub(super) fn send<H: Serialize>(
        &mut self,
        header: &H,
        descriptors: &[OwnedFd],
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let mut frame = Frame::new(Priority::Control, header, Vec::new()).map_err(io::Error::other)?;
        frame.descriptors = descriptors.len() as u8;
        let mut left = frame.encode_head();
        let mut descriptors = descriptors;
        while !left.is_empty() {
            match socket::send(&self.socket, &[IoSlice::new(&left)], descriptors) {
                Ok(count) => {
                    left.advance(count);
                    // They went with the first byte.
                    descriptors = &[];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(self.socket.as_fd(), PollFlags::OUT, deadline)?;
                }
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

/// Wait until `socket` is ready, or something else happened to it.
fn wait(socket: BorrowedFd<'_>, flags: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ });
        match poll(&mut [PollFd::from_borrowed_fd(socket, flags)], timeout.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A launch with a usual environment fits.
const CHUNK_BYTES: usize = 16 << 10;

/// Requests have no parts, and a header that holds the largest environment that the kernel takes (2 MiB).
const LIMITS: Limits = Limits { header_bytes: 4 << 20, parts: 0, frame_bytes: 0 };
