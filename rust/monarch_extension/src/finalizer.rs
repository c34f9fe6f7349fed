//! `Finalizer`: a `__del__` that runs no Python code where nothing is to be done.

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;

/// Python drops an exception that is raised while a `__del__` of its own runs, so a Ctrl-C that came then would be lost.
/// Futures that are done die with every call, and this looks at them without a frame that could be interrupted.
#[pyclass(module = "monarch._native", frozen)]
pub struct Finalizer {
    method: Py<PyAny>,
    waiting: u8,
}

#[pymethods]
impl Finalizer {
    #[new]
    fn new(py: Python<'_>, waiting: u8) -> PyResult<Self> {
        Ok(Self { method: py.import("types")?.getattr("MethodType")?.unbind(), waiting })
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: Bound<'py, PyAny>,
        _owner: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if instance.is_none() {
            return Ok(slf.clone().into_any());
        }
        slf.get().method.bind(slf.py()).call1((slf, instance))
    }

    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = future.py();
        match future.getattr(intern!(py, "_state")) {
            Ok(state) if state.extract::<u8>()? == self.waiting => {
                future.call_method0(intern!(py, "_end_unseen")).map(drop)
            }
            Ok(_) => Ok(()),
            // One that is half made.
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
