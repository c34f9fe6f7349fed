//! What this build is, and identities.

use std::collections::BTreeMap;

use hyperactor::error::Error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::to_python;

/// The version of the package, as the build was told.
pub const VERSION: &str = match option_env!("MONARCH_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The accelerator that the build was made for; at run time the variable of the same name wins.
const GPU_PLATFORM: &str = match option_env!("MONARCH_GPU_PLATFORM") {
    Some(platform) => platform,
    None => "none",
};

#[pyfunction]
pub fn build_info() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("version", VERSION),
        ("gpu_platform", GPU_PLATFORM),
        ("tensor_engine", if cfg!(feature = "tensor-engine") { "1" } else { "0" }),
        ("platform", if cfg!(all(target_os = "linux", not(feature = "portable"))) { "linux" } else { "portable" }),
    ])
}

#[pyfunction]
pub fn new_id(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = hyperactor::id::random_bytes().map_err(|error| to_python(Error::Random(error)))?;
    Ok(PyBytes::new(py, &bytes))
}
