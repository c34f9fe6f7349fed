//! The life of a keeper process.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::agent::AgentWatch;
use super::channel::Channel;
use super::complain;
use super::launch::Newcomer;
use super::protocol::{Event, ExitStatus, Request};
use super::starter::{Start, Starter};
use super::template::{End, Template};
use super::workers::Workers;
use crate::id::random_bytes;
use crate::sys::process::{self, SignalPipe};

/// Be a keeper: the whole life of its process, which has one thread and whose parent holds the other end of `socket`.
/// Returns when everything that it started has ended. With a `template` it returns in copies of the process, too.
pub fn run(socket: RawFd, template: Option<Template<'_>>) -> End {
    match Keeper::new(socket, template).and_then(Keeper::serve) {
        Ok(end) => end,
        Err(error) => {
            complain("cannot go on", &error);
            End::Exit(1)
        }
    }
}

struct Keeper<'a> {
    /// None after its end.
    agent: Option<AgentWatch>,
    /// None after its end.
    channel: Option<Channel>,
    phase: Phase,
    signals: SignalPipe,
    starter: Starter<'a>,
    workers: Workers,
}

/// Each follows the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Processes may end by themselves until then.
    Ending(Instant),
    /// What cannot be killed is given up then.
    Killing(Instant),
}

/// What a wait has found.
struct Ready {
    agent_gone: bool,
    readable: bool,
    signals: bool,
    templates: bool,
}

impl<'a> Keeper<'a> {
    fn new(socket: RawFd, template: Option<Template<'a>>) -> io::Result<Self> {
        process::close_inherited(socket);
        process::reserve_control_descriptor()?;
        let socket = process::take_over(socket)?;
        let signals = SignalPipe::install()?;
        leave_session();
        process::adopt_orphans();
        let random = random_bytes().map_err(|error| io::Error::other(error.to_string()))?;
        let token = random[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            agent: Some(AgentWatch::new()),
            channel: Some(Channel::new(socket)),
            phase: Phase::Serving,
            signals,
            starter: Starter::new(template),
            workers: Workers::new(token),
        })
    }

    /// Ends with the keeper's end, or as a copy of it; then all that is the keeper's own is closed behind it.
    fn serve(mut self) -> io::Result<End> {
        while !self.is_finished() {
            let ready = self.wait().inspect_err(|_| self.workers.kill())?;
            if ready.signals {
                self.take_signals();
            }
            if ready.readable
                && let Some(end) = self.take_requests()
            {
                return Ok(end);
            }
            if ready.templates
                && let Some(end) = self.take_templates()
            {
                return Ok(end);
            }
            if ready.agent_gone {
                self.lose_agent();
            }
            // Reports first: whoever waits for them should not wait for a search, too.
            self.flush();
            self.workers.end_leftovers();
        }
        Ok(End::Exit(0))
    }

    fn take_signals(&mut self) {
        let arrived = self.signals.drain();
        if arrived.child {
            for event in self.workers.reap(|other| self.starter.ended(other)) {
                self.report(&event);
            }
        }
        if arrived.terminate {
            self.end(LONELY_GRACE);
        }
    }

    /// None unless this process has become a copy, as below.
    fn take_requests(&mut self) -> Option<End> {
        let channel = self.channel.as_mut()?;
        let mut alive = channel.receive().unwrap_or(false);
        let mut arrived = Vec::new();
        loop {
            match channel.next() {
                // At once: loaded here once, it need not be loaded in each of the processes that are to be started.
                Ok(Some((Request::Load { modules }, _))) => self.starter.load(&modules),
                Ok(Some(request)) => arrived.push(request),
                Ok(None) => break,
                Err(error) => {
                    complain("cannot understand the agent", &error);
                    alive = false;
                    break;
                }
            }
        }
        for (request, descriptors) in arrived {
            if let Some(end) = self.answer(request, descriptors) {
                return Some(end);
            }
        }
        if !alive {
            self.lose_agent();
        }
        None
    }

    fn take_templates(&mut self) -> Option<End> {
        self.starter.take_ready().into_iter().find_map(|newcomer| self.start(newcomer))
    }

    fn answer(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Option<End> {
        match request {
            Request::Launch(request) if self.phase == Phase::Serving => {
                let launch = request.launch;
                match self.workers.newcomer(request, descriptors) {
                    Ok(newcomer) => return self.start(newcomer),
                    Err(error) => self.report(&Event::Failed { launch, error }),
                }
            }
            Request::Launch(request) => {
                let error = format!("cannot start `{}`: {ENDING}", request.program.display());
                self.report(&Event::Failed { launch: request.launch, error });
            }
            Request::Signal { launch, signal } if self.starter.cancel(launch) => {
                self.report(&Event::Exited { launch, pid: 0, status: ExitStatus::Signal(signal) });
            }
            Request::Signal { launch, signal } => self.workers.signal(launch, signal),
            Request::Load { modules } => self.starter.load(&modules),
            Request::Shutdown { grace_ms } => self.end(Duration::from_millis(grace_ms)),
        }
        None
    }

    fn start(&mut self, newcomer: Newcomer) -> Option<End> {
        let launch = newcomer.request.launch;
        let event = match self.starter.start(newcomer) {
            Start::Copy(end) => return Some(end),
            Start::Failed(error) => Event::Failed { launch, error },
            Start::Runs(pid) => self.workers.started(launch, pid),
            Start::Waits => return None,
        };
        self.report(&event);
        None
    }

    fn lose_agent(&mut self) {
        self.channel = None;
        self.agent = None;
        self.end(LONELY_GRACE);
    }

    /// Begin to end everything, or hurry if that has begun.
    fn end(&mut self, grace: Duration) {
        let until = Instant::now() + grace.min(LONGEST_GRACE);
        match self.phase {
            Phase::Serving => {
                self.workers.terminate();
                for launch in self.starter.end() {
                    self.report(&Event::Failed { launch, error: format!("cannot start a worker: {ENDING}") });
                }
                self.phase = Phase::Ending(until);
            }
            Phase::Ending(before) => self.phase = Phase::Ending(before.min(until)),
            Phase::Killing(_) => {}
        }
    }

    /// Go on to the next phase when it is time.
    fn is_finished(&mut self) -> bool {
        let now = Instant::now();
        if let Phase::Ending(until) = self.phase
            && (self.workers.is_empty() || until <= now)
        {
            self.phase = Phase::Killing(now + UNKILLABLE);
        }
        let Phase::Killing(until) = self.phase else { return false };
        self.workers.kill();
        !process::has_children() || until <= now
    }

    fn report(&mut self, event: &Event) {
        if let Some(channel) = &mut self.channel
            && let Err(error) = channel.queue(event)
        {
            complain("cannot report to the agent", &error);
        }
    }

    fn flush(&mut self) {
        if self.channel.as_mut().is_some_and(|channel| channel.flush().is_err()) {
            self.lose_agent();
        }
    }

    /// Wait until something happens. On systems that tell of everything, nothing happens while nothing happens.
    fn wait(&self) -> io::Result<Ready> {
        let channel = self.channel.as_ref().map(|channel| {
            let write = if channel.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            (channel.as_fd(), PollFlags::IN | write)
        });
        let agent = self.agent.as_ref().and_then(AgentWatch::descriptor).map(|agent| (agent, PollFlags::IN));
        let sources = [Some((self.signals.as_fd(), PollFlags::IN)), channel, agent];
        let templates = self.starter.descriptors().map(|template| (template, PollFlags::IN));
        let mut entries: Vec<_> = sources
            .iter()
            .flatten()
            .copied()
            .chain(templates)
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
            .collect();
        match poll(&mut entries, self.timeout().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut happened = entries.iter().map(|entry| !entry.revents().is_empty());
        let [signals, readable, agent_gone] =
            sources.map(|source| source.is_some() && happened.next().unwrap_or(false));
        let templates = happened.any(|happened| happened);
        let agent_gone = agent_gone || self.agent.as_ref().is_some_and(AgentWatch::is_known_gone);
        Ok(Ready { agent_gone, readable, signals, templates })
    }

    fn timeout(&self) -> Option<Timespec> {
        let phase = match self.phase {
            Phase::Serving => None,
            Phase::Ending(until) | Phase::Killing(until) => Some(until.saturating_duration_since(Instant::now())),
        };
        let timeout = phase.into_iter().chain(self.agent.as_ref().and_then(AgentWatch::interval)).min()?;
        // Rounded up, so that what was waited for is due.
        let timeout = timeout + Duration::from_micros(1);
        Some(Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ })
    }
}

/// Be in a session of our own, where no terminal reaches us. The leader of a group may not start one, so we join the
/// agent's group for that moment; we ignore a terminal's signals already.
fn leave_session() {
    use rustix::process::{getpgid, getppid, setpgid, setsid};
    if setsid().is_err()
        && let Ok(group) = getpgid(getppid())
        && setpgid(None, Some(group)).is_ok()
    {
        let _ = setsid();
    }
}

/// Why nothing starts any more.
const ENDING: &str = "the keeper of this host is ending";

/// How long workers may take to end by themselves when the agent's process is gone. Everything has to be gone two
/// seconds after it; the rest is for killing what is left.
const LONELY_GRACE: Duration = Duration::from_millis(1500);

/// Nobody waits longer; it keeps the arithmetic of time within its bounds.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// A process that sleeps in the kernel ends when it wakes up. Waiting for that longer than this helps nobody.
const UNKILLABLE: Duration = Duration::from_secs(5);
