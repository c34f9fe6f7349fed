//! The one place that maps errors of the core to Python's.

use hyperactor::error::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The Python exception for an error: by who is to blame, and a class that programs already catch.
pub fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Misuse(_) => PyValueError::new_err(text),
        Error::System { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        Error::Limit { .. } => PyOSError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
