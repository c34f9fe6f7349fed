//! Between hosts: addresses, who may connect, and the edge that carries frames from one host's agent to another's.
//!
//! In layers: [`address`] and [`socket`] make a stream; [`handshake`] decides, before anything else is parsed, whether
//! its other end belongs to the cluster; [`edge`] carries frames; [`protocol`] is what agents say over it; [`atlas`]
//! knows which processes lie on which host. [`relay`] passes connections on to hosts that a client cannot reach. A session that outlives a connection belongs between `edge` and its link.

pub mod address;
pub mod atlas;
pub mod dial;
pub mod edge;
pub mod handshake;
pub mod key;
pub mod listener;
pub mod protocol;
mod relay;
pub mod socket;
