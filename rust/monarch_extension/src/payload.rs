//! Bytes of Python objects on their way into messages and out of them.

use std::sync::Arc;

use bytes::Bytes;
use hyperactor::memory::pool::{Receivers, SLOT_FROM_BYTES};
use hyperactor::memory::{Part, Pool};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::buffer::{Buffer, Memory};
use crate::enter::detached;

/// Below this many bytes a copy costs less than keeping the Python object alive until the message has left.
const SHARE_FROM_BYTES: usize = 4 << 10;

/// From so many bytes on other threads may run while a buffer is copied.
const DETACH_FROM_BYTES: usize = 1 << 20;

/// The bytes of a `bytes` object, shared with it where they are many.
pub fn shared(object: &Bound<'_, PyBytes>) -> PyResult<Bytes> {
    let bytes = object.as_bytes();
    if bytes.len() < SHARE_FROM_BYTES {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    Ok(Bytes::from_owner(PyBackedBytes::from(object.clone())))
}

/// Where the parts of a message go.
pub struct Destination<'a> {
    pub pool: &'a Arc<Pool>,
    pub receivers: Receivers,
}

impl<'a> Destination<'a> {
    pub fn new(pool: &'a Arc<Pool>, receivers: usize) -> Self {
        Self { pool, receivers: if receivers > 1 { Receivers::Many } else { Receivers::One } }
    }

    /// A message's parts: descriptor, payload, and a snapshot of each buffer.
    pub fn parts(
        &self,
        descriptor: &Bound<'_, PyBytes>,
        payload: &Bound<'_, PyBytes>,
        buffers: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<Vec<Part>> {
        let mut parts = vec![shared(descriptor)?.into(), shared(payload)?.into()];
        for buffer in buffers.into_iter().flatten() {
            parts.push(self.snapshot(&buffer)?);
        }
        Ok(parts)
    }

    /// What an object that offers its memory holds now.
    fn snapshot(&self, object: &Bound<'_, PyAny>) -> PyResult<Part> {
        if let Some(memory) = Memory::of(object)
            && memory.bytes().len() >= SLOT_FROM_BYTES
            && let Some(slot) = self.fill(object, memory.bytes())
        {
            return Ok(slot);
        }
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(shared(bytes)?.into());
        }
        let copy = PyMemoryView::from(object)?.call_method0("tobytes")?;
        Ok(shared(copy.cast::<PyBytes>()?)?.into())
    }

    fn fill(&self, object: &Bound<'_, PyAny>, bytes: &[u8]) -> Option<Part> {
        // Receivers cannot make such an object in shared memory.
        let is_copied = object.is_exact_instance_of::<PyBytes>() || object.is_exact_instance_of::<PyByteArray>();
        let fill = || match is_copied {
            true => self.pool.fill_briefly(bytes, self.receivers),
            false => self.pool.fill(bytes, self.receivers),
        };
        let slot = if bytes.len() < DETACH_FROM_BYTES { fill() } else { detached(object.py(), fill) };
        slot.map(Part::Slot)
    }
}

/// An object that offers the memory of a received buffer, which is the caller's alone.
pub fn received(py: Python<'_>, part: Part) -> PyResult<Bound<'_, PyAny>> {
    match part {
        Part::View(view) => Ok(Bound::new(py, Buffer::from(view))?.into_any()),
        other => Ok(PyByteArray::new(py, &other.to_bytes()).into_any()),
    }
}
