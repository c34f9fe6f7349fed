//! Whether the agent's process still lives.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::process::{Pid, getppid};

use crate::sys::process::{self, Handle};

/// Watches the process that started this keeper. The end of the socket alone would not do: a process that the user's
/// program forked may hold a copy of it.
pub(super) struct AgentWatch {
    handle: Handle,
    parent: Option<Pid>,
}

impl AgentWatch {
    /// Watch the process that [`AGENT_VARIABLE`] names. It may have ended already, so its number is not asked of the
    /// system; and it need not be the parent, for the command of the keeper may be a wrapper.
    pub(super) fn new() -> Self {
        let parent = getppid();
        let named = std::env::var(AGENT_VARIABLE).ok().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        Self { handle: named.or(parent).map_or(Handle::Gone, process::handle_of), parent }
    }

    /// Readable once the agent is gone.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.handle {
            Handle::Open(handle) => Some(handle.as_fd()),
            Handle::Gone | Handle::Unavailable => None,
        }
    }

    /// How often to ask [`AgentWatch::is_known_gone`], where there is no descriptor.
    pub(super) fn interval(&self) -> Option<Duration> {
        match &self.handle {
            Handle::Open(_) => None,
            Handle::Gone => Some(Duration::ZERO),
            Handle::Unavailable => Some(PARENT_INTERVAL),
        }
    }

    /// Whether it is gone, as far as can be said without the descriptor: an orphan gets another parent.
    pub(super) fn is_known_gone(&self) -> bool {
        match self.handle {
            Handle::Gone => true,
            Handle::Open(_) => false,
            Handle::Unavailable => getppid() != self.parent,
        }
    }
}

/// Tells a keeper which process it serves.
pub(super) const AGENT_VARIABLE: &str = "MONARCH_AGENT";

/// Short against the two seconds that the end of everything may take, and ten wake-ups a second are next to nothing.
const PARENT_INTERVAL: Duration = Duration::from_millis(100);
