//! A type as described by its entry in the table.

use super::layout::ByteLayout;
use super::value::Value;
use crate::schema::{Class, Encoding, Kind};
use perfring_abi::RecordType;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashMap;
use std::sync::Arc;

/// A name in the table: one that this reader knows, or one of a later version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Named<T> {
    /// A known name.
    Known(T),
    /// A name that this reader does not know.
    Other(String),
}

impl<T: Copy> Named<T> {
    /// Returns the value of a known name.
    #[must_use]
    pub fn known(&self) -> Option<T> {
        match self {
            Named::Known(known) => Some(*known),
            Named::Other(_) => None,
        }
    }
}

macro_rules! named {
    ($($kind:ident),*) => {$(
        impl Named<$kind> {
            /// Returns the name in the table.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    Named::Known(known) => known.name(),
                    Named::Other(name) => name,
                }
            }

            pub(super) fn from_name(name: &str) -> Self {
                match $kind::ALL.into_iter().find(|known| known.name() == name) {
                    Some(known) => Named::Known(known),
                    None => Named::Other(name.to_owned()),
                }
            }
        }
    )*};
}

named!(Encoding, Class, Kind);

/// A record type, read from a type table: a [`Schema`](crate::Schema) that owns its contents.
///
/// `serde::Serialize` gives the object in the table, without the id.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Type {
    /// The type's id in record headers.
    pub id: RecordType,
    /// Its name.
    pub name: String,
    /// Version of the meaning: incremented when it changes.
    pub version: u32,
    /// The encoding of payloads.
    pub encoding: Named<Encoding>,
    /// The class of record for a sidecar.
    pub class: Named<Class>,
    /// Bytes of a Pod payload, or of an archive's root. Otherwise 0.
    pub size: u32,
    /// Further details of the encoding.
    pub format: String,
    /// A description, or empty.
    pub help: String,
    /// Its fields.
    pub fields: Vec<TypeField>,
    /// The layout of Pod and rkyv; or why this reader cannot read the archives.
    pub(super) layout: Result<ByteLayout, String>,
    /// The first field of each name.
    pub(super) by_name: HashMap<Arc<str>, usize>,
    /// Of each field, the first one of its name.
    pub(super) firsts: Vec<usize>,
}

/// One field of a [`Type`] or of a struct in it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TypeField {
    /// Its name.
    pub name: Arc<str>,
    /// The field's offset in its struct.
    pub at: u32,
    /// The field's shape.
    pub shape: TypeShape,
    /// The unit in UCUM notation, or empty.
    pub unit: String,
    /// A description, or empty.
    pub help: String,
    /// The value of a constant, which is in no record.
    pub constant: Option<Value>,
}

/// The shape of a field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TypeShape {
    /// The kind of value.
    pub kind: Named<Kind>,
    /// Size in bytes; 0 if unknown.
    pub size: u32,
    /// The number of elements of an array.
    pub count: u32,
    /// The offset of the value in an option.
    pub at: u32,
    /// The shape of an array's, a vector's, an option's or an enumeration's element.
    pub of: Option<Box<TypeShape>>,
    /// A struct's fields.
    pub fields: Vec<TypeField>,
    /// The names of an enumeration's values.
    pub labels: Vec<TypeLabel>,
    /// Indices of `labels`, by value.
    pub(super) sorted: Vec<usize>,
    /// Whether it can be shown: not if its size is needed and unknown.
    pub(super) shown: bool,
    /// The least number of values that are made of it.
    pub(super) values: u64,
}

/// A value of an enumeration and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeLabel {
    /// The value.
    pub value: i64,
    /// Its name.
    pub name: Arc<str>,
}

impl Type {
    /// Returns the first field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&TypeField> {
        self.by_name.get(name).and_then(|at| self.fields.get(*at))
    }

    /// Returns the line of JSON for the type table, as far as this reader knows it: the same text,
    /// except for different ways in which JSON can write a number or a control character.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // JSON can represent all of it
    }
}

impl TypeShape {
    pub(super) fn new(kind: Named<Kind>, size: u32) -> Self {
        let shown = size > 0 || kind.known().is_some();
        TypeShape {
            kind,
            size,
            count: 0,
            at: 0,
            of: None,
            fields: Vec::new(),
            labels: Vec::new(),
            sorted: Vec::new(),
            shown,
            values: 1,
        }
    }

    /// Returns the name of a value of an enumeration.
    #[must_use]
    pub fn label(&self, value: i64) -> Option<&Arc<str>> {
        let of = |at: &usize| self.labels.get(*at);
        let at = self.sorted.partition_point(|at| of(at).is_some_and(|label| label.value < value));
        self.sorted.get(at).and_then(of).filter(|label| label.value == value).map(|at| &at.name)
    }

    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("kind", self.kind.name())?;
        // The size of other kinds is known.
        if matches!(
            self.kind,
            Named::Known(Kind::Text | Kind::Bytes | Kind::Struct | Kind::Option) | Named::Other(_)
        ) {
            number(map, "size", self.size)?;
        }
        number(map, "count", self.count)?;
        number(map, "value_at", self.at)?;
        if let Some(of) = &self.of {
            map.serialize_entry("of", of)?;
        }
        list(map, "labels", &self.labels)?;
        list(map, "fields", &self.fields)
    }
}

fn text<M: SerializeMap>(map: &mut M, key: &str, text: &str) -> Result<(), M::Error> {
    if text.is_empty() { Ok(()) } else { map.serialize_entry(key, text) }
}

fn number<M: SerializeMap>(map: &mut M, key: &str, number: u32) -> Result<(), M::Error> {
    if number == 0 { Ok(()) } else { map.serialize_entry(key, &number) }
}

fn list<M: SerializeMap, T: Serialize>(map: &mut M, key: &str, of: &[T]) -> Result<(), M::Error> {
    if of.is_empty() { Ok(()) } else { map.serialize_entry(key, of) }
}

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        text(&mut map, "name", &self.name)?;
        number(&mut map, "version", self.version)?;
        text(&mut map, "encoding", self.encoding.name())?;
        if self.class != Named::Known(Class::Plain) {
            text(&mut map, "class", self.class.name())?;
        }
        number(&mut map, "size", self.size)?;
        text(&mut map, "format", &self.format)?;
        text(&mut map, "help", &self.help)?;
        list(&mut map, "fields", &self.fields)?;
        map.end()
    }
}

impl Serialize for TypeField {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        text(&mut map, "name", &self.name)?;
        number(&mut map, "at", self.at)?;
        match &self.constant {
            Some(constant) => map.serialize_entry("constant", constant)?,
            None => self.shape.members(&mut map)?,
        }
        text(&mut map, "unit", &self.unit)?;
        text(&mut map, "help", &self.help)?;
        map.end()
    }
}

impl Serialize for TypeShape {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        self.members(&mut map)?;
        map.end()
    }
}

impl Serialize for TypeLabel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("value", &self.value)?;
        text(&mut map, "name", &self.name)?;
        map.end()
    }
}
