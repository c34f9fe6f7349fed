//! `Runtime`: the runtime of this process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyperactor::error::Error;
use hyperactor::id::{ActorId, MeshId, PortId, ProcId};
use hyperactor::keeper::KeeperCommand;
use hyperactor::logs::{Console, LogChange, LogOptions, RunPlace};
use hyperactor::message::send_answer;
use hyperactor::runtime;
use hyperactor::wire::header::{Sender, SpawnProcs};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter::{detached, interruptible};
use crate::errors::to_python;
use crate::mailbox::Mailbox;
use crate::message::answer_kind;
use crate::payload::{parts, shared};
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
    ) -> PyResult<Self> {
        let mut words = keeper_command.into_iter();
        let program = words.next().ok_or_else(|| PyValueError::new_err("the keeper's command is empty"))?;
        let command = KeeperCommand { program, arguments: words.collect(), environment: keeper_environment };
        let runtime = detached(py, || runtime::Runtime::start_client(&command, host)).map_err(to_python)?;
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
    fn process_mailbox(&self) -> Mailbox {
        Mailbox { runtime: self.0.clone(), inner: self.0.process_mailbox() }
    }

    fn mailbox(&self, actor: [u8; 16]) -> Mailbox {
        Mailbox { runtime: self.0.clone(), inner: self.0.open_mailbox(ActorId(actor)) }
    }

    #[pyo3(signature = (mesh, name, count, owner, program, arguments, environment, directory, logs, variant, welcome))]
    // One argument for each thing that a process gets.
    #[allow(clippy::too_many_arguments)]
    fn spawn_procs(
        &self,
        mesh: [u8; 16],
        name: String,
        count: u32,
        owner: [u8; 16],
        program: OsString,
        arguments: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        directory: OsString,
        logs: (bool, bool, f64, u32),
        variant: String,
        welcome: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let spawn = SpawnProcs {
            mesh: MeshId(mesh),
            name,
            count,
            owner: Sender { proc: self.0.proc(), actor: ActorId(owner) },
            program,
            arguments,
            environment,
            directory,
            logs: log_options(logs)?,
            variant,
            welcome: shared(welcome)?,
        };
        detached(welcome.py(), || self.0.spawn_procs(spawn)).map_err(to_python)
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
    fn set_up_logs(&self, directory: Option<PathBuf>, run: String, keep: usize, stdout: bool, stderr: bool) {
        let place = directory.map(|directory| RunPlace { directory, run, keep });
        self.0.set_up_logs(place, Console::new(self.0.host(), stdout, stderr));
    }

    fn change_logs(&self, mesh: [u8; 16], shown: Option<bool>, window_s: f64) -> PyResult<()> {
        let change = LogChange { shown, window_ms: window_ms(window_s)? };
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
        let parts = parts(&PyBytes::new(payload.py(), &[]), payload, buffers)?;
        send_answer(&self.0, port, rank, answer_kind(status)?, &parts).map_err(|error| to_python(error.into()))
    }

    fn shutdown(&self, py: Python<'_>, grace_s: f64) -> PyResult<()> {
        let grace = grace(grace_s)?;
        interruptible(py, |interrupt| self.0.shutdown(grace, interrupt))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }
}

fn grace(grace_s: f64) -> PyResult<Duration> {
    seconds(grace_s, "a grace period")
}

fn seconds(value: f64, what: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{what} is a number of seconds from 0 on, not {value}")))
}

fn log_options((shown, ranks, window_s, tail_lines): (bool, bool, f64, u32)) -> PyResult<LogOptions> {
    Ok(LogOptions { shown, ranks, window_ms: window_ms(window_s)?, merge_numbers: false, tail_lines })
}

fn window_ms(window_s: f64) -> PyResult<u32> {
    Ok(seconds(window_s, "a window")?.as_millis().try_into().unwrap_or(u32::MAX))
}
