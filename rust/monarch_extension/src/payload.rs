//! Bytes of Python objects on their way into messages.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};

/// Below this many bytes a copy costs less than keeping the Python object alive until the message has left.
const SHARE_FROM_BYTES: usize = 4 << 10;

/// The bytes of a `bytes` object, shared with it where they are many.
pub fn shared(object: &Bound<'_, PyBytes>) -> PyResult<Bytes> {
    let bytes = object.as_bytes();
    if bytes.len() < SHARE_FROM_BYTES {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    Ok(Bytes::from_owner(PyBackedBytes::from(object.clone())))
}

/// A message's parts: descriptor, payload, and a snapshot of each buffer.
pub fn parts(
    descriptor: &Bound<'_, PyBytes>,
    payload: &Bound<'_, PyBytes>,
    buffers: Option<Vec<Bound<'_, PyAny>>>,
) -> PyResult<Vec<Bytes>> {
    let mut parts = vec![shared(descriptor)?, shared(payload)?];
    for buffer in buffers.into_iter().flatten() {
        parts.push(snapshot(&buffer)?);
    }
    Ok(parts)
}

/// A copy of what an object that offers its memory holds now.
fn snapshot(buffer: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let copy = PyMemoryView::from(buffer)?.call_method0("tobytes")?;
    shared(copy.cast::<PyBytes>()?)
}
