//! `Notifier`: wakes one Python thread or event loop.

use std::sync::Arc;

use hyperactor::error::Error;
use hyperactor::notifier;
use pyo3::prelude::*;

use crate::enter;
use crate::errors::to_python;

#[pyclass(frozen, module = "monarch._native")]
pub struct Notifier(Arc<notifier::Notifier>);

impl Notifier {
    pub fn inner(&self) -> Arc<notifier::Notifier> {
        self.0.clone()
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> PyResult<Self> {
        enter::refuse_in_forked_child()?;
        let notifier =
            notifier::Notifier::new().map_err(|error| to_python(Error::system("make a wake-up descriptor", error)))?;
        Ok(Self(Arc::new(notifier)))
    }

    fn fileno(&self) -> i32 {
        self.0.raw_fd()
    }

    fn drain(&self) -> PyResult<Vec<u64>> {
        enter::refuse_in_forked_child()?;
        Ok(self.0.drain())
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<u64>> {
        let deadline = enter::deadline(timeout)?;
        enter::wait(py, |interrupt| self.0.wait(deadline, interrupt))
    }

    fn push(&self, token: u64) -> PyResult<()> {
        enter::refuse_in_forked_child()?;
        self.0.push(token);
        Ok(())
    }
}
