//! `ClusterKey`: the secret that everybody of a cluster has.

use std::path::PathBuf;

use hyperactor::net::key;
use pyo3::prelude::*;

use crate::errors::to_python;

#[pyclass(frozen, module = "monarch._native")]
pub struct ClusterKey(key::ClusterKey);

impl ClusterKey {
    pub fn inner(&self) -> key::ClusterKey {
        self.0.clone()
    }
}

#[pymethods]
impl ClusterKey {
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Option<Self>> {
        Ok(key::ClusterKey::read(&path).map_err(to_python)?.map(Self))
    }

    #[staticmethod]
    fn create(path: PathBuf) -> PyResult<Self> {
        key::ClusterKey::create(&path).map(Self).map_err(to_python)
    }

    #[staticmethod]
    fn read_or_create(path: PathBuf) -> PyResult<Self> {
        key::ClusterKey::read_or_create(&path).map(Self).map_err(to_python)
    }

    #[staticmethod]
    fn read_descriptor(number: i32) -> PyResult<Self> {
        key::ClusterKey::read_descriptor(number).map(Self).map_err(to_python)
    }

    fn __repr__(&self) -> &'static str {
        "<ClusterKey>"
    }
}
