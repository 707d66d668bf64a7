//! A ring's figures, by the names that `perfring stat --json` has.

use crate::errors;
use crate::kind::{self, At, shown};
use perfring_consumer::{
    Count, Evict, OwnerInfo, Producers, Refused, Report, RingTotals, SeatState, Stat,
};
use perfring_producer::ProducerTotals;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns the ring's figures as a dict, with the names that ``perfring stat --json`` has.
///
/// Needs read permission only and does not disturb the ring's processes. ``written``, ``read``,
/// ``present`` (not released yet), ``overwritten``, ``lapped``, ``discarded``, ``reclaimed`` and
/// the refusals ``full``, ``too_large``, ``contended`` and ``pending`` are present as
/// ``..._records`` and ``..._bytes``. ``producer``, ``consumer`` and each of the ``slots`` of a
/// shared ring name their process, by ``name``, ``pid`` and ``state``: ``alive``, ``detached``,
/// ``dead`` (it ended without that: it was killed, or crashed) or ``free`` (there was none yet);
/// ``uid`` is None of one that has detached.
///
/// Raises:
///     BadRing: The file is no ring.
///     OSError: The system refused it.
///
/// Example:
///     >>> producer = perfring.Producer.create(tmp / "figures")
///     >>> producer.publish(b"one")
///     True
///     >>> stat = perfring.stat(tmp / "figures")
///     >>> stat["written_records"], stat["full_records"], stat["producer"]["alive"]
///     (1, 0, True)
#[pyfunction]
pub(crate) fn stat<'py>(py: Python<'py>, path: At) -> PyResult<Bound<'py, PyDict>> {
    let location = path.0;
    let stat = py.detach(|| Stat::read(&location)); // it may retry for some 20 ms
    let stat = stat.map_err(|error| errors::attach(py, &error))?;
    let layout = &stat.layout;
    let dict = PyDict::new(py);
    dict.set_item("ring", shown(&location))?;
    dict.set_item("data_size", layout.data_size)?;
    dict.set_item("aux_size", layout.aux_size)?;
    dict.set_item("policy", layout.policy.name())?;
    let evict = match layout.evict {
        Evict::Exact => "exact",
        Evict::Half => "half",
    };
    dict.set_item("evict", evict)?;
    let report = match layout.report {
        Report::InStream => "in_stream",
        Report::CountersOnly => "counters_only",
    };
    dict.set_item("report", report)?;
    dict.set_item("producers", layout.producers.name())?;
    dict.set_item("slot_count", layout.slots)?;
    dict.set_item("consumer_count", layout.consumers)?;
    dict.set_item("time", layout.time)?;
    dict.set_item("sample_id", layout.sample_id)?;
    dict.set_item("page_size", layout.page_size)?;
    dict.set_item("max_len", layout.max_len())?;
    dict.set_item("created_ns", layout.created_ns)?;
    dict.set_item("creator_pid", layout.creator_pid)?;
    dict.set_item("creator_uid", layout.creator_uid)?;
    dict.set_item("uuid", kind::uuid(&layout.uuid))?;
    dict.set_item("boot_id", kind::uuid(&layout.boot_id))?;
    dict.set_item("epoch", stat.epoch())?;
    let exclusive = layout.producers == Producers::One;
    dict.set_item(
        "producer",
        exclusive.then(|| holder(py, stat.producer.state, &stat.producer.owner)).transpose()?,
    )?;
    let slots = PyList::empty(py);
    for member in &stat.producers {
        let slot = holder(py, member.state, &member.figures.owner)?;
        slot.set_item("slot", member.figures.slot)?;
        put_refused(&slot, "", &member.figures.refused)?;
        put(&slot, "written", member.figures.written)?;
        put(&slot, "discarded", member.figures.discarded)?;
        put(&slot, "reclaimed", member.figures.reclaimed)?;
        put(&slot, "open", member.figures.open)?;
        slots.append(slot)?;
    }
    dict.set_item("slots", slots)?;
    let held_up = match &stat.held_up {
        None => None,
        Some(held) => {
            let held_up = PyDict::new(py);
            held_up.set_item("slot", held.slot)?;
            held_up.set_item("alive", held.alive)?;
            let since = u64::try_from(held.since.as_nanos()).unwrap_or(u64::MAX);
            held_up.set_item("for_ns", since)?;
            held_up.set_item("locked", held.locked)?;
            Some(held_up)
        }
    };
    dict.set_item("held_up", held_up)?;
    dict.set_item("consumer", holder(py, stat.consumer.state, &stat.consumer.owner)?)?;
    let consumers = PyList::empty(py);
    for consumer in &stat.consumers {
        let named = holder(py, consumer.state, &consumer.owner)?;
        named.set_item("seat", consumer.seat)?;
        named.set_item("waited_for", consumer.waited_for)?;
        named.set_item("slowest", consumer.slowest)?;
        named.set_item("pos", consumer.totals.pos)?;
        put(&named, "read", consumer.totals.read)?;
        put(&named, "lapped", consumer.totals.lapped)?;
        put(&named, "unread", consumer.unread)?;
        consumers.append(named)?;
    }
    dict.set_item("consumers", consumers)?;
    dict.set_item("damaged", stat.totals.is_none())?;
    if let Some(totals) = &stat.totals {
        put_totals(&dict, totals)?;
    }
    Ok(dict)
}

/// Adds the totals to a dict.
pub(crate) fn put_totals(dict: &Bound<'_, PyDict>, totals: &RingTotals) -> PyResult<()> {
    dict.set_item("data_head", totals.head)?;
    dict.set_item("data_tail", totals.tail)?;
    dict.set_item("aux_head", totals.aux_head)?;
    dict.set_item("aux_tail", totals.aux_tail)?;
    dict.set_item("consumer_pos", totals.consumer.pos)?;
    put_producer_totals(dict, &totals.producer)?;
    put(dict, "unreported", totals.unreported())?;
    put(dict, "overwritten", totals.overwritten)?;
    put(dict, "read", totals.consumer.read)?;
    put(dict, "lapped", totals.consumer.lapped)?;
    put(dict, "present", totals.present)?;
    put(dict, "stranded", totals.stranded)
}

/// Adds the producers' half of the totals.
pub(crate) fn put_producer_totals(
    dict: &Bound<'_, PyDict>,
    totals: &ProducerTotals,
) -> PyResult<()> {
    dict.set_item("lost_markers", totals.lost_markers)?;
    put_refused(dict, "", &totals.refused)?;
    put_refused(dict, "reported_", &totals.reported)?;
    put(dict, "written", totals.written)?;
    put(dict, "discarded", totals.discarded)?;
    put(dict, "reclaimed", totals.reclaimed)
}

fn put(dict: &Bound<'_, PyDict>, name: &str, count: Count) -> PyResult<()> {
    dict.set_item(format!("{name}_records"), count.records)?;
    dict.set_item(format!("{name}_bytes"), count.bytes)
}

fn put_refused(dict: &Bound<'_, PyDict>, prefix: &str, refused: &Refused) -> PyResult<()> {
    put(dict, &format!("{prefix}full"), refused.full)?;
    put(dict, &format!("{prefix}too_large"), refused.too_large)?;
    put(dict, &format!("{prefix}contended"), refused.contended)?;
    put(dict, &format!("{prefix}pending"), refused.pending)
}

fn holder<'py>(
    py: Python<'py>,
    state: SeatState,
    owner: &OwnerInfo,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("alive", state == SeatState::Alive)?;
    dict.set_item("state", state.word())?;
    dict.set_item("name", owner.name.as_str())?;
    dict.set_item("pid", owner.pid)?;
    dict.set_item("uid", owner.user())?;
    dict.set_item("epoch", owner.epoch)?;
    dict.set_item("attached_ns", owner.attached_ns)?;
    Ok(dict)
}
