//! Memory across the border: received memory that Python objects live in, and the memory of Python objects.
//!
//! With `recycled` and `rdma`, one of three files of this crate with `unsafe` code: the buffer protocol is pointers.

#![allow(unsafe_code)]

use std::os::raw::c_int;
use std::sync::Arc;

use hyperactor::memory::View;
use hyperactor::sys::memory::{copy, prefer_large_pages};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter::detached;
use crate::recycled;

/// Received memory, writable and its holder's own. It is given back when the last object in it dies.
#[pyclass(frozen, module = "monarch._native")]
pub struct Buffer(Arc<View>);

impl From<Arc<View>> for Buffer {
    fn from(view: Arc<View>) -> Self {
        Self(view)
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// Called by the interpreter alone, with a structure to fill.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, info: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let view = &slf.get().0;
        let length = isize::try_from(view.len()).map_err(|_| PyBufferError::new_err("the buffer is too long"))?;
        // SAFETY: the memory is writable as long as the view lives, which the reference that is noted in the structure
        // keeps alive, and the structure is the interpreter's.
        match unsafe { ffi::PyBuffer_FillInfo(info, slf.as_ptr(), view.as_ptr().cast(), length, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// The memory of a Python object, held as long as this lives.
pub struct Memory(PyUntypedBuffer);

impl Memory {
    /// None for an object that offers no memory in one piece.
    pub fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        let buffer = PyUntypedBuffer::get(object).ok()?;
        let is_whole = buffer.is_c_contiguous() || buffer.is_fortran_contiguous();
        is_whole.then_some(Self(buffer))
    }

    #[cfg(feature = "tensor-engine")]
    pub fn is_read_only(&self) -> bool {
        self.0.readonly()
    }

    pub fn bytes(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the memory is in one piece and stays as long as the export lives. A program that writes to an array
        // in one thread while another sends it gets some mixture of the bytes, as with any copy that it makes of it.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// The content of a buffer as a `bytes` object.
#[pyfunction]
pub fn bytes_of<'py>(buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(received) = buffer.cast_exact::<Buffer>() {
        let view = &received.get().0;
        // SAFETY: readable as long as the view lives, which the object keeps; nobody writes to what `bytes` come in.
        let sent = unsafe { std::slice::from_raw_parts(view.sent_ptr(), view.len()) };
        return filled_with(buffer.py(), sent);
    }
    let Some(memory) = Memory::of(buffer) else {
        return Err(PyBufferError::new_err("this object offers no memory in one piece"));
    };
    filled_with(buffer.py(), memory.bytes())
}

fn filled_with<'py>(py: Python<'py>, source: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if source.len() < recycled::LEAST_BYTES {
        return Ok(PyBytes::new(py, source));
    }
    let (object, is_warm) = match recycled::take(py, source.len()) {
        Some(object) => (object, true),
        None => (unfilled(py, source.len())?, false),
    };
    // SAFETY: the object is alive, and is of this type.
    let target = unsafe { ffi::PyBytes_AsString(object.as_ptr()) } as usize;
    detached(py, || {
        let target = target as *mut u8;
        // SAFETY: both are as long as the source, and nobody else has the object yet.
        unsafe {
            if is_warm {
                std::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len());
            } else {
                prefer_large_pages(target, source.len());
                copy(source, target);
            }
        }
    });
    recycled::remember(&object);
    if !is_warm && source.len() >= COMPANION_BYTES {
        recycled::prepare(&unfilled(py, source.len())?);
    }
    Ok(object)
}

/// A new object with room for `length` bytes, which have to be filled before anybody else sees it.
fn unfilled(py: Python<'_>, length: usize) -> PyResult<Bound<'_, PyBytes>> {
    let length = isize::try_from(length).map_err(|_| PyBufferError::new_err("the buffer is too long"))?;
    // SAFETY: without a source the object has room for `length` bytes.
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), length);
        Ok(Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>())
    }
}

/// From so many bytes on a second object is made while nobody waits for it.
const COMPANION_BYTES: usize = 4 << 20;
