//! The main functions of keepers and templates, and `Birth`, which makes a copy of one something else.

use std::ffi::OsString;

use hyperactor::keeper::{self, End, Template};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::enter::{attached, detached, fork};

/// What a copy of a keeper or of a template has to become.
#[pyclass(frozen, module = "monarch._native")]
pub struct Birth {
    inner: keeper::Birth,
    is_template: bool,
}

#[pymethods]
impl Birth {
    #[getter]
    fn is_template(&self) -> bool {
        self.is_template
    }

    #[getter]
    fn variant(&self) -> &str {
        &self.inner.variant
    }

    #[getter]
    fn environment(&self) -> Vec<(OsString, OsString)> {
        self.inner.environment.clone()
    }
}

/// The whole life of a keeper process.
#[pyfunction]
#[pyo3(signature = (
    socket_fd, program=None, arguments=vec![], fixed=vec![], fixed_in_variants=vec![], objection=None, load=None,
))]
// One argument for each thing that makes a template.
#[allow(clippy::too_many_arguments)]
pub fn run_keeper(
    py: Python<'_>,
    socket_fd: i32,
    program: Option<OsString>,
    arguments: Vec<OsString>,
    fixed: Vec<String>,
    fixed_in_variants: Vec<String>,
    objection: Option<String>,
    load: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let load = move |modules: &[String]| {
        if let Some(load) = &load {
            attached(|py| load.call1(py, (modules,)));
        }
    };
    let template = program.map(|program| Template {
        program,
        arguments,
        fixed,
        fixed_in_variants,
        objection,
        fork: Box::new(fork),
        load: Box::new(load),
    });
    to_object(py, detached(py, || keeper::run(socket_fd, template)))
}

/// End this process as C programs end. The interpreter lock is kept, so no other thread runs Python code meanwhile.
#[pyfunction]
pub fn exit_process(status: i32) {
    std::process::exit(status);
}

/// The rest of the life of a template that has loaded its variant.
#[pyfunction]
pub fn run_template(py: Python<'_>, socket_fd: i32, variant: &str, objection: Option<String>) -> PyResult<Py<PyAny>> {
    to_object(py, detached(py, || keeper::serve_variant(socket_fd, variant, objection, &mut fork)))
}

fn to_object(py: Python<'_>, end: End) -> PyResult<Py<PyAny>> {
    match end {
        End::Exit(status) => status.into_py_any(py),
        End::Template(inner) => Birth { inner, is_template: true }.into_py_any(py),
        End::Worker(inner) => Birth { inner, is_template: false }.into_py_any(py),
    }
}
