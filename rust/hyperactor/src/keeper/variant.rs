//! Templates that have loaded more than the keeper: children of it that fork workers at its word.
//!
//! A worker is forked twice, and who is between it and the template ends at once: so the keeper adopts it, and is its
//! parent as it is of every other. It does nothing before the keeper can know its process id.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, waitpid};
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use super::complain;
use super::launch::{Fork, Newcomer};
use super::protocol::Launch;
use super::template::{End, Variable};
use crate::sys::process::{self, copy};
use crate::sys::socket;

/// A template, as its keeper sees it.
pub(super) struct Variant {
    /// None once it has been reaped.
    pid: Option<Pid>,
    channel: Channel,
    /// The variables that were read when it loaded its modules.
    pub(super) fixed: Vec<Variable>,
    pub(super) state: State,
}

pub(super) enum State {
    /// These wait until it is ready.
    Loading(Vec<Newcomer>),
    Ready,
    /// Why it cannot be used.
    Unfit(String),
}

/// What a template says, and between a copy and it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Word {
    /// A launch may come; to a copy: go on.
    Ready,
    /// None will do, for this reason.
    Unfit(String),
    /// The launch runs under this process id.
    Started(i32),
    /// It does not, for this reason.
    Failed(String),
}

impl Variant {
    pub(super) fn new(pid: Pid, socket: OwnedFd, fixed: Vec<Variable>, first: Newcomer) -> Self {
        Self { pid: Some(pid), channel: Channel::new(socket), fixed, state: State::Loading(vec![first]) }
    }

    /// Readable when one that loads has something to say.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        matches!(self.state, State::Loading(_)).then(|| self.channel.as_fd())
    }

    /// Look whether it has loaded; who waited for that.
    pub(super) fn look(&mut self) -> Vec<Newcomer> {
        let State::Loading(waiting) = &mut self.state else { return Vec::new() };
        let alive = self.channel.receive().unwrap_or(false);
        let state = match self.channel.next::<Word>() {
            Ok(None) if alive => return Vec::new(),
            Ok(Some((Word::Ready, _))) => State::Ready,
            Ok(Some((Word::Unfit(reason), _))) => State::Unfit(reason),
            _ => State::Unfit("its template ended while it loaded".into()),
        };
        let waiting = std::mem::take(waiting);
        self.state = state;
        waiting
    }

    /// Let a template that is ready start a worker; an error is text for a person. None if that one must be started in
    /// another way, now and from now on.
    pub(super) fn start(&mut self, newcomer: &Newcomer) -> Option<Result<Pid, String>> {
        let deadline = Some(Instant::now() + FORK_TIME);
        let sent = self.channel.send(&newcomer.request, newcomer.descriptors(), deadline);
        let word = match sent.and_then(|()| self.channel.wait_for(deadline)) {
            Ok(word) => word,
            Err(_) => self.last_word(),
        };
        match word {
            Some((Word::Started(pid), _)) => Pid::from_raw(pid).map(Ok),
            Some((Word::Failed(error), _)) => Some(Err(error)),
            _ => {
                self.kill();
                self.state = State::Unfit("its template ended".into());
                None
            }
        }
    }

    /// What one that takes too long says before its end: what it has started, it has said.
    fn last_word(&mut self) -> Option<(Word, Vec<OwnedFd>)> {
        self.kill();
        self.channel.wait_for(Some(Instant::now() + FORK_TIME)).ok().flatten()
    }

    pub(super) fn kill(&self) {
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// A child of the keeper was reaped.
    pub(super) fn ended(&mut self, pid: Pid) {
        self.pid.take_if(|own| *own == pid);
    }
}

/// A fork takes milliseconds; a template that takes this long may have copied a lock that nobody will release.
const FORK_TIME: Duration = Duration::from_secs(1);

/// Be a template that has loaded its variant: the rest of the life of a process that [`End::Template`] was said to,
/// with the same `socket`, or of a copy of it. `objection` says why copies would not do, if so.
pub fn serve_variant(socket: RawFd, variant: &str, objection: Option<String>, fork: &mut Fork<'_>) -> End {
    match serve(socket, variant, objection, fork) {
        Ok(end) => end,
        // The keeper has other ways, or is gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => End::Exit(0),
        Err(error) => {
            complain("a template cannot go on", &error);
            End::Exit(1)
        }
    }
}

fn serve(socket: RawFd, variant: &str, objection: Option<String>, fork: &mut Fork<'_>) -> io::Result<End> {
    // Descriptor 3 is for the control socket of a copy.
    let socket = process::take_over(socket)?;
    let mut channel = Channel::new(rustix::io::fcntl_dupfd_cloexec(&socket, socket.as_raw_fd() + 1)?);
    drop(socket);
    process::reserve_control_descriptor()?;
    let keeper = getppid().ok_or(io::ErrorKind::NotFound)?;
    let word = objection.map_or(Word::Ready, Word::Unfit);
    channel.send(&word, &[], None)?;
    while let Some((request, descriptors)) = channel.wait_for::<Launch>(None)? {
        let started = match Newcomer::new(request, descriptors) {
            Err(error) => Err(error),
            Ok(newcomer) => match copy_for(&newcomer, keeper, fork) {
                Err(error) => Err(newcomer.failed(&error)),
                Ok(None) => return Ok(End::Worker(newcomer.birth(variant))),
                Ok(Some(started)) => Ok(started),
            },
        };
        match started {
            Ok((pid, mut newborn)) => {
                channel.send(&Word::Started(Pid::as_raw(Some(pid))), &[], None)?;
                // One that was killed meanwhile needs no word.
                let _ = newborn.send(&Word::Ready, &[], None);
            }
            Err(error) => channel.send(&Word::Failed(error), &[], None)?,
        }
    }
    Ok(End::Exit(0))
}

/// Fork a worker that the keeper adopts: its process id and how to let it go on; None in the copy.
fn copy_for(newcomer: &Newcomer, keeper: Pid, fork: &mut Fork<'_>) -> io::Result<Option<(Pid, Channel)>> {
    let (ours, theirs) = socket::pair()?;
    match copy::fork_with(fork)? {
        Some(between) => {
            drop(theirs);
            waitpid(Some(between), WaitOptions::empty())?;
            let mut newborn = Channel::new(ours);
            match newborn.wait_for(None)? {
                Some((Word::Started(pid), _)) => {
                    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                    Ok(Some((pid, newborn)))
                }
                Some((Word::Failed(error), _)) => Err(io::Error::other(error)),
                _ => Err(io::Error::other("its template could not fork it")),
            }
        }
        None => {
            drop(ours);
            be_between(Channel::new(theirs), fork);
            newcomer.settle(keeper);
            Ok(None)
        }
    }
}

/// In the first fork: make the second, and end. Returns in the second, when it may go on.
fn be_between(mut template: Channel, fork: &mut Fork<'_>) {
    match fork() {
        Ok(0) => {}
        Ok(_) => copy::end(0),
        Err(error) => {
            let _ = template.send(&Word::Failed(error.to_string()), &[], None);
            copy::end(1);
        }
    }
    let may_go_on = template
        .send(&Word::Started(Pid::as_raw(Some(getpid()))), &[], None)
        .and_then(|()| template.wait_for::<Word>(None));
    if !matches!(may_go_on, Ok(Some((Word::Ready, _)))) {
        // The template has ended, and nobody knows of this process.
        copy::end(1);
    }
}
