//! The parts of the built-in record types.

use crate::names::AttributeName;
use perfring_producer::types::{Encoding, Shape};

pub(super) use crate::names;
pub(super) use crate::value::Value;
pub(super) use perfring_producer::types::tagged::TaggedWriter;
pub(super) use perfring_producer::types::{Class, Field, Schema};

/// Attributes: names and values.
pub type Attributes<'a> = &'a [(&'a str, Value<'a>)];

/// A record that [`Sink::emit`](crate::Sink::emit) publishes: one of the built-in types.
pub trait Signal: sealed::Fill {
    /// Its record type.
    const SCHEMA: Schema<'static>;
}

pub(crate) mod sealed {
    use super::TaggedWriter;
    use crate::severity::Severity;

    /// A trace and a span.
    pub(crate) type Within = ([u8; 16], [u8; 8]);

    pub trait Fill {
        fn fill(&self, writer: &mut TaggedWriter<'_>);

        /// How severe it is, if it says so.
        fn severity(&self) -> Option<Severity> {
            None
        }

        /// Whether it happens within a trace, if there is one, and does not say in which.
        fn may_have_trace(&self) -> bool {
            false
        }

        /// Fills in what happened within this trace and span, which it does not name itself.
        fn fill_within(&self, _: Within, writer: &mut TaggedWriter<'_>) {
            self.fill(writer);
        }
    }
}

/// The first fields of every type for a [`Sink`](crate::Sink), which the sink fills.
pub const COMMON: [Field<'static>; 2] = [
    Field { unit: "ns", ..any(names::TIME, "since 1970; only where the ring stamps no records") },
    any(names::PID, "who wrote it: see the resource with the same"),
];

/// The number of the first field after [`COMMON`].
pub const FIRST: u16 = COMMON.len() as u16;

pub(super) const fn any(name: &'static str, help: &'static str) -> Field<'static> {
    Field { help, ..Field::new(name, 0, Shape::ANY) }
}

pub(super) const fn ns(name: &'static str, help: &'static str) -> Field<'static> {
    Field { unit: "ns", ..any(name, help) }
}

pub(super) const fn plain(name: &'static str) -> Field<'static> {
    any(name, "")
}

pub(super) const fn schema(
    name: &'static str,
    class: Class,
    help: &'static str,
    fields: &'static [Field<'static>],
) -> Schema<'static> {
    let schema = Schema { class, help, ..Schema::new(name, Encoding::Tagged) };
    schema.with_fields(0, fields).with_hashed_id()
}

/// Defines a type's fields and the constants that number them, in one list.
macro_rules! fields {
    ($list:ident: $($number:ident = $field:expr,)*) => {
        const $list: &[Field<'static>] = &[COMMON[0], COMMON[1], $($field),*];
        fields!(@count FIRST; $($number)*);
    };
    (@count $at:expr; $number:ident $($rest:ident)*) => {
        const $number: u16 = $at;
        fields!(@count $number + 1; $($rest)*);
    };
    (@count $at:expr;) => {};
}
pub(super) use fields;

pub(super) fn attributes(class: Class, attributes: Attributes<'_>, writer: &mut TaggedWriter<'_>) {
    for (name, value) in attributes {
        value.write(AttributeName::new(class, name).as_str(), writer);
    }
}

pub(super) fn text(number: u16, text: &str, writer: &mut TaggedWriter<'_>) {
    if !text.is_empty() {
        writer.text(number, text);
    }
}

pub(super) fn maybe<T>(value: Option<T>, write: impl FnOnce(T)) {
    if let Some(value) = value {
        write(value);
    }
}
