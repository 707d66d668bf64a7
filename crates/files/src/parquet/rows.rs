//! The cells that all rows have.

use super::options::Timestamps;
use super::signals::Signal;
use perfring_events::{Loss, Origin, Rec};
use perfring_types::read::{BadPayload, Value};

/// Returns the cells of a record before its fields; of a signal's with its class.
pub(super) fn of_record(
    origin: &Origin,
    record: &Rec<'_>,
    signal: Option<Signal>,
    unit: Timestamps,
) -> Vec<Value> {
    let kind = record.kind_of();
    let mut cells = vec![
        number(record.wall.map(|ns| unit.of_ns(ns))),
        number(record.time),
        Value::Str(origin.name.clone()),
        Value::Str(origin.uuid_text()),
        Value::U64(record.pos),
        Value::U64(record.late),
        Value::U64(record.kind.into()),
        kind.map_or(Value::Null, |kind| Value::Str(kind.name.clone())),
    ];
    let class = kind.filter(|_| signal.is_some()).map(|kind| kind.class.name());
    cells.extend(class.map(|class| Value::Str(class.into())));
    cells
}

/// Returns the cells of a loss.
pub(super) fn of_loss(origin: &Origin, loss: &Loss, unit: Timestamps) -> Vec<Value> {
    vec![
        number(loss.wall.map(|ns| unit.of_ns(ns))),
        number(loss.time),
        Value::Str(origin.name.clone()),
        Value::Str(origin.uuid_text()),
        Value::U64(loss.pos),
        Value::Str(loss.cause.name().into()),
        number(loss.counted()),
        Value::U64(loss.bytes),
    ]
}

/// Returns the fields of a record without a type, or that does not match it.
pub(super) fn untyped(damage: Option<&BadPayload>, bytes: &[u8]) -> Value {
    let damage = damage.map_or(Value::Null, |bad| Value::Str(bad.to_string()));
    let payload = Value::Bytes(bytes.to_vec());
    Value::Struct(vec![("damage".into(), damage), ("payload".into(), payload)])
}

fn number(number: Option<u64>) -> Value {
    number.map_or(Value::Null, Value::U64)
}
