//! Keepers with real processes. This program plays the keeper, and an agent that gets killed, when asked to: a keeper
//! has one thread and owns its process's signals, so the usual harness cannot be one.

#![allow(clippy::unwrap_used)] // All of it is a test.

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::catch_unwind;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hyperactor::keeper::protocol::{Event, ExitStatus, Launch, Request};
use hyperactor::keeper::{self, End, KeeperCommand, KeeperProcess};
use hyperactor::sys::{signals, socket};
use hyperactor::wire::frame::{Decoded, Frame, Limits, Priority, decode};
use rustix::process::{Pid, Signal, kill_process};

/// Whether descendants that leave their worker's group are found, and workers end with their keeper.
const ADOPTS: bool = cfg!(all(target_os = "linux", not(feature = "portable")));

/// 32 and 33 belong to the C library, which lets nobody set them; whoever started the tests may ignore them.
const LIBRARY_SIGNALS: u64 = 0b11 << 31;

/// Longer than anything here takes on a busy machine; a wait ends as soon as what it waits for happens.
const DEADLINE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("as-keeper") => std::process::exit(be_keeper()),
        Some("as-agent") => be_agent(),
        filter => run_cases(filter.filter(|argument| !argument.starts_with('-')).unwrap_or("")),
    }
}

fn be_keeper() -> i32 {
    match keeper::run(0, None) {
        End::Exit(status) => status,
        end => panic!("not a template, and yet {end:?}"),
    }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), $name as fn())),*] };
}

fn run_cases(filter: &str) -> ExitCode {
    let cases = cases![
        a_burst_of_reports_waits_for_an_agent_that_does_not_read,
        a_closed_socket_ends_keeper_and_workers,
        a_keeper_and_each_worker_have_sessions_of_their_own,
        a_killed_agent_takes_everything_along_within_two_seconds,
        a_launch_that_fails_says_why,
        a_subprocess_ends_with_its_worker,
        a_terminated_keeper_ends_its_workers,
        a_worker_has_the_environment_and_directory_of_its_launch_only,
        a_worker_inherits_neither_descriptors_nor_signal_settings,
        an_exit_is_reported_with_its_status_or_signal,
        fifty_workers_come_and_go_without_a_trace,
        the_control_socket_is_descriptor_three,
        the_output_of_a_worker_goes_where_its_launch_says,
        the_end_of_a_keeper_is_seen_where_the_program_ignores_its_children,
        workers_get_their_grace_at_a_shutdown_and_no_more,
    ];
    let adopting_cases = cases![
        a_daemon_ends_with_its_worker_and_not_with_another,
        a_job_with_a_group_and_no_environment_of_its_own_ends_with_its_worker,
        a_killed_keeper_takes_its_workers_along,
    ];
    let adopting_cases = adopting_cases.into_iter().filter(|_| ADOPTS);
    let mut failed = 0;
    for (name, case) in cases.into_iter().chain(adopting_cases).filter(|(name, _)| name.contains(filter)) {
        let begun = Instant::now();
        let passed = catch_unwind(case).is_ok();
        println!("test {name} ... {} ({:?})", if passed { "ok" } else { "FAILED" }, begun.elapsed());
        failed += usize::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn an_exit_is_reported_with_its_status_or_signal() {
    let mut agent = Agent::start();
    for (script, expected) in [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 7", ExitStatus::Code(7)),
        ("kill -KILL $$", ExitStatus::Signal(libc::SIGKILL)),
        ("kill -TERM $$", ExitStatus::Signal(libc::SIGTERM)),
    ] {
        let worker = agent.launch(script);
        assert_eq!(agent.event(), worker.exited(expected), "{script}");
    }
}

fn a_launch_that_fails_says_why() {
    let mut agent = Agent::start();
    let mut fails = |program: &str, directory: &str| {
        let (_ours, theirs) = socket::pair().unwrap();
        let launch = agent.send_launch(program, &[], &[], directory, vec![theirs]);
        let Event::Failed { launch: failed, error } = agent.event() else { panic!("it has not failed") };
        assert_eq!(failed, launch);
        error
    };
    assert_eq!(fails("/no/such/python", "/"), "cannot start `/no/such/python`: No such file or directory");
    assert_eq!(fails("/usr", "/"), "cannot start `/usr`: Permission denied");
    assert_eq!(
        fails("/bin/sh", "/no/such/directory"),
        "cannot start `/bin/sh`: cannot enter its directory `/no/such/directory`: No such file or directory"
    );
    assert_eq!(
        fails("/bin/sh", "/etc/hosts"),
        "cannot start `/bin/sh`: cannot enter its directory `/etc/hosts`: Not a directory"
    );
    let worker = agent.launch("exit 3");
    assert_eq!(agent.event(), worker.exited(ExitStatus::Code(3)), "the keeper goes on");
}

fn the_control_socket_is_descriptor_three() {
    let mut agent = Agent::start();
    let mut worker = agent.launch("read word <&3; echo \"got $word\" >&3; read end <&3");
    worker.control.write_all(b"hello\n").unwrap();
    assert_eq!(worker.line(), "got hello");
}

fn the_output_of_a_worker_goes_where_its_launch_says() {
    let mut agent = Agent::start();
    let (_ours, theirs) = socket::pair().unwrap();
    let [(mut stdout, stdout_theirs), (mut stderr, stderr_theirs)] = [pipe(), pipe()];
    let script = ["-c", "echo out; echo err >&2"];
    agent.send_launch("/bin/sh", &script, &[], "/", vec![theirs, stdout_theirs, stderr_theirs]);
    for (stream, expected) in [(&mut stdout, "out\n"), (&mut stderr, "err\n")] {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, expected);
    }
}

fn a_keeper_and_each_worker_have_sessions_of_their_own() {
    let mut agent = Agent::start();
    let worker = agent.launch("read end <&3");
    let worker_pid = Pid::from_raw(worker.pid).unwrap();
    for process in [agent.pid(), worker_pid] {
        assert_eq!(rustix::process::getsid(Some(process)), Ok(process));
    }
}

fn a_worker_has_the_environment_and_directory_of_its_launch_only() {
    // The keeper inherits this program's environment.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let mut agent = Agent::start();
    let (ours, theirs) = socket::pair().unwrap();
    agent.send_launch("/bin/sh", &["-c", "pwd >&3; env >&3"], &[("GREETING", "a b=c")], "/usr", vec![theirs]);
    let mut text = String::new();
    stream(ours).read_to_string(&mut text).unwrap();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with("_=")).collect();
    assert_eq!(lines.remove(0), "/usr");
    lines.sort_unstable();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], "GREETING=a b=c");
    assert!(lines[1].starts_with("MONARCH_WORKER="));
    assert_eq!(lines[2], "PWD=/usr", "the shell's own");
}

fn a_worker_inherits_neither_descriptors_nor_signal_settings() {
    let (mut read, write) = pipe();
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty()).unwrap();
    let mut agent = std::thread::spawn(|| {
        signals::block_all();
        Agent::start()
    })
    .join()
    .unwrap();
    drop(write);
    let mut worker = agent.launch(if cfg!(target_os = "linux") {
        "grep -E '^Sig(Blk|Ign)' /proc/self/status >&3; read end <&3"
    } else {
        "printf 'SigBlk:\\t0\\nSigIgn:\\t0\\n' >&3; read end <&3"
    });
    for name in ["SigBlk:", "SigIgn:"] {
        let line = worker.line();
        let set = u64::from_str_radix(line.strip_prefix(name).unwrap().trim(), 16).unwrap();
        assert_eq!(set & !LIBRARY_SIGNALS, 0, "{line}");
    }
    let mut rest = Vec::new();
    read.read_to_end(&mut rest).unwrap();
    drop(worker);
}

fn a_subprocess_ends_with_its_worker() {
    let mut agent = Agent::start();
    let mut worker = agent.launch("sleep 600 & echo $! >&3; kill -KILL $$");
    worker.line();
    assert_eq!(agent.event(), worker.exited(ExitStatus::Signal(libc::SIGKILL)));
    worker.expect_everybody_gone();
}

fn a_daemon_ends_with_its_worker_and_not_with_another() {
    let daemon = "(setsid sh -c 'sh -c \"while read word; do echo daemon \\$word; done\" <&3 >&3 & exec sleep 600' &)\n\
                  exec sleep 600";
    let mut agent = Agent::start();
    let (mut first, mut second) = (agent.launch(daemon), agent.launch(daemon));
    assert_eq!((first.ask("1"), second.ask("2")), ("daemon 1".into(), "daemon 2".into()));
    agent.send(&Request::Signal { launch: first.launch, signal: libc::SIGKILL });
    assert_eq!(agent.event(), first.exited(ExitStatus::Signal(libc::SIGKILL)));
    first.expect_everybody_gone();
    assert_eq!(second.ask("3"), "daemon 3");
    agent.send(&Request::Signal { launch: second.launch, signal: libc::SIGTERM });
    assert_eq!(agent.event(), second.exited(ExitStatus::Signal(libc::SIGTERM)));
    second.expect_everybody_gone();
    agent.expect_no_children();
}

fn a_job_with_a_group_and_no_environment_of_its_own_ends_with_its_worker() {
    let mut agent = Agent::start();
    let mut worker =
        agent.launch("set -m 2>/dev/null; env -i sh -c 'echo up >&3; exec sleep 600' & read end <&3; exit 4");
    assert_eq!(worker.line(), "up");
    worker.control.write_all(b"\n").unwrap();
    assert_eq!(agent.event(), worker.exited(ExitStatus::Code(4)));
    worker.expect_everybody_gone();
}

fn fifty_workers_come_and_go_without_a_trace() {
    let mut agent = Agent::start();
    let mut workers: Vec<_> = (0..50).map(|_| agent.launch("echo up >&3; read end <&3; exit 9")).collect();
    let mut expected: Vec<_> = workers.iter().map(|worker| worker.exited(ExitStatus::Code(9))).collect();
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "up"));
    drop(workers);
    while !expected.is_empty() {
        let event = agent.event();
        let place = expected.iter().position(|other| *other == event);
        expected.swap_remove(place.unwrap_or_else(|| panic!("unexpected {event:?}")));
    }
    agent.expect_no_children();
}

fn a_burst_of_reports_waits_for_an_agent_that_does_not_read() {
    const REQUESTS: u64 = 20_000;
    let mut agent = Agent::start();
    // Without its control socket a launch fails; the reports do not fit into the socket.
    let launch = |launch| Launch {
        launch,
        program: "/bin/true".into(),
        arguments: vec![],
        environment: vec![],
        directory: "/".into(),
        variant: String::new(),
    };
    (0..REQUESTS).for_each(|number| agent.send(&Request::Launch(launch(number))));
    for number in 0..REQUESTS {
        let Event::Failed { launch, error } = agent.event() else { panic!("it has not failed") };
        assert_eq!(launch, number);
        assert!(error.contains("its control socket did not arrive"), "{error}");
    }
}

fn workers_get_their_grace_at_a_shutdown_and_no_more() {
    const GRACE: Duration = Duration::from_millis(300);
    let mut agent = Agent::start();
    let mut polite = agent.launch("trap 'exit 5' TERM; echo up >&3; while :; do read end <&3; done");
    let mut deaf = agent.launch("trap '' TERM; echo up >&3; while :; do read end <&3; done");
    assert_eq!((polite.line(), deaf.line()), ("up".into(), "up".into()));
    let begun = Instant::now();
    agent.send(&Request::Shutdown { grace_ms: GRACE.as_millis() as u64 });
    assert_eq!(agent.event(), polite.exited(ExitStatus::Code(5)));
    assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
    let late = agent.send_launch("/bin/true", &[], &[], "/", vec![socket::pair().unwrap().0]);
    let error = "cannot start `/bin/true`: the keeper of this host is ending".to_owned();
    assert_eq!(agent.event(), Event::Failed { launch: late, error });
    assert_eq!(agent.event(), deaf.exited(ExitStatus::Signal(libc::SIGKILL)));
    assert!(begun.elapsed() >= GRACE, "{:?}", begun.elapsed());
    assert!(agent.keeper.wait(DEADLINE));
}

fn a_closed_socket_ends_keeper_and_workers() {
    let mut agent = Agent::start();
    let mut worker = agent.launch("echo up >&3; exec sleep 600");
    assert_eq!(worker.line(), "up");
    drop(agent.socket);
    worker.expect_everybody_gone();
    assert!(agent.keeper.wait(DEADLINE));
    assert!(agent.keeper.wait(Duration::ZERO), "it stays ended");
    agent.keeper.kill();
}

fn a_terminated_keeper_ends_its_workers() {
    let mut agent = Agent::start();
    let mut worker = agent.launch("trap 'exit 6' TERM; echo up >&3; while :; do read end <&3; done");
    assert_eq!(worker.line(), "up");
    assert!(!agent.keeper.wait(Duration::ZERO));
    kill_process(agent.pid(), Signal::TERM).unwrap();
    assert_eq!(agent.event(), worker.exited(ExitStatus::Code(6)));
    assert!(agent.keeper.wait(DEADLINE));
}

fn a_killed_keeper_takes_its_workers_along() {
    let mut agent = Agent::start();
    let mut worker = agent.launch("trap '' TERM; echo up >&3; while :; do read end <&3; done");
    assert_eq!(worker.line(), "up");
    agent.keeper.kill();
    assert!(agent.keeper.wait(DEADLINE));
    worker.expect_everybody_gone();
}

fn the_end_of_a_keeper_is_seen_where_the_program_ignores_its_children() {
    let mut agent = Agent::start();
    // As a program that ignores SIGCHLD or reaps everything itself does: nothing is left to wait for.
    agent.keeper.kill();
    rustix::process::waitpid(Some(agent.pid()), rustix::process::WaitOptions::empty()).unwrap();
    assert!(agent.keeper.wait(DEADLINE));
    agent.keeper.kill();
}

fn a_killed_agent_takes_everything_along_within_two_seconds() {
    for socket_copy in [false, true] {
        let mut agent = AgentProcess::start(socket_copy);
        agent.child.kill().unwrap();
        let begun = Instant::now();
        // The keeper, the workers and what they started write to the same pipe.
        let mut rest = String::new();
        agent.output.read_to_string(&mut rest).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(rest, "bye\n", "a worker may clean up");
        agent.child.wait().unwrap();
        if let Some(holder) = agent.holder {
            kill_process(holder, Signal::KILL).expect("the copy of the socket lives until now");
        }
    }
}

/// What the agent that gets killed runs: one that obeys, one that ignores SIGTERM, one that is stopped, a daemon.
const ENDANGERED: [&str; 4] = [
    "trap 'echo bye; exit 0' TERM; echo up >&3; while :; do read end <&3; done",
    "trap '' TERM; sleep 600 & echo up >&3; while :; do read end <&3; done",
    "echo up >&3; kill -STOP $$",
    "(setsid sh -c 'trap \"\" TERM; echo up >&3; exec sleep 600' &) ; exec sleep 600",
];

/// The agent that gets killed: prints the process id of whoever holds a copy of its socket, or 0, when all are up.
fn be_agent() -> ! {
    let mut agent = Agent::start();
    let scripts = if ADOPTS { &ENDANGERED[..] } else { &ENDANGERED[..3] };
    let mut workers: Vec<_> = scripts.iter().map(|script| agent.launch(script)).collect();
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "up"));
    let mut holder = Command::new("sleep");
    holder.arg("600").stdin(agent.socket.try_clone().map(OwnedFd::from).unwrap()).stdout(Stdio::null());
    let copy = std::env::args().any(|argument| argument == "with-socket-copy");
    println!("{}", if copy { holder.stderr(Stdio::null()).spawn().unwrap().id() } else { 0 });
    loop {
        std::thread::park();
    }
}

/// Another process that has a keeper.
struct AgentProcess {
    child: Child,
    holder: Option<Pid>,
    output: BufReader<ChildStdout>,
}

impl AgentProcess {
    fn start(socket_copy: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("as-agent").args(socket_copy.then_some("with-socket-copy"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Self { child, holder: Pid::from_raw(line.trim().parse().unwrap()), output }
    }
}

/// This process as an agent.
struct Agent {
    keeper: KeeperProcess,
    socket: UnixStream,
    buffer: BytesMut,
    launches: u64,
}

impl Agent {
    fn start() -> Self {
        let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let command = KeeperCommand { program, arguments: vec!["as-keeper".into()], environment: vec![] };
        let (keeper, socket) = keeper::start(&command).unwrap();
        Self { keeper, socket: stream(socket), buffer: BytesMut::new(), launches: 0 }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.keeper.pid() as i32).unwrap()
    }

    /// Run a shell script as a worker.
    fn launch(&mut self, script: &str) -> Worker {
        let (ours, theirs) = socket::pair().unwrap();
        let path = std::env::var("PATH").unwrap();
        let launch = self.send_launch("/bin/sh", &["-c", script], &[("PATH", &path)], "/", vec![theirs]);
        let Event::Started { launch: started, pid } = self.event() else { panic!("not started: {script}") };
        assert_eq!(started, launch);
        Worker { launch, pid, control: stream(ours) }
    }

    fn send_launch(
        &mut self,
        program: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
        directory: &str,
        descriptors: Vec<OwnedFd>,
    ) -> u64 {
        self.launches += 1;
        let request = Request::Launch(Launch {
            launch: self.launches,
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: environment.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            directory: directory.into(),
            variant: String::new(),
        });
        let mut frame = Frame::new(Priority::Control, &request, vec![]).unwrap();
        frame.descriptors = descriptors.len() as u8;
        let head = frame.encode_head();
        let sent = socket::send(self.socket.as_fd(), &[IoSlice::new(&head)], &descriptors).unwrap();
        assert_eq!(sent, head.len());
        self.launches
    }

    fn send(&mut self, request: &Request) {
        let frame = Frame::new(Priority::Control, request, vec![]).unwrap();
        self.socket.write_all(&frame.encode_head()).unwrap();
    }

    fn event(&mut self) -> Event {
        let mut chunk = [0; 4096];
        loop {
            if let Decoded::Frame(frame) = decode(&mut self.buffer, &Limits::default()).unwrap() {
                return frame.decode_header().unwrap();
            }
            let count = self.socket.read(&mut chunk).expect("the keeper reports nothing");
            assert_ne!(count, 0, "the keeper is gone");
            self.buffer.extend_from_slice(&chunk[..count]);
        }
    }

    /// Everything is reaped, or about to be: what is adopted while it is killed has no event of its own.
    fn expect_no_children(&self) {
        let begun = Instant::now();
        while cfg!(target_os = "linux") {
            let children = children_of(self.pid());
            if children.is_empty() {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "the keeper still has {children:?}");
            std::thread::yield_now();
        }
    }
}

/// A launched process.
struct Worker {
    launch: u64,
    pid: i32,
    control: UnixStream,
}

impl Worker {
    fn exited(&self, status: ExitStatus) -> Event {
        Event::Exited { launch: self.launch, pid: self.pid, status }
    }

    /// What it writes to its control socket, up to the end of a line.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            assert_eq!(self.control.read(&mut byte).expect("the worker says nothing"), 1, "the worker is gone");
            line.extend_from_slice(&byte);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    fn ask(&mut self, word: &str) -> String {
        self.control.write_all(format!("{word}\n").as_bytes()).unwrap();
        self.line()
    }

    /// The control socket ends when its last holder does: the worker and all that it has started.
    fn expect_everybody_gone(&mut self) {
        let mut rest = Vec::new();
        match self.control.read_to_end(&mut rest) {
            // Reset: something that it was sent was not read.
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("somebody still holds the control socket: {error}"),
        }
    }
}

fn stream(socket: OwnedFd) -> UnixStream {
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn pipe() -> (std::fs::File, OwnedFd) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    socket::close_on_exec(&read).unwrap();
    (read.into(), write)
}

fn children_of(parent: Pid) -> Vec<String> {
    let parent = Pid::as_raw(Some(parent)).to_string();
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    stats.filter(|stat| stat.rsplit(") ").next().unwrap().split(' ').nth(1) == Some(&parent)).collect()
}
