//! Instruments whose values are words in a ring's file: the native half of `perfring.telemetry.Meter`, and what it makes.

use crate::errors;
use crate::kind::{At, Size};
use crate::log::value::Kept;
use crate::missing::attach_or_create;
use perfring_producer::{
    AttachError, OpenError, Options,
    metrics::{Buckets, MetricsError},
};
use perfring_telemetry::Resource;
use perfring_telemetry::meter::{self, Instrument, options};
use perfring_telemetry::types::Constant;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyType};
use std::sync::Arc;

/// Makes a process's instruments.
#[pyclass(frozen, module = "perfring._native", name = "_Meter")]
pub(crate) struct Meter {
    meter: meter::Meter,
}

/// What an instrument is: its name, its unit, its description, its scope and its attributes.
#[derive(FromPyObject)]
struct What<'py>(String, String, String, String, Bound<'py, PyDict>);

/// An instrument of whole numbers, or of floats.
enum Of<I, F> {
    Int(I),
    Float(F),
}

#[pymethods]
impl Meter {
    /// Attaches to the ring at this path, and creates it if it is missing.
    #[new]
    #[pyo3(signature = (path, size, metrics_size, mode, resource))]
    fn new(
        py: Python<'_>,
        path: At,
        size: Size,
        metrics_size: Size,
        mode: u32,
        resource: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let (size, metrics_size) = (size.0, metrics_size.0);
        let options = Options { size, metrics_size, mode, ..options() };
        let here = Resource::here();
        let resource = resource.into_iter().fold(here, |all, (name, value)| all.with(name, value));
        let attach = |location| meter::Meter::attach(location, resource.clone());
        let is_missing = |error: &MetricsError| {
            let MetricsError::Attach(error) = error else { return false };
            matches!(**error, AttachError::NotFound { .. } | AttachError::Removed { .. })
        };
        let not_created = |error| MetricsError::Open(Arc::new(OpenError::Create(error)));
        py.detach(|| attach_or_create(&path.0, &options, attach, is_missing, not_created))
            .map(|meter| Meter { meter })
            .map_err(|error| errors::metrics(py, &error))
    }

    /// Returns a counter.
    #[pyo3(signature = (what, of, /))]
    fn counter(&self, what: What<'_>, of: &Bound<'_, PyType>) -> PyResult<Counter> {
        let (meter, default) = (&self.meter, Buckets::default());
        Ok(Counter(match is_float(of)? {
            false => Of::Int(made(of.py(), &what, default, |of| meter.counter(of))?),
            true => Of::Float(made(of.py(), &what, default, |of| meter.counter(of))?),
        }))
    }

    /// Returns a counter that grows and shrinks.
    #[pyo3(signature = (what, of, /))]
    fn up_down_counter(&self, what: What<'_>, of: &Bound<'_, PyType>) -> PyResult<UpDownCounter> {
        let (meter, default) = (&self.meter, Buckets::default());
        Ok(UpDownCounter(match is_float(of)? {
            false => Of::Int(made(of.py(), &what, default, |of| meter.up_down_counter(of))?),
            true => Of::Float(made(of.py(), &what, default, |of| meter.up_down_counter(of))?),
        }))
    }

    /// Returns a gauge.
    #[pyo3(signature = (what, of, /))]
    fn gauge(&self, what: What<'_>, of: &Bound<'_, PyType>) -> PyResult<Gauge> {
        let (meter, default) = (&self.meter, Buckets::default());
        Ok(Gauge(match is_float(of)? {
            false => Of::Int(made(of.py(), &what, default, |of| meter.gauge(of))?),
            true => Of::Float(made(of.py(), &what, default, |of| meter.gauge(of))?),
        }))
    }

    /// Returns a histogram with buckets of this scale, between these powers of two.
    #[pyo3(signature = (what, scale, powers, /))]
    fn histogram(
        &self,
        py: Python<'_>,
        what: What<'_>,
        scale: i64,
        powers: (i32, i32),
    ) -> PyResult<Histogram> {
        let (least, most) = powers;
        let buckets = u8::try_from(scale).ok().and_then(|scale| Buckets::new(scale, least, most));
        let buckets = buckets.ok_or_else(|| {
            PyValueError::new_err(format!(
                "a histogram cannot have scale {scale} and powers ({least}, {most}): the scale is 0 to 4, powers ascend from \
                 -1022 to 1024, and 2**scale buckets for each power are at most 4096 in all"
            ))
        })?;
        Ok(Histogram(made(py, &what, buckets, |of| self.meter.histogram(of))?))
    }

    /// The updates that no file has.
    #[getter]
    fn lost(&self) -> u64 {
        self.meter.metrics().lost()
    }

    /// The instruments that found no room, of all processes.
    #[getter]
    fn refused(&self) -> u64 {
        self.meter.metrics().fill().refused
    }

    /// Whether the ring's file was removed, or another took its name.
    #[getter]
    fn removed(&self) -> bool {
        self.meter.metrics().is_removed()
    }
}

fn is_float(of: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = of.py();
    match (of.is(py.get_type::<PyFloat>()), of.is(py.get_type::<PyInt>())) {
        (false, false) => Err(PyTypeError::new_err(format!("of is int or float, not {of}"))),
        (is_float, _) => Ok(is_float),
    }
}

/// Makes an instrument. The GIL is held all the time, for at most 0.1 s: a fork never finds an instrument half made.
fn made<T>(
    py: Python<'_>,
    what: &What<'_>,
    buckets: Buckets,
    make: impl FnOnce(&Instrument<'_>) -> Result<T, MetricsError>,
) -> PyResult<T> {
    let What(name, unit, description, scope, given) = what;
    let mut named = Vec::new();
    for (name, value) in given.iter().collect::<Vec<_>>() {
        named.push((name.extract::<String>()?, AttributeValue::of(&value)?));
    }
    // The order of a dict's items does not make another instrument.
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let attributes: Vec<_> =
        named.iter().map(|(name, value)| (&**name, value.constant())).collect();
    make(&Instrument {
        unit,
        description,
        scope,
        attributes: &attributes,
        buckets,
        ..Instrument::new(name)
    })
    .map_err(|error| errors::metrics(py, &error))
}

/// The value of an attribute.
enum AttributeValue {
    Bool(bool),
    I64(i64),
    F64(f64),
    Text(String),
}

impl AttributeValue {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match Kept::of(value.clone())? {
            Kept::Bool(value) => AttributeValue::Bool(value),
            Kept::I64(value) => AttributeValue::I64(value),
            Kept::F64(value) if value.is_finite() => AttributeValue::F64(value),
            _ => AttributeValue::Text(value.str()?.to_string_lossy().into_owned()),
        })
    }

    fn constant(&self) -> Constant<'_> {
        match self {
            AttributeValue::Bool(value) => Constant::Bool(*value),
            AttributeValue::I64(value) => Constant::I64(*value),
            AttributeValue::F64(value) => Constant::F64(*value),
            AttributeValue::Text(value) => Constant::Str(value),
        }
    }
}

/// What is added: 1, or a number.
struct Amount<'a, 'py>(Option<Borrowed<'a, 'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Amount<'a, 'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Amount(Some(given)))
    }
}

impl<'a, 'py> Amount<'a, 'py> {
    const ONE: Self = Amount(None);

    fn int<T: From<u8> + FromPyObject<'a, 'py, Error = PyErr>>(&self) -> PyResult<T> {
        let Some(number) = self.0 else { return Ok(1.into()) };
        number.extract().map_err(|error| not_int(number, error))
    }

    fn float(&self) -> PyResult<f64> {
        self.0.map_or(Ok(1.0), |number| number.extract())
    }

    /// Returns a number that a sum stays finite with.
    fn finite(&self) -> PyResult<f64> {
        match self.float()? {
            number if number.is_finite() => Ok(number),
            number => {
                Err(PyValueError::new_err(format!("a sum adds finite numbers, not {number}")))
            }
        }
    }
}

#[cold]
fn not_int(number: Borrowed<'_, '_, PyAny>, error: PyErr) -> PyErr {
    if number.is_instance_of::<PyFloat>() {
        return PyTypeError::new_err("the instrument has whole numbers: make it with of=float");
    }
    error
}

#[cold]
fn negative() -> PyErr {
    PyValueError::new_err("a counter increases by 0 or more: use an up_down_counter")
}

/// A sum that only grows, of `Meter.counter`.
///
/// Any thread may update it. An update is a few instructions in the ring's memory.
#[pyclass(frozen, module = "perfring.telemetry")]
pub(crate) struct Counter(Of<meter::Counter<u64>, meter::Counter<f64>>);

#[pymethods]
impl Counter {
    /// Add a number, 0 or more.
    ///
    /// Raises:
    ///     ValueError: The number is negative, or not finite.
    ///     TypeError: It is a float, and the counter is of whole numbers.
    #[pyo3(signature = (value=Amount::ONE, /), text_signature = "($self, value=1, /)")]
    fn add(&self, value: Amount<'_, '_>) -> PyResult<()> {
        match &self.0 {
            Of::Int(counter) => match value.int() {
                Ok(number) => counter.add(number),
                Err(_) if value.float().is_ok_and(|number| number < 0.0) => return Err(negative()),
                Err(error) => return Err(error),
            },
            Of::Float(counter) => match value.finite()? {
                number if number < 0.0 => return Err(negative()),
                number => counter.add(number),
            },
        }
        Ok(())
    }
}

/// A sum that grows and shrinks, of `Meter.up_down_counter`.
///
/// Any thread may update it. An update is a few instructions in the ring's memory.
#[pyclass(frozen, module = "perfring.telemetry")]
pub(crate) struct UpDownCounter(Of<meter::UpDownCounter<i64>, meter::UpDownCounter<f64>>);

#[pymethods]
impl UpDownCounter {
    /// Add a number.
    ///
    /// Raises:
    ///     ValueError: The number is not finite.
    ///     TypeError: It is a float, and the counter is of whole numbers.
    #[pyo3(signature = (value=Amount::ONE, /), text_signature = "($self, value=1, /)")]
    fn add(&self, value: Amount<'_, '_>) -> PyResult<()> {
        match &self.0 {
            Of::Int(counter) => counter.add(value.int()?),
            Of::Float(counter) => counter.add(value.finite()?),
        }
        Ok(())
    }
}

/// The last value, of `Meter.gauge`.
///
/// Any thread may update it. An update is a few instructions in the ring's memory.
#[pyclass(frozen, module = "perfring.telemetry")]
pub(crate) struct Gauge(Of<meter::Gauge<i64>, meter::Gauge<f64>>);

#[pymethods]
impl Gauge {
    /// Set the value.
    ///
    /// Raises:
    ///     TypeError: The number is a float, and the gauge is of whole numbers.
    #[pyo3(signature = (value, /))]
    fn set(&self, value: Amount<'_, '_>) -> PyResult<()> {
        match &self.0 {
            Of::Int(gauge) => gauge.set(value.int()?),
            Of::Float(gauge) => gauge.set(value.float()?),
        }
        Ok(())
    }
}

/// Counts of measurements in exponential buckets, of `Meter.histogram`.
///
/// Any thread may update it. An update is a few instructions in the ring's memory.
#[pyclass(frozen, module = "perfring.telemetry")]
pub(crate) struct Histogram(meter::Histogram);

#[pymethods]
impl Histogram {
    /// Count a measurement. One that is negative, infinite or no number is counted as refused.
    #[pyo3(signature = (value, /))]
    fn record(&self, value: f64) {
        self.0.record(value);
    }
}
