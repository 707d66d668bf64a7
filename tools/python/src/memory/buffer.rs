//! Buffers that Python passes through the buffer protocol.

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Calls `f` with the bytes of an object with the buffer protocol, and the number of items of its
/// first dimension (1 if it has none).
pub(crate) fn with_buffer<R>(
    given: &Bound<'_, PyAny>,
    f: impl FnOnce(&[u8], usize) -> PyResult<R>,
) -> PyResult<R> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return f(bytes, bytes.len());
    }
    refuse_objects(given)?;
    let buffer = Buffer::get(given)?;
    let (bytes, items) = buffer.bytes();
    f(bytes, items)
}

/// Refuses arrays of objects, whose pointers mean nothing in another process.
fn refuse_objects(given: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = given.py();
    if let Some(dtype) = given.getattr_opt(pyo3::intern!(py, "dtype"))?
        && let Some(objects) = dtype.getattr_opt(pyo3::intern!(py, "hasobject"))?
        && objects.is_truthy()?
    {
        return Err(PyTypeError::new_err(
            "an array of Python objects holds pointers, which no reader can use: give it a dtype of \
             numbers or bytes",
        ));
    }
    Ok(())
}

/// The contiguous bytes of an object, until the buffer is released.
struct Buffer {
    view: Box<ffi::Py_buffer>,
}

impl Buffer {
    fn get(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the interpreter is attached, and fills `view` or leaves it; its place in memory
        // stays, as some exporters ask.
        let got = unsafe { ffi::PyObject_GetBuffer(given.as_ptr(), &mut *view, ffi::PyBUF_ND) };
        if got != 0 {
            let error = PyErr::fetch(given.py());
            if error.is_instance_of::<PyBufferError>(given.py()) {
                return Err(PyBufferError::new_err(format!(
                    "{}: give a contiguous buffer, such as numpy.ascontiguousarray makes",
                    error.value(given.py())
                )));
            }
            return Err(error);
        }
        Ok(Buffer { view })
    }

    /// Returns the bytes, and the number of items of the first dimension: 1 if it has none.
    fn bytes(&self) -> (&[u8], usize) {
        let view = &*self.view;
        let len = view.len.max(0) as usize;
        let bytes = if len == 0 || view.buf.is_null() {
            &[]
        } else {
            // SAFETY: the exporter keeps so many bytes there until the buffer is given back, which
            // is when `self` is dropped. Asked for without strides, they are contiguous. Python
            // code that writes them at this moment, in a thread of its own without the
            // interpreter's lock, races with this read as it does with any other reader of that
            // object; what is done with the bytes is to copy them.
            unsafe { std::slice::from_raw_parts(view.buf.cast::<u8>(), len) }
        };
        let items = if view.ndim < 1 || view.shape.is_null() {
            1
        } else {
            // SAFETY: the array has `ndim` numbers, and `ndim` is at least one.
            unsafe { *view.shape }.max(0) as usize
        };
        (bytes, items)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `view` was filled by `PyObject_GetBuffer`; this lives only in a call from Python,
        // which has the interpreter, and what is done inside gives that away for a while at most.
        unsafe { ffi::PyBuffer_Release(&mut *self.view) };
    }
}
