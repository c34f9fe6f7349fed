//! One-sided memory: what is registered, its handles, and transfers.
//!
//! With `buffer` and `recycled`, the files of this crate with `unsafe` code: transfers are given addresses.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use hyperactor::replies;
use monarch_rdma::{BufferHandle, CAN_COPY, Copy, RdmaError, Region, Registration, Rights, Transfer, drop_remotely};
use parking_lot::Mutex;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::Memory;
use crate::enter::{deadline, detached, refuse_in_forked_child};
use crate::replies::Replies;

/// How long memory is kept from its owner by a process that is stopped in the middle of a copy, before it is for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// Memory of a Python object, which stays where it is as long as this lives.
#[pyclass(frozen, module = "monarch._native")]
pub struct RdmaMemory {
    address: u64,
    #[pyo3(get)]
    size: u64,
    #[pyo3(get)]
    read_only: bool,
    _held: Held,
}

#[expect(dead_code, reason = "it is held, never looked at")]
enum Held {
    Export(Memory),
    Object(Py<PyAny>),
}

#[pymethods]
impl RdmaMemory {
    #[staticmethod]
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(memory) = Memory::of(object) else {
            return Err(PyBufferError::new_err("this object offers no memory in one piece"));
        };
        let (address, size) = (memory.bytes().as_ptr() as u64, memory.bytes().len() as u64);
        Ok(Self { address, size, read_only: memory.is_read_only(), _held: Held::Export(memory) })
    }

    #[staticmethod]
    fn at(address: u64, size: u64, holder: Py<PyAny>) -> Self {
        Self { address, size, read_only: false, _held: Held::Object(holder) }
    }
}

/// Names registered memory.
#[pyclass(frozen, module = "monarch._native")]
pub struct RdmaHandle(Arc<BufferHandle>);

#[pymethods]
impl RdmaHandle {
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let handle = BufferHandle::from_bytes(bytes).ok_or_else(|| PyValueError::new_err("these are not a handle"))?;
        Ok(Self(Arc::new(handle)))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[getter]
    fn owner(&self) -> &str {
        &self.0.owner
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size_bytes
    }

    #[getter]
    fn read_only(&self) -> bool {
        !self.0.rights.can_write()
    }

    #[getter]
    fn same_host(&self) -> bool {
        CAN_COPY && self.0.place.is_on_this_host()
    }

    fn names(&self, registration: &RdmaRegistration) -> bool {
        let held = registration.held.lock();
        held.as_ref().is_some_and(|(registration, _)| {
            let handle = registration.handle();
            (handle.place, handle.registration) == (self.0.place, self.0.registration)
        })
    }

    fn drop_remotely(&self) -> Option<(&'static str, String)> {
        drop_remotely(&self.0).err().map(|error| told(&error))
    }
}

/// Memory of this process that others may use. It is released with this.
#[pyclass(frozen, module = "monarch._native")]
pub struct RdmaRegistration {
    held: Mutex<Option<(Registration, Py<RdmaMemory>)>>,
}

#[pymethods]
impl RdmaRegistration {
    #[new]
    fn new(owner: String, memory: Py<RdmaMemory>, read_only: bool) -> PyResult<Self> {
        let rights = if read_only || memory.get().read_only { Rights::Read } else { Rights::ReadWrite };
        let registered = Region::new(memory.get().address, memory.get().size)
            .and_then(|region| Registration::new(owner, region, rights))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { held: Mutex::new(Some((registered, memory))) })
    }

    fn handle(&self, read_only: bool) -> Option<RdmaHandle> {
        let held = self.held.lock();
        let handle = |registered: &Registration| {
            if read_only { registered.read_only_handle() } else { registered.handle() }
        };
        held.as_ref().map(|(registered, _)| RdmaHandle(Arc::new(handle(registered))))
    }

    #[getter]
    fn live(&self) -> bool {
        self.held.lock().as_ref().is_some_and(|(registered, _)| registered.is_live())
    }

    fn release(&self, py: Python<'_>) {
        let held = self.held.lock().take();
        if let Some((registered, memory)) = held
            && !detached(py, || registered.release(PATIENCE))
        {
            // Whoever is stopped in the middle goes on some day.
            std::mem::forget(memory);
        }
    }
}

impl Drop for RdmaRegistration {
    fn drop(&mut self) {
        Python::attach(|py| self.release(py));
    }
}

/// Copies that are on their way. Its end waits for theirs, for they use memory that it holds.
#[pyclass(frozen, module = "monarch._native")]
pub struct RdmaTransfer {
    transfer: Arc<Transfer>,
    over: Arc<replies::Replies>,
    _memory: Vec<Py<RdmaMemory>>,
}

/// A handle, where in its buffer, memory here, how much of it, and whether it goes into the buffer.
type Asked = (Py<RdmaHandle>, u64, Py<RdmaMemory>, u64, bool);

#[pymethods]
impl RdmaTransfer {
    #[new]
    fn start(py: Python<'_>, asked: Vec<Asked>, timeout: f64, threads: usize) -> PyResult<Self> {
        refuse_in_forked_child()?;
        let deadline = deadline(Some(timeout))?;
        let mut copies = Vec::with_capacity(asked.len());
        let mut memory = Vec::with_capacity(asked.len());
        for (handle, offset_bytes, here, size_bytes, writes) in asked {
            if size_bytes > here.get().size || (here.get().read_only && !writes) {
                return Err(PyValueError::new_err("memory that is too short, or read-only"));
            }
            let (handle, address) = (handle.get().0.clone(), here.get().address);
            copies.push(Copy { handle, offset_bytes, address, size_bytes, writes });
            memory.push(here);
        }
        let over = Arc::new(replies::Replies::event(1));
        let told = over.clone();
        // SAFETY: the memory is held by the value that is made here, whose end waits.
        let start = || unsafe { Transfer::start(copies, deadline, threads, move || told.complete()) };
        Ok(Self { transfer: detached(py, start), over, _memory: memory })
    }

    fn replies(&self) -> Replies {
        Replies::of_event(self.over.clone())
    }

    fn cancel(&self) {
        self.transfer.cancel();
    }

    fn errors(&self) -> Vec<(usize, (&'static str, String))> {
        self.transfer.errors(told)
    }
}

impl Drop for RdmaTransfer {
    fn drop(&mut self) {
        if !self.over.ready(1) {
            Python::attach(|py| detached(py, || self.over.wait::<()>(1, None, None).map(drop).unwrap_or(())));
        }
    }
}

#[pyfunction]
pub fn rdma_drops_of_others() -> u64 {
    monarch_rdma::drops_of_others()
}

/// The kind of an error, for its class in Python, and its text.
fn told(error: &RdmaError) -> (&'static str, String) {
    let kind = match error {
        RdmaError::TimedOut { .. } => "timeout",
        RdmaError::PeerLost { .. } => "lost",
        RdmaError::Gone { .. } => "gone",
        RdmaError::ReadOnly { .. } => "read_only",
        RdmaError::OutOfRange { .. } | RdmaError::InvalidRegion { .. } => "range",
        RdmaError::NoBackend { .. } => "no_backend",
        _ => "other",
    };
    (kind, error.to_string())
}
