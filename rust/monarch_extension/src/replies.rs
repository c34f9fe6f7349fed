//! `Replies`: the answers to one call.

use std::sync::Arc;

use hyperactor::park::Waited;
use hyperactor::{replies, runtime, targets};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::enter;
use crate::errors::to_python;
use crate::message::Message;
use crate::notifier::Notifier;

#[pyclass(frozen, module = "monarch._native")]
pub struct Replies {
    /// None for an event that Python completes.
    runtime: Option<Arc<runtime::Runtime>>,
    inner: Arc<replies::Replies>,
}

impl Replies {
    pub fn new(runtime: Arc<runtime::Runtime>, inner: Arc<replies::Replies>) -> Self {
        Self { runtime: Some(runtime), inner }
    }

    /// Of something that a thread of ours completes.
    #[cfg(feature = "tensor-engine")]
    pub fn of_event(inner: Arc<replies::Replies>) -> Self {
        Self { runtime: None, inner }
    }
}

#[pymethods]
impl Replies {
    #[new]
    #[pyo3(signature = (expected=1))]
    fn event(expected: usize) -> Self {
        Self { runtime: None, inner: Arc::new(replies::Replies::event(expected)) }
    }

    #[getter]
    fn expected(&self) -> usize {
        self.inner.expected()
    }

    #[getter]
    fn arrived(&self) -> usize {
        self.inner.arrived()
    }

    fn message(&self, index: usize) -> PyResult<Message> {
        let message = self.inner.message(index);
        message.map(Message::from).ok_or_else(|| PyIndexError::new_err(format!("answer {index} has not arrived")))
    }

    fn ready(&self, count: usize) -> bool {
        self.inner.ready(count)
    }

    #[pyo3(signature = (count, timeout=None))]
    fn wait(&self, py: Python<'_>, count: usize, timeout: Option<f64>) -> PyResult<bool> {
        if self.inner.ready(count) {
            return Ok(true);
        }
        let deadline = enter::deadline(timeout)?;
        enter::wait(py, |interrupt| {
            let waited = self.inner.wait(count, deadline, interrupt)?;
            let is_ready = matches!(waited, Waited::Ready);
            Ok((waited, is_ready))
        })
    }

    fn notify(&self, count: usize, notifier: &Notifier, token: u64) -> PyResult<()> {
        enter::refuse_in_forked_child()?;
        self.inner.notify(count, notifier.inner(), token);
        Ok(())
    }

    fn hold_up(&self) {
        self.inner.hold_up();
    }

    #[staticmethod]
    fn let_go() {
        replies::Replies::let_go();
    }

    fn cancel(&self) -> PyResult<()> {
        enter::refuse_in_forked_child()?;
        match &self.runtime {
            Some(runtime) => targets::cancel(runtime, &self.inner).map_err(to_python),
            None => Ok(()),
        }
    }

    fn complete(&self) {
        self.inner.complete();
    }

    fn pending(&self) -> Vec<u32> {
        self.inner.pending().into_iter().map(|asked| asked.rank).collect()
    }
}
