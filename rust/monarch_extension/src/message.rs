//! `Message`: one received message.

use std::sync::Arc;

use hyperactor::message;
use hyperactor::wire::header::Kind;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::death::Death;
use crate::enter::refuse_in_forked_child;
use crate::payload::{self, Destination};

const CALL: u8 = 0;
const VALUE: u8 = 1;
const ERROR: u8 = 2;
const DEAD: u8 = 3;
const CANCEL: u8 = 4;
const DEATH: u8 = 5;

/// The numbers of the kinds of messages.
pub fn add_statuses(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("STATUS_CALL", CALL)?;
    module.add("STATUS_VALUE", VALUE)?;
    module.add("STATUS_ERROR", ERROR)?;
    module.add("STATUS_DEAD", DEAD)?;
    module.add("STATUS_CANCEL", CANCEL)?;
    module.add("STATUS_DEATH", DEATH)
}

/// The kind of an answer that Python gives.
pub fn answer_kind(status: u8) -> PyResult<Kind> {
    match status {
        VALUE => Ok(Kind::Value),
        ERROR => Ok(Kind::Error),
        other => Err(PyValueError::new_err(format!("an answer has no status {other}"))),
    }
}

#[pyclass(frozen, module = "monarch._native")]
pub struct Message(Arc<message::Message>);

impl From<message::Message> for Message {
    fn from(message: message::Message) -> Self {
        Self(Arc::new(message))
    }
}

impl From<Arc<message::Message>> for Message {
    fn from(message: Arc<message::Message>) -> Self {
        Self(message)
    }
}

fn taken() -> PyErr {
    PyRuntimeError::new_err("this message was unpickled before, and what it brought is gone")
}

#[pymethods]
impl Message {
    #[getter]
    fn status(&self) -> u8 {
        match self.0.kind {
            Kind::Call => CALL,
            Kind::Value => VALUE,
            Kind::Error => ERROR,
            Kind::Dead(_) => DEAD,
            // The runtime takes apart what is for many: none of it is delivered as it came.
            Kind::Cancel | Kind::Cast | Kind::Batch | Kind::Combined(_) => CANCEL,
            Kind::Death(_) => DEATH,
        }
    }

    #[getter]
    fn descriptor<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.descriptor)
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.payload)
    }

    fn take_buffers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let parts = self.0.take_buffers().ok_or_else(taken)?;
        parts.into_iter().map(|part| payload::received(py, part)).collect()
    }

    fn copy_buffers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyByteArray>>> {
        let copies = self.0.copy_buffers().ok_or_else(taken)?;
        Ok(copies.iter().map(|copy| PyByteArray::new(py, copy)).collect())
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.0.rank
    }

    #[getter]
    fn sender<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, u32, Bound<'py, PyBytes>) {
        let sender = self.0.sender;
        (PyBytes::new(py, &sender.proc.mesh.0), sender.proc.rank, PyBytes::new(py, &sender.actor.0))
    }

    #[getter]
    fn call_id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.call.map(|port| PyBytes::new(py, &port.to_bytes()))
    }

    #[getter]
    fn expects_reply(&self) -> bool {
        self.0.answer.is_some()
    }

    #[getter]
    fn death(&self) -> Option<Death> {
        match &self.0.kind {
            Kind::Dead(death) | Kind::Death(death) => Some((**death).clone().into()),
            _ => None,
        }
    }

    #[pyo3(signature = (status, payload, buffers=None))]
    fn reply(&self, status: u8, payload: &Bound<'_, PyBytes>, buffers: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<()> {
        if self.0.answer.is_none() {
            return Ok(());
        }
        refuse_in_forked_child()?;
        if status == DEAD {
            self.0.refuse();
            return Ok(());
        }
        let Some(runtime) = self.0.runtime() else { return Ok(()) };
        let descriptor = PyBytes::new(payload.py(), &[]);
        let parts = Destination::new(runtime.pool(), 1).parts(&descriptor, payload, buffers)?;
        self.0.answer(answer_kind(status)?, parts).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn hand_over_reply(&self) {
        self.0.hand_over_answer();
    }

    fn __repr__(&self) -> String {
        format!("<Message {} rank={} {} bytes>", self.status(), self.0.rank, self.0.payload.len())
    }
}
