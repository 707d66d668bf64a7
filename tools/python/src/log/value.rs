//! Values of attributes.

use perfring_telemetry::names::AttributeName;
use perfring_telemetry::types::Class;
use perfring_telemetry::types::tagged::{Key, TaggedWriter};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};

/// A value of an attribute, of which no Python code runs any more.
pub(crate) enum Kept<'py> {
    None,
    Bool(bool),
    I64(i64),
    I128(i128),
    F64(f64),
    Text(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
    F64s(Vec<f64>),
    U64s(Vec<u64>),
}

impl<'py> Kept<'py> {
    /// Converts a value; one that is no number, text or bytes becomes its `str()`.
    pub(crate) fn of(value: Bound<'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Kept::None);
        }
        let value = match value.cast_into::<PyString>() {
            Ok(value) => return Ok(Kept::Text(value)),
            Err(other) => other.into_inner(),
        };
        if let Ok(value) = value.cast::<PyBool>() {
            return Ok(Kept::Bool(value.is_true()));
        }
        if let Ok(value) = value.cast::<PyInt>() {
            if let Ok(value) = value.extract() {
                return Ok(Kept::I64(value));
            }
            if let Ok(value) = value.extract() {
                return Ok(Kept::I128(value));
            }
        }
        if let Ok(value) = value.cast::<PyFloat>() {
            return Ok(Kept::F64(value.extract()?));
        }
        match value.cast_into::<PyBytes>() {
            Ok(value) => Ok(Kept::Bytes(value)),
            Err(other) => Ok(Kept::Text(other.into_inner().str()?)),
        }
    }

    /// Converts a field's value: a tuple is a list of numbers, of which all are floats or none is negative.
    pub(super) fn of_field(value: Bound<'py, PyAny>) -> PyResult<Self> {
        let Ok(numbers) = value.cast::<PyTuple>() else { return Kept::of(value) };
        match numbers.iter().all(|number| number.is_instance_of::<PyFloat>()) {
            true => Ok(Kept::F64s(value.extract()?)),
            false => Ok(Kept::U64s(value.extract()?)),
        }
    }

    /// Returns whether there is nothing to write for a field.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Kept::None => true,
            Kept::Text(text) => text.to_string_lossy().is_empty(),
            _ => false,
        }
    }

    pub(super) fn write(&self, key: Key<'_>, writer: &mut TaggedWriter<'_>) {
        match self {
            Kept::None => writer.none(key),
            Kept::Bool(value) => writer.bool(key, *value),
            Kept::I64(value) => writer.i64(key, *value),
            Kept::I128(value) => writer.i128(key, *value),
            Kept::F64(value) => writer.f64(key, *value),
            Kept::Text(value) => writer.text(key, &value.to_string_lossy()),
            Kept::Bytes(value) => writer.bytes(key, value.as_bytes()),
            Kept::F64s(values) => writer.f64s(key, values),
            Kept::U64s(values) => writer.u64s(key, values),
        }
    }
}

/// An attribute.
pub(super) struct Attribute<'py> {
    pub(super) name: Bound<'py, PyString>,
    pub(super) value: Kept<'py>,
}

impl<'py> Attribute<'py> {
    pub(super) fn of(name: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Attribute { name: name.str()?, value: Kept::of(value)? })
    }

    /// Returns all of a mapping.
    pub(super) fn all(of: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<Self>> {
        let mut all = Vec::new();
        // A list first: a value's `str()` may change the mapping.
        for (name, value) in of.map(|of| of.iter().collect::<Vec<_>>()).into_iter().flatten() {
            all.push(Attribute::of(&name, value)?);
        }
        Ok(all)
    }

    pub(super) fn write(&self, class: Class, writer: &mut TaggedWriter<'_>) {
        let name = self.name.to_string_lossy();
        self.value.write(Key::Name(AttributeName::new(class, &name).as_str()), writer);
    }
}
