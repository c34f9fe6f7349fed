//! `Mailbox`: the queue of requests for one actor.

use std::sync::Arc;

use hyperactor::death::Cause;
use hyperactor::{mailbox, runtime};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::enter;
use crate::message::Message;
use crate::notifier::Notifier;

#[pyclass(frozen, module = "monarch._native")]
pub struct Mailbox {
    pub runtime: Arc<runtime::Runtime>,
    pub inner: Arc<mailbox::Mailbox>,
}

#[pymethods]
impl Mailbox {
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Message>> {
        if let Some(message) = self.inner.try_recv() {
            return Ok(Some(message.into()));
        }
        let deadline = enter::deadline(timeout)?;
        let message = enter::wait(py, |interrupt| self.inner.recv(deadline, interrupt))?;
        Ok(message.map(Message::from))
    }

    fn drain(&self) -> PyResult<Vec<Message>> {
        enter::refuse_in_forked_child()?;
        Ok(self.inner.drain().into_iter().map(Message::from).collect())
    }

    fn notify(&self, notifier: &Notifier, token: u64) -> PyResult<()> {
        enter::refuse_in_forked_child()?;
        self.inner.notify(notifier.inner(), token);
        Ok(())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.inner.is_closed()
    }

    #[pyo3(signature = (kind, reason, detail=Vec::new()))]
    fn close(&self, kind: &str, reason: String, detail: Vec<u8>) -> PyResult<()> {
        let stopped = match kind {
            "actor" => false,
            "stopped" => true,
            other => {
                return Err(PyValueError::new_err(format!("a mailbox closes as `actor` or `stopped`, not `{other}`")));
            }
        };
        self.inner.close(self.runtime.own_death(Cause::Actor { stopped, reason, detail }));
        Ok(())
    }
}
