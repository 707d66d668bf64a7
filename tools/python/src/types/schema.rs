//! Converts a spec, which is the JSON of a type table with an optional `id`, to a `Schema`.

use crate::errors::bad_type;
use perfring_producer::RecordType as Id;
use perfring_types::read::{Named, Type, TypeField, TypeShape, Value};
use perfring_types::{Constant, Encoding, Field, Label, Schema, Shape};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::{Cell, OnceCell};

/// The longest payload, in a ring without timestamps.
const LONGEST: u32 = 65_520;

/// Calls `use_it` with the schema that a spec describes, and its id: the spec's or the hashed one.
pub(crate) fn with_schema<R>(
    py: Python<'_>,
    spec: &str,
    use_it: impl FnOnce(&Schema<'_>) -> R,
) -> PyResult<R> {
    let kind = Type::parse(Id::BYTES, spec)
        .map_err(|wrong| bad_type(py, format!("this is no type: {}", wrong.what())))?;
    let id = given_id(py, spec)?;
    let arena = Arena::of(&kind);
    let schema = arena
        .schema(&kind)
        .map_err(|what| bad_type(py, format!("the type {:?} cannot be: {what}", kind.name)))?;
    Ok(match id {
        Some(id) => use_it(&Schema { id, ..schema }),
        None => use_it(&schema.with_hashed_id()),
    })
}

fn given_id(py: Python<'_>, spec: &str) -> PyResult<Option<Id>> {
    let spec = py.import("json")?.call_method1("loads", (spec,))?;
    let Some(id) = spec.cast::<PyDict>()?.get_item("id")? else { return Ok(None) };
    match id.extract::<u32>().ok().and_then(Id::new) {
        Some(id) => Ok(Some(id)),
        None => Err(bad_type(
            py,
            format!(
                "the id {id} is the kernel's or the ring's, or no number of 32 bits: use one from \
                 64 on that is not 0x50460000 to 0x5046ffff, or leave it out and have one from \
                 name and layout"
            ),
        )),
    }
}

/// Owns what the parts of a schema borrow.
struct Arena<'a> {
    shapes: Places<Shape<'a>>,
    fields: Places<Vec<Field<'a>>>,
    labels: Places<Vec<Label<'a>>>,
}

/// A number of slots, each filled once.
struct Places<T> {
    places: Vec<OnceCell<T>>,
    next: Cell<usize>,
}

impl<T> Places<T> {
    fn new(count: usize) -> Self {
        let places = std::iter::repeat_with(OnceCell::new).take(count).collect();
        Places { places, next: Cell::new(0) }
    }

    fn keep(&self, value: T) -> Result<&T, String> {
        let at = self.next.replace(self.next.get() + 1);
        let place = self.places.get(at).ok_or("it has more parts than were counted")?;
        Ok(place.get_or_init(|| value))
    }
}

fn count(fields: &[TypeField]) -> usize {
    fn of_shape(shape: &TypeShape) -> usize {
        1 + shape.of.as_deref().map_or(0, of_shape) + count(&shape.fields)
    }
    fields.iter().map(|field| of_shape(&field.shape)).sum()
}

impl<'a> Arena<'a> {
    fn of(kind: &Type) -> Self {
        let count = count(&kind.fields);
        let (shapes, labels) = (Places::new(count), Places::new(count));
        Arena { shapes, fields: Places::new(count + 1), labels }
    }

    fn schema(&'a self, kind: &'a Type) -> Result<Schema<'a>, String> {
        let encoding = known(&kind.encoding, kind.encoding.name(), "encoding")?;
        if kind.name.is_empty() {
            return Err("it has no name".into());
        }
        if encoding == Encoding::Pod && kind.size > LONGEST {
            let size = kind.size;
            return Err(format!(
                "it has {size} bytes, and a record has at most {LONGEST}: publish it in parts"
            ));
        }
        let version = u16::try_from(kind.version)
            .map_err(|_| format!("version {} is above {}", kind.version, u16::MAX))?;
        Ok(Schema {
            version,
            class: known(&kind.class, kind.class.name(), "class")?,
            format: &kind.format,
            help: &kind.help,
            ..Schema::new(&kind.name, encoding)
        }
        .with_fields(kind.size, self.fields(&kind.fields)?))
    }

    fn fields(&'a self, fields: &'a [TypeField]) -> Result<&'a [Field<'a>], String> {
        let made: Result<Vec<_>, String> = fields
            .iter()
            .map(|field| {
                self.field(field).map_err(|what| format!("field {:?}: {what}", &*field.name))
            })
            .collect();
        self.fields.keep(made?).map(Vec::as_slice)
    }

    fn field(&'a self, field: &'a TypeField) -> Result<Field<'a>, String> {
        let made = match &field.constant {
            Some(value) => Field::constant(&field.name, constant(value)?),
            None => Field::new(&field.name, field.at, self.shape(&field.shape)?),
        };
        Ok(Field { unit: &field.unit, help: &field.help, ..made })
    }

    fn shape(&'a self, shape: &'a TypeShape) -> Result<Shape<'a>, String> {
        let of = match &shape.of {
            Some(of) => Some(self.shapes.keep(self.shape(of)?)?),
            None => None,
        };
        let labels = shape.labels.iter();
        let labels = labels.map(|label| Label { value: label.value, name: &label.name }).collect();
        Ok(Shape {
            count: shape.count,
            at: shape.at,
            of,
            fields: self.fields(&shape.fields)?,
            labels: self.labels.keep(labels)?,
            ..Shape::plain(known(&shape.kind, shape.kind.name(), "kind")?, shape.size)
        })
    }
}

fn known<T: Copy>(named: &Named<T>, name: &str, what: &str) -> Result<T, String> {
    match named {
        Named::Known(known) => Ok(*known),
        Named::Other(_) => Err(format!("{name:?} is no {what} that this version knows")),
    }
}

fn constant(value: &Value) -> Result<Constant<'_>, String> {
    Ok(match value {
        Value::Bool(value) => Constant::Bool(*value),
        Value::I64(value) => Constant::I64(*value),
        Value::U64(value) => Constant::U64(*value),
        Value::F64(value) => Constant::F64(*value),
        Value::Str(value) => Constant::Str(value),
        _ => return Err("a constant is a truth value, a number or a text".into()),
    })
}
