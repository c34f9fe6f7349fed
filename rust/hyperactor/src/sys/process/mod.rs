//! Starting, watching and ending processes.
//!
//! What every system of the POSIX family has is in the files of this folder; what only Linux has comes from `linux`,
//! and `posix` says how to live without it. The feature `portable` takes `posix` on Linux, too, and each function of
//! `linux` does what `posix` does where a sandbox denies the call.

mod child;
pub mod copy;
mod descriptors;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
mod posix;
mod signal_pipe;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod title;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
use posix as platform;

use std::os::fd::OwnedFd;

pub use child::{CONTROL_DESCRIPTOR, Ended, ended_child, has_children, reap, spawn};
pub use descriptors::{close_inherited, reserve_control_descriptor, take_over};
pub use platform::{adopt_orphans, adopts_orphans, can_show, children, environment, handle_of, show_as};
pub use signal_pipe::{Arrived, SignalPipe};

/// A way to learn of the end of any process, related or not.
#[derive(Debug)]
pub enum Handle {
    /// There is no such process.
    Gone,
    /// Readable once the process has ended.
    Open(OwnedFd),
    /// This system has none, or denies it.
    Unavailable,
}
