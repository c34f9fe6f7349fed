//! The tables of other processes of this host.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::RdmaError;
use crate::handle::BufferHandle;
use crate::place::Place;
use crate::sys::{CAN_COPY, Copier};
use crate::table::Table;

/// A process whose memory can be reached from here.
pub struct Peer {
    /// What it lets others do.
    pub table: Table,
    /// The way to its memory.
    pub copier: Copier,
}

static PEERS: Mutex<Option<HashMap<Place, Arc<Peer>>>> = Mutex::new(None);

impl Peer {
    /// The owner of a buffer, found once.
    pub fn owner_of(handle: &BufferHandle) -> Result<Arc<Self>, RdmaError> {
        let mut peers = PEERS.lock();
        let peers = peers.get_or_insert_default();
        if let Some(peer) = peers.get(&handle.place) {
            return Ok(peer.clone());
        }
        peers.retain(|_, peer| !peer.copier.has_ended());
        let peer = Arc::new(Self::open(handle)?);
        peers.insert(handle.place, peer.clone());
        Ok(peer)
    }

    fn open(handle: &BufferHandle) -> Result<Self, RdmaError> {
        let place = &handle.place;
        let unreachable =
            |reason: &str| RdmaError::NoBackend { owner: handle.owner.clone(), reason: reason.to_owned() };
        let lost = || RdmaError::PeerLost { owner: handle.owner.clone(), pid: place.pid };
        if !CAN_COPY {
            return Err(unreachable("this build has no copy between processes, which only Linux has"));
        }
        if !place.is_on_this_host() {
            return Err(unreachable(
                "it is on another host or in another container, and only memory of the same host \
                 can be reached so far: send the data in a message",
            ));
        }
        // Before the table is opened: a later process of the same number has another nonce.
        let copier = Copier::new(place.pid);
        let path = format!("/proc/{}/fd/{}", place.pid, place.fd);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => unreachable(MAY_NOT),
            _ => lost(),
        })?;
        let table = Table::map(file).map_err(|_| lost())?;
        if table.nonce() != place.nonce { Err(lost()) } else { Ok(Self { table, copier }) }
    }
}

/// Why the kernel refuses, and the way out.
pub const MAY_NOT: &str = "the kernel does not let this process copy to and from it: both have to run as one user, with \
    kernel.yama.ptrace_scope at 0 and ptrace allowed where they are in a container";
