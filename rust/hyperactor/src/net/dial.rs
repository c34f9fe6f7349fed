//! Ways to a host that listens: a connection, or one that another host passes on.

use std::os::fd::OwnedFd;

use super::address::Address;
use super::handshake::{self, Auth};
use super::protocol::{Net, Unreachable};
use super::socket;
use crate::link::Reader;
use crate::wire::{Frame, Priority};

/// A host by way of which others are reached.
#[derive(Clone)]
pub struct Gateway {
    /// Where it listens.
    pub address: Address,
    /// What it has to prove, and this process proves to it.
    pub auth: Auth,
}

impl Gateway {
    /// Connect to it, and see that it belongs to the cluster.
    pub fn enter(&self, version: &str) -> Result<OwnedFd, Unreachable> {
        let socket = socket::connect(&self.address).map_err(|error| socket::unreachable(&error))?;
        handshake::dial(&socket, version, &self.auth).map_err(|failure| refused(failure.to_string()))?;
        Ok(socket)
    }

    fn pass_on_to(&self, address: &Address, version: &str) -> Result<OwnedFd, Unreachable> {
        let socket = self.enter(version)?;
        let lost = |error: String| refused(format!("the connection was lost: {error}"));
        let relay = Net::Relay { address: address.to_string() };
        let frame = Frame::new(Priority::Control, &relay, Vec::new()).map_err(|error| refused(error.to_string()))?;
        let head = frame.encode_head();
        let slices = [std::io::IoSlice::new(&head)];
        // A few hundred bytes always fit into the buffer of a new socket.
        crate::sys::socket::send(&socket, &slices, &[]).map_err(|error| lost(error.to_string()))?;
        // The host beyond says nothing before it is spoken to, so nothing more than the answer is read.
        let (answer, _) = Reader::default().first_frame(&socket).map_err(lost)?;
        match answer.decode_header() {
            Ok(Net::Relayed(Ok(()))) => Ok(socket),
            Ok(Net::Relayed(Err(why))) => Err(why),
            _ => Err(lost("it does not answer as a host does".into())),
        }
    }
}

/// A stream to the host at `address`.
pub fn reach(address: &Address, gateway: Option<&Gateway>, version: &str) -> Result<OwnedFd, Unreachable> {
    let Some(gateway) = gateway else { return socket::connect(address).map_err(|error| socket::unreachable(&error)) };
    let by_way =
        |why: Unreachable| Unreachable { reason: format!("by way of {}: {}", gateway.address, why.reason), ..why };
    gateway.pass_on_to(address, version).map_err(by_way)
}

fn refused(reason: String) -> Unreachable {
    Unreachable { is_nobody_there: false, reason }
}
