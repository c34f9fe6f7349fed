//! `Targets`: whom to send to.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use hyperactor::flow::Limits;
use hyperactor::id::{ActorId, MeshId};
use hyperactor::memory::Part;
use hyperactor::park::Waited;
use hyperactor::{runtime, targets};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::death::Death;
use crate::enter;
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

    /// Wait until those may be sent a message, unless this thread never waits.
    fn make_room(&self, py: Python<'_>, indices: Range<usize>, parts: &[Part]) -> PyResult<()> {
        if self.inner.have_room(indices.clone(), parts) || NEVER_WAITS.get() {
            return Ok(());
        }
        // Read only now, so that whoever sends little never loads the settings.
        let read = |key: &str| py.import("monarch._actor.settings")?.call_method1("value", (key,))?.extract::<u64>();
        self.runtime.set_send_limits(Limits::new(read("send_window_bytes")?, read("send_hard_limit_bytes")?));
        if self.inner.have_room(indices.clone(), parts) {
            return Ok(());
        }
        enter::wait(py, |interrupt| match self.inner.wait_for_room(indices, parts, interrupt) {
            Ok(waited) => Ok((waited, Ok(()))),
            Err(error) => Ok((Waited::Ready, Err(error))),
        })?
        .map_err(to_python)
    }
}

thread_local! {
    static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// From now on the calling thread sends without waiting for room: others wait for what it does.
#[pyfunction]
pub fn never_wait_for_room() {
    NEVER_WAITS.set(true);
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
        self.make_room(payload.py(), 0..self.inner.len(), &parts)?;
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
        self.make_room(payload.py(), index..index.saturating_add(1), &parts)?;
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
        self.make_room(payload.py(), 0..self.inner.len(), &parts)?;
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
