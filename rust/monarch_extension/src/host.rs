//! `HostListener` and `HostSession`: the program of a host that clients attach.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hyperactor::agent;
use hyperactor::keeper::KeeperCommand;
use hyperactor::logs::RunPlace;
use hyperactor::net::address::{Address, Endpoint};
use hyperactor::net::dial::Gateway;
use hyperactor::net::handshake::Auth;
use hyperactor::net::listener::{Client, KeySource, Listener};
use hyperactor::park::Waited;
use hyperactor::wire::header::ProcCommand;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::enter;
use crate::errors::to_python;
use crate::info::VERSION;
use crate::key::ClusterKey;
use crate::runtime::{Command, keeper_of, proc_command};

#[pyclass(frozen, module = "monarch._native")]
pub struct HostListener(Listener);

/// A key, or the file that it will be in.
#[derive(FromPyObject)]
pub enum KeyOrPath<'py> {
    Key(PyRef<'py, ClusterKey>),
    Path(PathBuf),
}

#[pymethods]
impl HostListener {
    #[new]
    #[pyo3(signature = (address, key, insecure=false))]
    fn open(py: Python<'_>, address: &str, key: Option<KeyOrPath<'_>>, insecure: bool) -> PyResult<Self> {
        let endpoint: Endpoint = address.parse().map_err(to_python)?;
        let key = match key {
            Some(KeyOrPath::Key(key)) => KeySource::Known(key.inner()),
            Some(KeyOrPath::Path(path)) => KeySource::File(path),
            None => KeySource::None,
        };
        let listener = enter::detached(py, || Listener::open(&endpoint, key, insecure, VERSION)).map_err(to_python)?;
        Ok(Self(listener))
    }

    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    #[getter]
    fn open_to_strangers(&self) -> bool {
        self.0.is_open_to_strangers()
    }

    /// Wait for the next client; none if none came within `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<HostClient>> {
        let deadline = enter::deadline(timeout)?;
        loop {
            let left = deadline.map_or(SIGNAL_SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            let client = enter::detached(py, || self.0.next(left.min(SIGNAL_SLICE)));
            py.check_signals()?;
            match client {
                Some(client) => return Ok(Some(HostClient::new(client))),
                None if left.is_zero() => return Ok(None),
                None => {}
            }
        }
    }

    /// Begin to serve a client.
    #[pyo3(signature = (client, name, keeper, command, directory, keep))]
    #[allow(clippy::too_many_arguments)]
    fn serve(
        &self,
        py: Python<'_>,
        client: &HostClient,
        name: &str,
        keeper: (Vec<String>, Vec<(OsString, OsString)>),
        command: Command,
        directory: Option<PathBuf>,
        keep: usize,
    ) -> PyResult<HostSession> {
        let keeper: KeeperCommand = keeper_of(keeper.0, keeper.1)?;
        let command: ProcCommand = proc_command(command);
        let accepted =
            client.client.lock().take().ok_or_else(|| PyValueError::new_err("this client is served already"))?;
        let (run, suffix) = (client.run.clone(), format!("@{name}"));
        let place = directory.map(|directory| RunPlace { directory, run, keep, suffix });
        match enter::detached(py, || agent::HostSession::start(accepted, name, &keeper, command, place)) {
            Ok(session) => Ok(HostSession { session, ended: Mutex::new(None) }),
            Err(error) => {
                self.0.done();
                Err(to_python(error))
            }
        }
    }

    /// All that a client left is to end now; true if the host's program shall end too.
    fn end(&self, py: Python<'_>, session: &HostSession) -> bool {
        enter::detached(py, || {
            if session.session.exits() {
                // Before the client hears that the host is gone.
                self.0.close();
            }
            self.0.ending();
            let exits = *session.ended.lock().get_or_insert_with(|| session.session.end());
            if exits {
                // What is passed on through here ends in the same moment, and in order.
                self.0.finish_relays();
            }
            self.0.done();
            exits
        })
    }
}

#[pyfunction]
pub fn check_address(address: &str) -> PyResult<()> {
    address.parse::<Endpoint>().map(drop).map_err(to_python)
}

/// Connect to the host at `address`, see that it belongs to the cluster, and hang up.
#[pyfunction]
#[pyo3(signature = (address, key))]
pub fn knock(py: Python<'_>, address: &str, key: Option<PyRef<'_, ClusterKey>>) -> PyResult<()> {
    let gateway = gateway(address, key.as_deref())?;
    let reached = enter::detached(py, || gateway.enter(VERSION));
    reached.map(drop).map_err(|why| PyRuntimeError::new_err(why.reason))
}

/// The host at `address` as a gateway.
pub fn gateway(address: &str, key: Option<&ClusterKey>) -> PyResult<Gateway> {
    let endpoint: Endpoint = address.parse().map_err(to_python)?;
    let auth = auth_for(&endpoint.dial, key);
    Ok(Gateway { address: endpoint.dial, auth })
}

/// What has to be proven to a host at `address`: where it is a local socket the kernel says which user is there.
pub fn auth_for(address: &Address, key: Option<&ClusterKey>) -> Auth {
    match (key, address) {
        (Some(key), Address::Tcp(..)) => Auth::Key(key.inner()),
        _ => Auth::Open,
    }
}

/// How long a wait without the interpreter lasts before signals are looked for.
const SIGNAL_SLICE: Duration = Duration::from_millis(100);

/// A client that was let in.
#[pyclass(frozen, module = "monarch._native")]
pub struct HostClient {
    client: Mutex<Option<Client>>,
    #[pyo3(get)]
    name: String,
    run: String,
    #[pyo3(get)]
    settings: Vec<(String, String)>,
}

impl HostClient {
    fn new(client: Client) -> Self {
        let (name, run, settings) = (client.name.clone(), client.run.clone(), client.settings.clone());
        Self { client: Mutex::new(Some(client)), name, run, settings }
    }
}

#[pyclass(frozen, module = "monarch._native")]
pub struct HostSession {
    session: agent::HostSession,
    ended: Mutex<Option<bool>>,
}

#[pymethods]
impl HostSession {
    /// Wait until the client is gone or has released the host.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let deadline = enter::deadline(timeout)?;
        enter::wait(py, |interrupt| {
            let waited = self.session.wait(deadline, interrupt)?;
            let is_over = matches!(waited, Waited::Ready);
            Ok((waited, is_over))
        })
    }
}
