//! Record types: those of a ring's type table, and those that a program describes.

use crate::errors::bad_type;
use crate::kind::Kind;
use perfring_producer::RecordType as Id;
use perfring_types::read::{Type, TypeTable as Table, Value};
use perfring_types::{Encoding, Entry, Schema};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyMemoryView, PyString, PyTuple};
use schema::with_schema;
use std::sync::Arc;

mod schema;

/// A record's type, from a ring's type table or from `record` or `record_type`.
///
/// ``decode(payload)`` returns a payload's values, ``dtype`` is its layout. Two types are equal if
/// their number, layout and text are.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct RecordType {
    table: Arc<Table>,
    pub(crate) id: Id,
    dtype: PyOnceLock<Py<PyAny>>,
}

impl RecordType {
    /// Returns the type of this number, if the table has it.
    pub(crate) fn find(table: &Arc<Table>, id: Id) -> Option<Self> {
        table.get(id)?;
        Some(RecordType { table: table.clone(), id, dtype: PyOnceLock::new() })
    }

    /// Returns the type that a schema describes, in no ring's table.
    pub(crate) fn described(py: Python<'_>, schema: &Schema<'_>) -> PyResult<Self> {
        let table = Arc::new(Table::from_words(&schema.to_entry()));
        match (Self::find(&table, schema.id), table.damage().first()) {
            (Some(found), _) => Ok(found),
            (None, Some(damage)) => Err(bad_type(py, damage.to_string())),
            (None, None) => Err(bad_type(py, "the type's text is too long for a type table")),
        }
    }

    /// Returns its entry in a type table.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.table.entries().find(|entry| entry.id == self.id)
    }

    /// Returns the bytes of its payload, if they are the same for every record.
    pub(crate) fn fixed_size(&self) -> Option<u32> {
        let kind = self.table.get(self.id)?;
        (kind.encoding.known() == Some(Encoding::Pod)).then_some(kind.size)
    }

    fn kind(&self) -> PyResult<&Type> {
        // It existed when `self` was made, and a table in an `Arc` does not change.
        self.table.get(self.id).ok_or_else(|| PyKeyError::new_err(self.id.get()))
    }

    /// Returns the table's entry: the layout's hash and the text.
    fn written(&self) -> (u64, &str) {
        self.entry().map_or((0, ""), |entry| (entry.layout, entry.text))
    }
}

#[pymethods]
impl RecordType {
    /// Its number, as in record headers.
    #[getter]
    fn id(&self) -> u32 {
        self.id.get()
    }

    /// Its name, by custom ``program.Type``.
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(&self.kind()?.name)
    }

    /// The version, which is increased when the meaning changes.
    #[getter]
    fn version(&self) -> PyResult<u32> {
        Ok(self.kind()?.version)
    }

    /// The encoding of a payload: ``"pod"``, ``"rkyv"``, ``"tagged"``, ``"json"``, ``"utf-8"`` or
    /// ``"bytes"``.
    #[getter]
    fn encoding(&self) -> PyResult<&str> {
        Ok(self.kind()?.encoding.name())
    }

    /// What the sidecar takes it for: ``"plain"``, ``"log"``, ``"span_start"``, ``"span_end"``,
    /// ``"gauge"``, ``"sum"``, ``"histogram"`` or ``"resource"``.
    #[getter(kind)]
    fn class(&self) -> PyResult<&str> {
        Ok(self.kind()?.class.name())
    }

    /// Its meaning, or an empty string.
    #[getter]
    fn help(&self) -> PyResult<&str> {
        Ok(&self.kind()?.help)
    }

    /// The bytes of a payload, if they are the same for all; else 0.
    #[getter]
    fn size(&self) -> PyResult<u32> {
        Ok(self.kind()?.size)
    }

    /// A hash of everything but units and help: types with the same payloads have the same number.
    #[getter]
    pub(crate) fn layout(&self) -> u64 {
        self.written().0
    }

    /// The text in the type table, unchanged.
    #[getter]
    fn json(&self) -> &str {
        self.written().1
    }

    /// The text as this version reads it: without unknown keys, each key once.
    #[getter]
    fn _known(&self) -> PyResult<String> {
        Ok(self.kind()?.to_json())
    }

    /// The names of its fields.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let names: Vec<&str> = self.kind()?.fields.iter().map(|field| &*field.name).collect();
        Ok(PyTuple::new(py, names)?.into_any())
    }

    /// Its layout for numpy: see `dtype_of`.
    #[getter]
    pub(crate) fn dtype<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let made = slf.get().dtype.get_or_try_init(py, || {
            py.import("perfring._dtypes")?.call_method1("_dtype", (slf,)).map(Bound::unbind)
        })?;
        Ok(made.bind(py).clone())
    }

    /// Return the values of a payload: a dict of the fields, or a value for an encoding without
    /// fields.
    ///
    /// Raises:
    ///     BadType: The payload is not of this type.
    fn decode(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Ok(bytes) = buffer.cast::<PyBytes>() {
            return decode(py, self.kind()?, bytes.as_bytes());
        }
        let copy = PyMemoryView::from(buffer)?.call_method0("tobytes")?;
        decode(py, self.kind()?, copy.cast::<PyBytes>()?.as_bytes())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Self>() else { return false };
        let other = other.get();
        self.id == other.id && self.written() == other.written()
    }

    fn __hash__(&self) -> u64 {
        self.id.get().into()
    }

    /// Pickles its table entry, including keys that this version does not know.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let make = py.import("perfring._native")?.getattr("_from_entry")?;
        let (layout, text) = self.written();
        Ok((make, (self.id.get(), layout, text).into_pyobject(py)?))
    }

    fn __repr__(&self) -> PyResult<String> {
        let kind = self.kind()?;
        let (name, encoding) = (&kind.name, kind.encoding.name());
        let mut text = format!("RecordType({name:?}, version={}, {encoding}", kind.version);
        if kind.size > 0 {
            text += &format!(", {} bytes", kind.size);
        }
        if !kind.fields.is_empty() {
            let names: Vec<&str> = kind.fields.iter().map(|field| &*field.name).collect();
            text += &format!(", fields: {}", names.join(" "));
        }
        Ok(format!("{text}, id={:#x})", self.id.get()))
    }
}

/// A copy of a ring's type table.
///
/// ``table["app.Tick"]`` and ``table[number]`` return one type; of several with one name, the one
/// that was registered last. Iteration returns all types, in the order in which they were
/// registered.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct TypeTable {
    pub(crate) table: Arc<Table>,
}

impl TypeTable {
    /// Returns a type by number or name: of several with one name, the one that was registered
    /// last.
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<RecordType>> {
        let id = if let Ok(name) = key.cast::<PyString>() {
            self.table.by_name(name.to_str()?).last().map(|kind| kind.id)
        } else if let Ok(number) = key.extract::<i128>() {
            u32::try_from(number).ok().and_then(Id::new)
        } else {
            let what = "a type is found by its number or its name";
            return Err(PyTypeError::new_err(format!("{what}, not by {}", key.get_type().name()?)));
        };
        Ok(id.and_then(|id| RecordType::find(&self.table, id)))
    }
}

#[pymethods]
impl TypeTable {
    /// Return the type of this number or name, or ``default``.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.find(key)? {
            Some(found) => Ok(Some(Bound::new(key.py(), found)?.into_any())),
            None => Ok(default),
        }
    }

    /// Return all types of this name, in the order in which they were registered.
    fn named(&self, name: &str) -> Vec<RecordType> {
        self.table.by_name(name).filter_map(|kind| RecordType::find(&self.table, kind.id)).collect()
    }

    /// A message for each part of the table that cannot be read.
    #[getter]
    fn damage(&self) -> Vec<String> {
        self.table.damage().iter().map(ToString::to_string).collect()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<RecordType> {
        self.find(key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(key)?.is_some())
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let all = self.table.iter().filter_map(|kind| RecordType::find(&self.table, kind.id));
        PyList::new(py, all.collect::<Vec<_>>())?.try_iter()
    }

    fn __repr__(&self) -> String {
        let all = self.table.iter().map(|kind| format!("{:#x}: {:?}", kind.id.get(), kind.name));
        format!("TypeTable({{{}}})", all.collect::<Vec<_>>().join(", "))
    }
}

/// Returns the type that a spec describes, without a ring.
#[pyfunction]
pub(crate) fn _describe(py: Python<'_>, spec: &str) -> PyResult<RecordType> {
    with_schema(py, spec, |schema| RecordType::described(py, schema))?
}

/// Returns a type that was pickled.
#[pyfunction]
pub(crate) fn _from_entry(
    py: Python<'_>,
    id: u32,
    layout: u64,
    text: &str,
) -> PyResult<RecordType> {
    let no_type = || bad_type(py, format!("the pickle has no record type: {id:#x}, {text:?}"));
    let id = Id::new(id).ok_or_else(no_type)?;
    let table = Arc::new(Table::from_words(&Entry { id, layout, text }.to_words()));
    RecordType::find(&table, id).ok_or_else(no_type)
}

/// Returns the type of a record's class, or of an object of one; a `RecordType` is returned
/// unchanged.
pub(crate) fn type_of<'py>(what: &Bound<'py, PyAny>) -> PyResult<Bound<'py, RecordType>> {
    if let Ok(kind) = what.cast::<RecordType>() {
        return Ok(kind.clone());
    }
    let found = what.py().import("perfring._types")?.call_method1("type_of", (what,))?;
    Ok(found.cast_into::<RecordType>()?)
}

/// Refuses an array whose dtype does not match its type.
pub(crate) fn check_array(data: &Bound<'_, PyAny>, kind: &Kind<'_>) -> PyResult<()> {
    let py = data.py();
    if let Some(of) = &kind.1
        && let Some(dtype) = data.getattr_opt(pyo3::intern!(py, "dtype"))?
    {
        let of = type_of(of)?;
        py.import("perfring._dtypes")?.call_method1("check", (dtype, of))?;
    }
    Ok(())
}

/// Returns what to publish, and under which type: an object of a record's class has its own.
pub(crate) fn object<'py>(
    data: &Bound<'py, PyAny>,
    kind: Kind<'py>,
) -> PyResult<(Kind<'py>, Bound<'py, PyAny>)> {
    if data.is_instance_of::<PyBytes>() {
        return Ok((kind, data.clone())); // quickly
    }
    let class = data.get_type().into_any();
    if !class.hasattr(pyo3::intern!(data.py(), "__record__"))? {
        return Ok((kind, data.clone()));
    }
    if kind.0 != Id::BYTES {
        return Err(PyTypeError::new_err(format!(
            "an object of a record's class has its type: leave out type={}",
            kind.0.get()
        )));
    }
    let packed = data.call_method0(pyo3::intern!(data.py(), "pack"))?;
    Ok((class.extract()?, packed))
}

/// Decodes a record's values to Python objects.
pub(crate) fn decode(py: Python<'_>, kind: &Type, payload: &[u8]) -> PyResult<Py<PyAny>> {
    // Bytes are only copied.
    if matches!(kind.encoding.known(), Some(Encoding::Bytes) | None) {
        return Ok(PyBytes::new(py, payload).into_any().unbind());
    }
    let value = kind.decode(payload).map_err(|wrong| bad_type(py, wrong.to_string()))?;
    to_python(py, value).map(Bound::unbind)
}

fn to_python(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::I64(value) => value.into_bound_py_any(py),
        Value::U64(value) => value.into_bound_py_any(py),
        Value::I128(value) => value.into_bound_py_any(py),
        Value::U128(value) => value.into_bound_py_any(py),
        Value::F32(value) => value.into_bound_py_any(py),
        Value::F64(value) => value.into_bound_py_any(py),
        Value::Char(value) => value.into_bound_py_any(py),
        Value::Str(value) => value.into_bound_py_any(py),
        Value::Bytes(value) => Ok(PyBytes::new(py, &value).into_any()),
        Value::Label { name: Some(name), .. } => Ok(PyString::new(py, &name).into_any()),
        Value::Label { value, name: None } => value.into_bound_py_any(py),
        Value::List(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value)?)?;
            }
            Ok(list.into_any())
        }
        Value::Struct(fields) => {
            let dict = PyDict::new(py);
            for (name, value) in fields {
                dict.set_item(&*name, to_python(py, value)?)?;
            }
            Ok(dict.into_any())
        }
        other => Err(bad_type(py, format!("this version cannot show {other}"))),
    }
}
