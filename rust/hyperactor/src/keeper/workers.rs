//! The processes of a keeper: those that it launched, and what it adopted from them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::launch::{MARK_VARIABLE, Newcomer};
use super::protocol::{Event, Launch};
use crate::sys::process;

/// Launched processes that have not been reaped. Each leads a session and a group whose number is its process id.
///
/// Only children of this process are ever signalled, for the number of a child stands for nobody else until it is
/// reaped. A grandchild becomes a child when its parent ends.
pub(super) struct Workers {
    live: HashMap<Pid, u64>,
    /// Distinguishes the marks of this keeper from those of others.
    token: String,
    /// The sessions of workers that have ended, while something that they left may live.
    ended_sessions: Vec<Pid>,
}

impl Workers {
    pub(super) fn new(token: String) -> Self {
        Self { live: HashMap::new(), token, ended_sessions: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The worker that a launch asks for, with a mark in its environment that tells it from all others.
    pub(super) fn newcomer(&self, mut request: Launch, descriptors: Vec<OwnedFd>) -> Result<Newcomer, String> {
        let mark = self.mark(&request);
        request.environment.retain(|(name, _)| name != MARK_VARIABLE);
        request.environment.push((MARK_VARIABLE.into(), mark.into()));
        Newcomer::new(request, descriptors)
    }

    /// One of them runs.
    pub(super) fn started(&mut self, launch: u64, pid: Pid) -> Event {
        self.live.insert(pid, launch);
        Event::Started { launch, pid: Pid::as_raw(Some(pid)) }
    }

    /// Send a signal to the group of a launched process.
    pub(super) fn signal(&self, launch: u64, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        for (&pid, _) in self.live.iter().filter(|&(_, &live)| live == launch) {
            // A copy that has only just been made leads no group yet.
            let _ = kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal));
        }
    }

    /// Ask all launched processes to end.
    pub(super) fn terminate(&self) {
        for &pid in self.live.keys() {
            let _ = kill_process(pid, Signal::TERM);
            // A stopped process would not see it.
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Reap all that have ended, and end the groups of launched ones; `other` hears of each that was none.
    pub(super) fn reap(&mut self, mut other: impl FnMut(Pid)) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(ended) = process::ended_child() {
            if let Some(launch) = self.live.remove(&ended.pid) {
                // Before it is reaped, for then its number may become another group's.
                let _ = kill_process_group(ended.pid, Signal::KILL);
                self.ended_sessions.push(ended.pid);
                events.push(Event::Exited { launch, pid: Pid::as_raw(Some(ended.pid)), status: ended.status });
            } else {
                other(ended.pid);
            }
            process::reap(ended);
        }
        events
    }

    /// End what ended workers have left behind outside of their groups. To be called after each [`Workers::reap`], for
    /// what dies may leave children of its own.
    pub(super) fn end_leftovers(&mut self) {
        if self.ended_sessions.is_empty() {
            return;
        }
        let leftovers: Vec<Pid> = process::children().into_iter().filter(|&child| self.is_leftover(child)).collect();
        for &leftover in &leftovers {
            let _ = kill_process(leftover, Signal::KILL);
        }
        if leftovers.is_empty() {
            self.ended_sessions.clear();
        }
    }

    /// Kill everything.
    pub(super) fn kill(&self) {
        for &pid in self.live.keys() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        for child in process::children() {
            let _ = kill_process(child, Signal::KILL);
        }
    }

    fn is_leftover(&self, child: Pid) -> bool {
        if self.live.contains_key(&child) {
            return false;
        }
        match launch_in(&process::environment(child), &self.token) {
            Some(launch) => !self.live.values().any(|&live| live == launch),
            // It has cleared its environment; a session it cannot leave without a fork and a call.
            None => rustix::process::getsid(Some(child)).is_ok_and(|session| self.ended_sessions.contains(&session)),
        }
    }

    /// A worker of a worker belongs to both.
    fn mark(&self, request: &Launch) -> String {
        let own = format!("{}.{}", self.token, request.launch);
        match request.environment.iter().find(|(name, _)| name == MARK_VARIABLE) {
            Some((_, outer)) => format!("{}/{own}", outer.display()),
            None => own,
        }
    }
}

/// Which launch of the keeper with this token an environment belongs to.
fn launch_in(environment: &[u8], token: &str) -> Option<u64> {
    let marks = environment
        .split(|&byte| byte == 0)
        .find_map(|entry| str::from_utf8(entry).ok()?.strip_prefix(MARK_VARIABLE)?.strip_prefix('='))?;
    marks.split('/').find_map(|mark| mark.strip_prefix(token)?.strip_prefix('.')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_the_launch_to_its_own_keeper_only() {
        let environment = b"PATH=/bin\0MONARCH_WORKER=aa.3/bb.14\0HOME=/";
        assert_eq!(launch_in(environment, "aa"), Some(3));
        assert_eq!(launch_in(environment, "bb"), Some(14));
        assert_eq!(launch_in(environment, "b"), None);
        assert_eq!(launch_in(b"MONARCH_WORKERS=aa.3", "aa"), None);
    }

    #[test]
    fn a_worker_of_a_worker_carries_both_marks() {
        let request = Launch {
            launch: 5,
            program: Default::default(),
            arguments: vec![],
            environment: vec![(MARK_VARIABLE.into(), "aa.3".into())],
            directory: Default::default(),
            variant: String::new(),
        };
        assert_eq!(Workers::new("bb".into()).mark(&request), "aa.3/bb.5");
    }
}
