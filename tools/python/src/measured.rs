//! What is in a ring's metrics area, by the names that `perfring metrics --json` has.

use crate::errors;
use crate::kind::At;
use perfring_consumer::{AttachError, Location, Observer, ReadError, Start, metrics::BadArea};
use perfring_figures::instruments::Measured;
use perfring_producer::metrics::MetricsError;
use perfring_types::read::TypeTable;
use pyo3::prelude::*;
use pythonize::pythonize;

/// Why an area cannot be read, or not to its end.
enum Unread {
    Attach(AttachError),
    Read(ReadError),
    Area(MetricsError),
}

/// Returns what the instruments in a ring's metrics area have measured: a list of `Measured`, by name.
///
/// Each is the values of one process, also of one that has ended: after ``kill -9`` they are in the file. The instruments may be
/// those of `perfring.telemetry.Meter` or of a program in Rust. Needs read permission only and does not disturb the ring's
/// processes. A gauge that was never set is left out. ``instruments_refused`` and ``instruments_replaced`` of `stat` say whether values are missing for want
/// of room.
///
/// Raises:
///     BadRing: The file is no ring, or one without a metrics area.
///     Corrupt: The area is damaged at the byte ``pos``. ``before`` of the exception is the list of all that precedes that.
///     OSError: The system refused it.
///
/// Example:
///     >>> from perfring.telemetry import Meter
///     >>> meter = Meter(tmp / "shop", resource={"service.name": "till"})
///     >>> meter.counter("orders", unit="{order}", attributes={"by": "card"}).add(17)
///     >>> [orders] = perfring.metrics(tmp / "shop")
///     >>> orders["name"], orders["attributes"], orders["value"], orders["alive"]
///     ('orders', {'by': 'card'}, 17, True)
///     >>> orders["resource"]["service.name"]
///     'till'
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn metrics<'py>(py: Python<'py>, path: At) -> PyResult<Bound<'py, PyAny>> {
    let location = path.0;
    let (all, damage) = py.detach(|| read(&location)).map_err(|unread| match unread {
        Unread::Attach(error) => errors::attach(py, &error),
        Unread::Read(error) => errors::read(py, error),
        Unread::Area(error) => errors::metrics(py, &error),
    })?;
    let all = pythonize(py, &all)?;
    let Some(damage) = damage else { return Ok(all) };
    Err(errors::named(py, "Corrupt", (damage.to_string(), damage.at, all.unbind())))
}

fn read(location: &Location) -> Result<(Vec<Measured>, Option<BadArea>), Unread> {
    let observer = Observer::attach(location.clone(), Start::Latest).map_err(Unread::Attach)?;
    if observer.layout().metrics_size == 0 {
        return Err(Unread::Area(MetricsError::NoArea { location: location.clone() }));
    }
    let metrics = observer.metrics().map_err(Unread::Read)?;
    let types = TypeTable::from_entries(observer.types().entries());
    Ok((Measured::each(&metrics, &types), metrics.fill.damage))
}
