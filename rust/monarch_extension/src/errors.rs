//! The one place that maps errors of the core to Python's.

use hyperactor::error::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The Python exception for an error: by who is to blame, and a class that programs already catch.
pub fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::BackPressure { .. } => back_pressure(text),
        Error::Misuse(_) => PyValueError::new_err(text),
        Error::System { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        Error::Limit { .. } => PyOSError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// Its class is Python's, so that it has a name there.
fn back_pressure(text: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("monarch._actor.errors").and_then(|module| module.getattr("BackPressureError"));
        class.and_then(|class| class.call1((text,))).map_or_else(|error| error, PyErr::from_value)
    })
}
