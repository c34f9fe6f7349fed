//! The agent's side: starting a keeper, and waiting for its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::agent::AGENT_VARIABLE;
use crate::sys::process::Handle;
use crate::sys::{poll, process, socket};

/// The program that becomes a keeper: it has to call [`run`](super::run)`(0)`, for its socket is descriptor 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperCommand {
    /// The program's path.
    pub program: String,
    /// Its arguments, without the program's name.
    pub arguments: Vec<String>,
    /// Variables that it has beside this process's.
    pub environment: Vec<(OsString, OsString)>,
}

/// A keeper that this process has started.
#[derive(Debug)]
pub struct KeeperProcess {
    child: Child,
    handle: Handle,
}

/// Start a keeper. The socket carries frames: [`Request`](super::protocol::Request)s to the keeper,
/// [`Event`](super::protocol::Event)s from it. When the last copy of the socket is closed, or this process ends, the
/// keeper ends everything that it has started, and then itself.
pub fn start(command: &KeeperCommand) -> io::Result<(KeeperProcess, OwnedFd)> {
    let (ours, theirs) = socket::pair()?;
    let child = Command::new(&command.program)
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .env(AGENT_VARIABLE, std::process::id().to_string())
        .stdin(Stdio::from(theirs))
        // Ctrl-C goes to the terminal's foreground group; until the keeper ignores it, this keeps it away.
        .process_group(0)
        .spawn()?;
    let handle = process::handle_of(Pid::from_child(&child));
    Ok((KeeperProcess { child, handle }, ours))
}

impl KeeperProcess {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Wait for its end, at most so long. Whether it has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            if self.has_ended() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.pause(left);
        }
    }

    /// Kill it, unless it has ended. Its workers end with it where the system can do that, and else when they notice
    /// that their links have ended.
    pub fn kill(&mut self) {
        match &self.handle {
            Handle::Gone => {}
            #[cfg(target_os = "linux")]
            Handle::Open(handle) => drop(rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL)),
            // Until it is reaped its number stands for nobody else.
            _ => drop(self.child.kill()),
        }
    }

    /// Whether it has ended; if so, reaps it. The user's program may reap all children by itself, or ignore SIGCHLD.
    fn has_ended(&mut self) -> bool {
        if matches!(self.handle, Handle::Gone) {
            return true;
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            return false;
        }
        // From now on its number may be another process's.
        self.handle = Handle::Gone;
        true
    }

    fn pause(&self, at_most: Duration) {
        if let Handle::Open(handle) = &self.handle
            && poll::readable([handle.as_fd()], Some(at_most)).is_ok()
        {
            return;
        }
        std::thread::sleep(at_most.min(POLL_INTERVAL));
    }
}

/// How often the end of a keeper is looked for where the system does not tell: only while somebody waits for it.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
