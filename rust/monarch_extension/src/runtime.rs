//! `Runtime`: the runtime of this process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyperactor::agent::Attachment;
use hyperactor::error::Error;
use hyperactor::id::{ActorId, MeshId, PortId, ProcId};
use hyperactor::keeper::KeeperCommand;
use hyperactor::logs::{Console, LogChange, LogOptions, RunPlace};
use hyperactor::message::send_answer;
use hyperactor::net::address::{Address, Endpoint};
use hyperactor::net::dial::Gateway;
use hyperactor::runtime;
use hyperactor::stacks::{Stacks, Walk};
use hyperactor::sys::stdio::kept_open;
use hyperactor::wire::header::{ProcCommand, Sender, SpawnProcs};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::death::Death;
use crate::enter::{attached, detached, interruptible};
use crate::errors::to_python;
use crate::host::auth_for;
use crate::info::VERSION;
use crate::key::ClusterKey;
use crate::mailbox::Mailbox;
use crate::message::answer_kind;
use crate::payload::{Destination, shared};
use crate::replies::Replies;

#[pyclass(frozen, module = "monarch._native")]
pub struct Runtime(Arc<runtime::Runtime>);

impl Runtime {
    pub fn inner(&self) -> Arc<runtime::Runtime> {
        self.0.clone()
    }
}

#[pymethods]
impl Runtime {
    #[staticmethod]
    fn start_client(
        py: Python<'_>,
        keeper_command: Vec<String>,
        keeper_environment: Vec<(OsString, OsString)>,
        host: &str,
        command: Command,
    ) -> PyResult<Self> {
        let keeper = keeper_of(keeper_command, keeper_environment)?;
        let command = proc_command(command);
        let runtime = detached(py, || runtime::Runtime::start_client(&keeper, host, command)).map_err(to_python)?;
        Ok(Self(runtime))
    }

    #[staticmethod]
    fn start_worker(py: Python<'_>, control_fd: i32) -> PyResult<Self> {
        let control = hyperactor::sys::fork::adopt(control_fd).map_err(|error| {
            to_python(Error::system(format!("use descriptor {control_fd} as control socket"), error))
        })?;
        let runtime = detached(py, || runtime::Runtime::start_worker(control)).map_err(to_python)?;
        Ok(Self(runtime))
    }

    #[getter]
    fn mesh<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.proc().mesh.0)
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.0.proc().rank
    }

    #[getter]
    fn host(&self) -> &str {
        self.0.host()
    }

    #[getter]
    fn welcome<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.welcome())
    }

    #[getter]
    fn log_level(&self) -> Option<u8> {
        self.0.log_level()
    }

    #[getter]
    fn process_mailbox(&self) -> Mailbox {
        Mailbox { runtime: self.0.clone(), inner: self.0.process_mailbox() }
    }

    fn mailbox(&self, actor: [u8; 16]) -> Mailbox {
        Mailbox { runtime: self.0.clone(), inner: self.0.open_mailbox(ActorId(actor)) }
    }

    fn rule_out(&self, actor: [u8; 16], reason: String) {
        self.0.rule_out(ActorId(actor), reason);
    }

    #[pyo3(signature = (mesh, name, count, owner, commands, logs, variant, welcome, hosts))]
    // One argument for each thing that a process gets.
    #[allow(clippy::too_many_arguments)]
    fn spawn_procs(
        &self,
        mesh: [u8; 16],
        name: String,
        count: u32,
        owner: [u8; 16],
        commands: Vec<Command>,
        logs: (bool, bool, f64, u32),
        variant: String,
        welcome: &Bound<'_, PyBytes>,
        hosts: Vec<[u8; 16]>,
    ) -> PyResult<()> {
        let spawn = SpawnProcs {
            mesh: MeshId(mesh),
            name,
            first: 0,
            count,
            size: count,
            hosts: hosts.into_iter().map(MeshId).collect(),
            owner: Sender { proc: self.0.proc(), actor: ActorId(owner) },
            commands: commands.into_iter().map(proc_command).collect(),
            logs: log_options(logs)?,
            folder: String::new(),
            variant,
            welcome: shared(welcome)?,
        };
        detached(welcome.py(), || self.0.spawn_procs(spawn)).map_err(to_python)
    }

    // One argument for each thing that a host is told, or reached by.
    #[allow(clippy::too_many_arguments)]
    fn attach_hosts(
        &self,
        py: Python<'_>,
        hosts: Vec<([u8; 16], String)>,
        key: Option<&ClusterKey>,
        who: (String, String),
        settings: Vec<(String, String)>,
        patience_s: f64,
        gateway: Option<&str>,
    ) -> PyResult<Replies> {
        let patience = grace(patience_s)?;
        let gateway = gateway.map(|address| crate::host::gateway(address, key)).transpose()?;
        let attachment = |(host, address): ([u8; 16], String)| {
            let endpoint: Endpoint = address.parse().map_err(to_python)?;
            let auth = auth_for(&endpoint.dial, key);
            let is_beyond =
                |gateway: &Gateway| matches!(endpoint.dial, Address::Tcp(..)) && gateway.address != endpoint.dial;
            let gateway = gateway.clone().filter(is_beyond);
            let (version, (client, run), settings) = (VERSION.into(), who.clone(), settings.clone());
            Ok(Attachment { host: MeshId(host), endpoint, auth, version, client, run, settings, patience, gateway })
        };
        let attachments = hosts.into_iter().map(attachment).collect::<PyResult<Vec<_>>>()?;
        let replies = detached(py, || self.0.attach_hosts(attachments)).map_err(to_python)?;
        Ok(Replies::new(self.0.clone(), replies))
    }

    fn release_hosts(&self, py: Python<'_>, hosts: Vec<[u8; 16]>, exit: bool, grace_s: f64) -> PyResult<Replies> {
        let (hosts, grace): (Vec<MeshId>, _) = (hosts.into_iter().map(MeshId).collect(), grace(grace_s)?);
        let replies = detached(py, || self.0.release_hosts(&hosts, exit, grace)).map_err(to_python)?;
        Ok(Replies::new(self.0.clone(), replies))
    }

    fn forget_send_limits(&self) {
        self.0.forget_send_limits();
    }

    fn load_for_workers(&self, modules: Vec<String>) {
        self.0.load_for_workers(modules);
    }

    fn stop_procs(&self, mesh: [u8; 16], reason: String, grace_s: f64) -> PyResult<Replies> {
        let replies = self.0.stop_procs(MeshId(mesh), reason, grace(grace_s)?).map_err(to_python)?;
        Ok(Replies::new(self.0.clone(), replies))
    }

    #[pyo3(signature = (mesh, ranks=None))]
    fn respawn_procs(&self, mesh: [u8; 16], ranks: Option<Vec<u32>>) -> PyResult<Replies> {
        let replies = self.0.respawn_procs(MeshId(mesh), ranks).map_err(to_python)?;
        Ok(Replies::new(self.0.clone(), replies))
    }

    #[pyo3(signature = (directory, run, keep, stdout, stderr))]
    fn set_up_logs(
        &self,
        directory: Option<PathBuf>,
        run: String,
        keep: usize,
        stdout: Option<i32>,
        stderr: Option<i32>,
    ) {
        let place = directory.map(|directory| RunPlace { directory, run, keep, suffix: String::new() });
        let [stdout, stderr] = [stdout, stderr].map(|descriptor| descriptor.and_then(kept_open));
        self.0.set_up_logs(place, Console::new(self.0.host(), stdout, stderr));
    }

    fn change_logs(&self, mesh: [u8; 16], shown: Option<bool>, window_s: f64, level: u8) -> PyResult<()> {
        let change = LogChange { shown, window_ms: window_ms(window_s)?, level };
        self.0.change_logs(MeshId(mesh), change).map_err(to_python)
    }

    fn flush_logs(&self, py: Python<'_>, patience_s: f64) -> PyResult<bool> {
        let patience = seconds(patience_s, "a patience")?;
        Ok(detached(py, || self.0.flush_logs(patience)))
    }

    fn kill_for_stop(&self, mesh: [u8; 16], rank: u32, reason: String) -> PyResult<()> {
        self.0.kill_for_stop(ProcId::first(MeshId(mesh), rank), reason).map_err(to_python)
    }

    fn kill_proc(&self, mesh: [u8; 16], rank: u32, signal: i32) -> PyResult<()> {
        self.0.signal(ProcId::first(MeshId(mesh), rank), signal).map_err(to_python)
    }

    fn pids(&self, mesh: [u8; 16]) -> Vec<i32> {
        self.0.pids(MeshId(mesh))
    }

    fn tell_stacks(&self, ask: Py<PyAny>, signal: Option<i32>) -> PyResult<Option<i32>> {
        let walk = signal.map(Walk::new).transpose().map_err(|error| to_python(Error::system("make a file", error)))?;
        let descriptor = walk.as_ref().map(Walk::descriptor);
        let ask = move || attached(|py| ask.call0(py)?.extract::<String>(py)).map(String::into_bytes);
        self.0.tell_stacks(Stacks::new(ask, walk));
        Ok(descriptor)
    }

    fn messages_between_hosts(&self) -> (u64, u64) {
        self.0.messages_between_hosts()
    }

    fn backlog(&self) -> usize {
        self.0.backlog()
    }

    fn deaths(&self, mesh: [u8; 16], ranks: Vec<u32>) -> Vec<(u32, Death)> {
        self.0
            .deaths(MeshId(mesh), &ranks)
            .into_iter()
            .map(|(rank, death)| (rank, Death::from((*death).clone())))
            .collect()
    }

    #[pyo3(signature = (call_id, rank, status, payload, buffers=None))]
    fn reply_to(
        &self,
        call_id: &[u8],
        rank: u32,
        status: u8,
        payload: &Bound<'_, PyBytes>,
        buffers: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<()> {
        self.0.check().map_err(to_python)?;
        let port = PortId::from_bytes(call_id).ok_or_else(|| PyValueError::new_err("these bytes name no call"))?;
        let parts = Destination::new(self.0.pool(), 1).parts(&PyBytes::new(payload.py(), &[]), payload, buffers)?;
        send_answer(&self.0, port, rank, answer_kind(status)?, &parts).map_err(|error| to_python(error.into()))
    }

    fn shutdown(&self, py: Python<'_>, grace_s: f64) -> PyResult<()> {
        let grace = grace(grace_s)?;
        interruptible(py, |interrupt| self.0.shutdown(grace, interrupt))
    }

    #[getter]
    fn shared_memory(&self) -> (usize, usize) {
        self.0.pool().usage()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// Words before the program, program, arguments, environment (None removes a variable), whether the host's is
/// inherited, directory.
pub type Command = (Vec<OsString>, OsString, Vec<OsString>, Vec<(OsString, Option<OsString>)>, bool, OsString);

pub fn proc_command((prefix, program, arguments, environment, inherits, directory): Command) -> ProcCommand {
    ProcCommand { prefix, program, arguments, environment, inherits, directory }
}

pub fn keeper_of(words: Vec<String>, environment: Vec<(OsString, OsString)>) -> PyResult<KeeperCommand> {
    let mut words = words.into_iter();
    let program = words.next().ok_or_else(|| PyValueError::new_err("the keeper's command is empty"))?;
    Ok(KeeperCommand { program, arguments: words.collect(), environment })
}

fn grace(grace_s: f64) -> PyResult<Duration> {
    seconds(grace_s, "a grace period")
}

fn seconds(value: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{what} is a number of seconds from 0 on, not {value}")))
}

fn log_options((shown, ranks, window_s, tail_lines): (bool, bool, f64, u32)) -> PyResult<LogOptions> {
    Ok(LogOptions { shown, ranks, window_ms: window_ms(window_s)?, merge_numbers: false, tail_lines, level: None })
}

fn window_ms(window_s: f64) -> PyResult<u32> {
    Ok(seconds(window_s, "a window")?.as_millis().try_into().unwrap_or(u32::MAX))
}
