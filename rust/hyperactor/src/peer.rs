//! Other processes, as seen from this one: a link to them, none yet, or the reason why there will be none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::death::Death;
use crate::id::ProcId;
use crate::link::Link;
use crate::message;
use crate::wire::header::MessageHeader;
use crate::wire::{Frame, FrameError};

/// Another process.
pub struct Peer {
    /// Which one.
    pub id: ProcId,
    route: Mutex<Route>,
    sequence: AtomicU64,
}

enum Route {
    /// A link was asked for; what is sent meanwhile waits in order.
    Awaited(Vec<Frame>),
    Dead(Arc<Death>),
    Open(Arc<Link>),
}

/// What became of a message.
#[derive(Debug)]
pub enum Sent {
    /// Its process is dead.
    Dead(Arc<Death>),
    /// It is on its way.
    OnItsWay,
}

impl Peer {
    /// A process that no link leads to yet.
    pub fn awaited(id: ProcId) -> Self {
        Self { id, route: Mutex::new(Route::Awaited(Vec::new())), sequence: AtomicU64::new(0) }
    }

    /// Send after all that was sent before.
    pub fn send(&self, mut header: MessageHeader, parts: Vec<Bytes>) -> Result<Sent, FrameError> {
        let mut route = self.route.lock();
        if let Route::Dead(death) = &*route {
            return Ok(Sent::Dead(death.clone()));
        }
        header.sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let frame = message::frame(&header, parts)?;
        match &mut *route {
            Route::Awaited(queue) => queue.push(frame),
            Route::Open(link) => link.send(&frame, Vec::new()),
            Route::Dead(_) => {}
        }
        Ok(Sent::OnItsWay)
    }

    /// From now on this link leads there; what waited goes first.
    pub fn open(&self, link: Arc<Link>) {
        let mut route = self.route.lock();
        match &mut *route {
            Route::Awaited(queue) => queue.iter().for_each(|frame| link.send(frame, Vec::new())),
            // A second link for the same pair: both sides asked at once. Each keeps sending by its first, in order.
            Route::Open(_) => return,
            Route::Dead(_) => {
                drop(route);
                link.close();
                return;
            }
        }
        *route = Route::Open(link);
    }

    /// The link, if there is one.
    pub fn link(&self) -> Option<Arc<Link>> {
        match &*self.route.lock() {
            Route::Open(link) => Some(link.clone()),
            _ => None,
        }
    }

    /// Why it is dead, if it is.
    pub fn death(&self) -> Option<Arc<Death>> {
        match &*self.route.lock() {
            Route::Dead(death) => Some(death.clone()),
            _ => None,
        }
    }

    /// From now on nothing is sent there. The first reason counts; false if there was one.
    pub fn set_dead(&self, death: Death) -> bool {
        let mut route = self.route.lock();
        if matches!(*route, Route::Dead(_)) {
            return false;
        }
        let before = std::mem::replace(&mut *route, Route::Dead(Arc::new(death)));
        drop(route);
        if let Route::Open(link) = before {
            link.close();
        }
        true
    }
}
