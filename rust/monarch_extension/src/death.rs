//! `Death`: why a process or an actor cannot answer.

use hyperactor::agent::KILL;
use hyperactor::death::{self, Cause};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyclass(frozen, module = "monarch._native")]
pub struct Death(death::Death);

impl From<death::Death> for Death {
    fn from(death: death::Death) -> Self {
        Self(death)
    }
}

impl Death {
    pub fn inner(&self) -> &death::Death {
        &self.0
    }
}

#[pymethods]
impl Death {
    #[getter]
    fn mesh<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.proc.mesh.0)
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.0.proc.rank
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn host(&self) -> &str {
        &self.0.host
    }

    #[getter]
    fn pid(&self) -> i32 {
        self.0.pid
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.0.cause.kind()
    }

    #[getter]
    fn exit_code(&self) -> Option<i32> {
        match self.0.cause {
            Cause::Exit(code) => Some(code),
            _ => None,
        }
    }

    #[getter]
    fn signal(&self) -> Option<i32> {
        match self.0.cause {
            Cause::Signal(signal) => Some(signal),
            Cause::KilledForStop(_) => Some(KILL),
            _ => None,
        }
    }

    #[getter]
    fn why(&self) -> &str {
        self.0.why()
    }

    #[getter]
    fn reason(&self) -> String {
        self.0.reason()
    }

    #[getter]
    fn fell(&self) -> Vec<String> {
        self.0.fell.clone()
    }

    #[getter]
    fn detail<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match &self.0.cause {
            Cause::Actor { detail, .. } => PyBytes::new(py, detail),
            _ => PyBytes::new(py, &[]),
        }
    }

    #[getter]
    fn tail(&self) -> Option<(Vec<String>, &str)> {
        self.0.tail.as_ref().map(|tail| (tail.lines.clone(), tail.file.as_str()))
    }

    fn __repr__(&self) -> String {
        format!("<Death: {}>", self.0.reason())
    }
}
