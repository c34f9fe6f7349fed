//! `Targets`: whom to send to.

use std::sync::Arc;

use hyperactor::id::{ActorId, MeshId};
use hyperactor::memory::Part;
use hyperactor::{runtime, targets};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::death::Death;
use crate::errors::to_python;
use crate::payload::Destination;
use crate::replies::Replies;
use crate::runtime::Runtime;

#[pyclass(frozen, module = "monarch._native")]
pub struct Targets {
    runtime: Arc<runtime::Runtime>,
    inner: targets::Targets,
}

impl Targets {
    fn parts(
        &self,
        receivers: usize,
        descriptor: &Bound<'_, PyBytes>,
        payload: &Bound<'_, PyBytes>,
        buffers: Buffers<'_>,
    ) -> PyResult<Vec<Part>> {
        Destination::new(self.runtime.pool(), receivers).parts(descriptor, payload, buffers)
    }
}

type Buffers<'py> = Option<Vec<Bound<'py, PyAny>>>;

#[pymethods]
impl Targets {
    #[new]
    fn new(runtime: &Runtime, mesh: [u8; 16], ranks: Vec<u32>, actor: [u8; 16]) -> PyResult<Self> {
        let runtime = runtime.inner();
        runtime.check().map_err(to_python)?;
        let inner = targets::Targets::new(runtime.clone(), MeshId(mesh), ranks, ActorId(actor));
        Ok(Self { runtime, inner })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    #[pyo3(signature = (sender, descriptor, payload, buffers=None, *, fail_fast=true))]
    fn call(
        &self,
        sender: [u8; 16],
        descriptor: &Bound<'_, PyBytes>,
        payload: &Bound<'_, PyBytes>,
        buffers: Buffers<'_>,
        fail_fast: bool,
    ) -> PyResult<Replies> {
        let parts = self.parts(self.inner.len(), descriptor, payload, buffers)?;
        let replies = self.inner.call(ActorId(sender), &parts, fail_fast).map_err(to_python)?;
        Ok(Replies::new(self.runtime.clone(), replies))
    }

    #[pyo3(signature = (index, sender, descriptor, payload, buffers=None))]
    fn call_at(
        &self,
        index: usize,
        sender: [u8; 16],
        descriptor: &Bound<'_, PyBytes>,
        payload: &Bound<'_, PyBytes>,
        buffers: Buffers<'_>,
    ) -> PyResult<Replies> {
        let parts = self.parts(1, descriptor, payload, buffers)?;
        let replies = self.inner.call_at(index, ActorId(sender), &parts).map_err(to_python)?;
        Ok(Replies::new(self.runtime.clone(), replies))
    }

    #[pyo3(signature = (sender, descriptor, payload, buffers=None))]
    fn cast(
        &self,
        sender: [u8; 16],
        descriptor: &Bound<'_, PyBytes>,
        payload: &Bound<'_, PyBytes>,
        buffers: Buffers<'_>,
    ) -> PyResult<usize> {
        let parts = self.parts(self.inner.len(), descriptor, payload, buffers)?;
        self.inner.cast(ActorId(sender), &parts).map_err(to_python)
    }

    fn tell_successors(
        &self,
        sender: [u8; 16],
        descriptor: &Bound<'_, PyBytes>,
        payload: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let parts = self.parts(self.inner.len(), descriptor, payload, None)?;
        self.inner.tell_successors(ActorId(sender), &parts);
        Ok(())
    }

    fn deaths(&self) -> Vec<(usize, Death)> {
        self.inner.deaths().into_iter().map(|(index, death)| (index, (*death).clone().into())).collect()
    }
}
