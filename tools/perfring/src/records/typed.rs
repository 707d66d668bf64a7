//! A record with its type and time.

use crate::records::time::When;
use perfring_consumer::{Anchors, RecordRef};
use perfring_export::Rec;
use perfring_types::Encoding;
use perfring_types::read::{BadPayload, Type, Value};

#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) record: RecordRef<'a>,
    /// The name of its ring, where the records of several are shown.
    pub(crate) ring: Option<&'a str>,
    /// When it was published, if the ring has timestamps.
    pub(crate) when: Option<When>,
    /// Its type, if the ring's table has it.
    pub(crate) kind: Option<&'a Type>,
    /// Its values, if it has a type and was decoded.
    pub(crate) value: Option<Result<Value, BadPayload>>,
}

impl<'a> Seen<'a> {
    pub(crate) fn new(record: RecordRef<'a>, kind: Option<&'a Type>, anchors: &Anchors) -> Self {
        Seen { record, ring: None, when: When::of(&record, anchors), kind, value: None }
    }

    /// From a record of an event.
    pub(crate) fn of(record: &Rec<'a>) -> Self {
        let &Rec { pos, kind, bytes, time, writer, wall, .. } = record;
        let when = time.map(|timestamp| When { timestamp, wall });
        let of = RecordRef { pos, kind, bytes, time, writer };
        Seen { record: of, ring: None, when, kind: record.kind_of(), value: None }
    }

    pub(crate) fn read(mut self) -> Self {
        self.value = self.kind.map(|kind| kind.decode(self.record.bytes));
        self
    }

    /// Returns its type and its values, if it has more than its bytes or its text.
    pub(crate) fn values(&self) -> Option<(&'a Type, &Value)> {
        match (self.kind, &self.value) {
            (Some(kind), Some(Ok(value))) if !is_payload(kind) => Some((kind, value)),
            _ => None,
        }
    }

    /// Returns why it cannot be decoded by its type.
    pub(crate) fn bad(&self) -> Option<&BadPayload> {
        self.value.as_ref().and_then(|value| value.as_ref().err())
    }
}

/// Returns whether the raw payload is all there is to show.
fn is_payload(kind: &Type) -> bool {
    matches!(kind.encoding.known(), None | Some(Encoding::Bytes | Encoding::Utf8))
}
