//! Buffers that classes export through the buffer protocol.
//!
//! The exporter is an object that keeps the memory for as long as it is alive: also for users of
//! the protocol that release the buffer and keep only a reference to its owner, as
//! `numpy.ndarray(buffer=...)` does.

use crate::batch::{Batch, Span};
use crate::record::Record;
use crate::spaces::Space;
use pyo3::prelude::*;
use pyo3::{PyClass, ffi};
use std::ffi::c_int;

#[pymethods]
impl Space {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, len) = slf.get().window.export();
        // SAFETY: the caller's promise for `view`; the reservation stays open while the space is
        // there, and nobody else writes it.
        unsafe { fill(&slf, view, start, len, Access::Write, flags) }
    }
}

#[pymethods]
impl Record {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, len) = slf.get().export(slf.py())?;
        // SAFETY: the caller's promise for `view`; what was exported stays while the record does.
        unsafe { fill(&slf, view, start.cast_mut(), len, Access::Read, flags) }
    }
}

#[pymethods]
impl Batch {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().export()?;
        // SAFETY: the caller's promise for `view`; a batch's bytes stay while it does.
        unsafe { fill(&slf, view, bytes.as_ptr().cast_mut(), bytes.len(), Access::Read, flags) }
    }
}

#[pymethods]
impl Span {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().batch.get().data.bytes();
        // SAFETY: the caller's promise for `view`; the batch stays as long as this.
        unsafe { fill(&slf, view, bytes.as_ptr().cast_mut(), bytes.len(), Access::Read, flags) }
    }
}

enum Access {
    Read,
    Write,
}

/// # Safety
/// `view` is one that the interpreter gave to `__getbuffer__` of `owner`; `len` bytes at `start`
/// stay there while `owner` does, and may be written if `access` says so.
unsafe fn fill<T: PyClass>(
    owner: &Bound<'_, T>,
    view: *mut ffi::Py_buffer,
    start: *mut u8,
    len: usize,
    access: Access,
    flags: c_int,
) -> PyResult<()> {
    let read_only = c_int::from(matches!(access, Access::Read));
    // SAFETY: the promise of this function; it takes a reference to `owner`.
    let done = unsafe {
        ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start.cast(), len as isize, read_only, flags)
    };
    match done {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}
