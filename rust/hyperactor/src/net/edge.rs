//! An edge: the way from one host's agent to another's, or from a process to its host's agent as its gateway.
//!
//! Frames of user priority carry messages ([`MessageHeader`](crate::wire::header::MessageHeader)) and are passed on as
//! they came; frames of control priority carry what agents say to each other ([`Net`]). Both share one order, so what is
//! said about a process arrives after what the process said.
//!
//! Now an edge is one connection and ends with it. A session that resumes on the next connection numbers and keeps the
//! frames here: nobody beyond sees a link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::protocol::Net;
use crate::link::Link;
use crate::wire::{Frame, Priority};

/// One end of an edge.
#[derive(Clone)]
pub struct Edge {
    link: Arc<Link>,
    messages: Arc<AtomicU64>,
}

impl Edge {
    /// An edge over a connection.
    pub fn new(link: Arc<Link>) -> Self {
        Self { link, messages: Arc::default() }
    }

    /// Pass on a frame after all that went before; never waits.
    pub fn send(&self, frame: &Frame) {
        if frame.priority == Priority::User {
            self.messages.fetch_add(1, Ordering::Relaxed);
        }
        if frame.descriptors == 0 {
            self.link.send(frame, Vec::new());
        } else {
            // A descriptor means nothing elsewhere.
            self.link.send(&Frame { descriptors: 0, ..frame.clone() }, Vec::new());
        }
    }

    /// Say something to the agent at the other end.
    pub fn say(&self, net: &Net, parts: Vec<Bytes>) {
        // Plain data, which always encodes.
        if let Ok(frame) = Frame::new(Priority::Control, net, parts) {
            self.send(&frame);
        }
    }

    /// What a thread that waits for an answer by this way may read.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// How many frames with messages were sent by it.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Whether all that was sent has gone to the system.
    pub fn is_flushed(&self) -> bool {
        self.link.is_flushed()
    }

    /// End it.
    pub fn close(&self) {
        self.link.close();
    }
}
