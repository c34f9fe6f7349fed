//! The operating system: the only place with `unsafe` code, and the only one that knows which system this is.

pub mod fork;
pub mod limits;
pub mod memory;
pub mod poll;
pub mod process;
pub mod signals;
pub mod socket;
pub mod stdio;
pub mod unnamed;
pub mod wake;
pub mod watch;
