//! Columns: the types of their values, and the mapping from a record's fields.

use super::options::Timestamps;
use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::Result as Parquet;
use ::parquet::schema::types::Type as Schema;
use perfring_types::read::{Type, TypeField, TypeShape, Value};
use perfring_types::{Encoding, Kind};
use std::sync::Arc;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Bool,
    /// An integer of this many bits, up to 32; and of 64.
    Int(i8, bool),
    Long,
    Unsigned,
    Float,
    Double,
    Text,
    Bytes,
    /// A time since 1970.
    Time(Timestamps),
    /// Any value, as JSON in a text.
    Json,
}

/// A column. All are nullable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) of: Of,
    /// Whether it holds lists of these values.
    pub(super) is_list: bool,
    /// The path to its value in a record: indices of struct fields.
    pub(super) path: Vec<usize>,
}

impl Column {
    pub(super) fn new(name: &str, of: Of) -> Self {
        Column { name: name.into(), of, is_list: false, path: Vec::new() }
    }

    pub(super) fn schema(&self) -> Parquet<Arc<Schema>> {
        let (physical, logical) = match self.of {
            Of::Bool => (Physical::BOOLEAN, None),
            Of::Int(bits, is_signed) => {
                (Physical::INT32, Some(LogicalType::integer(bits, is_signed)))
            }
            Of::Long => (Physical::INT64, None),
            Of::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Of::Float => (Physical::FLOAT, None),
            Of::Double => (Physical::DOUBLE, None),
            Of::Text | Of::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Of::Bytes => (Physical::BYTE_ARRAY, None),
            Of::Time(unit) => {
                let unit = match unit {
                    Timestamps::Ns => TimeUnit::NANOS,
                    Timestamps::Us => TimeUnit::MICROS,
                };
                (Physical::INT64, Some(LogicalType::timestamp(true, unit)))
            }
        };
        let name = if self.is_list { "element" } else { self.name.as_str() };
        let value = Schema::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()?;
        if !self.is_list {
            return Ok(Arc::new(value));
        }
        let list = Schema::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![Arc::new(value)])
            .build()?;
        let group = Schema::group_type_builder(&self.name)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::List))
            .with_fields(vec![Arc::new(list)])
            .build()?;
        Ok(Arc::new(group))
    }

    /// Returns whether it can hold this value.
    pub(super) fn fits(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::List(values) if self.is_list => {
                values.iter().all(|value| *value == Value::Null || self.of.fits(value))
            }
            value => !self.is_list && self.of.fits(value),
        }
    }
}

impl Of {
    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Of::Long, Value::U64(value)) => i64::try_from(*value).is_ok(),
            (Of::Int(..), Value::U64(_) | Value::I64(_))
            | (Of::Bool, Value::Bool(_))
            | (Of::Long, Value::I64(_))
            | (Of::Unsigned, Value::U64(_))
            | (Of::Float, Value::F32(_))
            | (Of::Double, Value::F64(_))
            | (Of::Bytes, Value::Bytes(_))
            | (Of::Json, _) => true,
            (Of::Text, Value::Str(_) | Value::Char(_) | Value::Label { .. }) => true,
            (Of::Text, Value::I128(_) | Value::U128(_)) => true,
            _ => false,
        }
    }
}

/// Returns the columns of all records.
pub(super) fn of_records(time: Timestamps) -> [(&'static str, Of); 8] {
    [
        ("time", Of::Time(time)),
        ("boottime", Of::Unsigned),
        ("ring", Of::Text),
        ("ring_uuid", Of::Text),
        ("pos", Of::Unsigned),
        ("late", Of::Unsigned),
        ("type", Of::Int(32, false)),
        ("type_name", Of::Text),
    ]
}

/// Returns the columns of losses.
pub(super) fn of_losses(time: Timestamps) -> [(&'static str, Of); 8] {
    [
        ("time", Of::Time(time)),
        ("boottime", Of::Unsigned),
        ("ring", Of::Text),
        ("ring_uuid", Of::Text),
        ("pos", Of::Unsigned),
        ("cause", Of::Text),
        ("records", Of::Unsigned),
        ("bytes", Of::Unsigned),
    ]
}

/// Returns the columns of a type whose records all have the same fields; fields of structs have
/// dots.
pub(super) fn of_type(kind: &Type) -> Option<Vec<Column>> {
    if !matches!(kind.encoding.known(), Some(Encoding::Pod | Encoding::Rkyv)) {
        return None;
    }
    let mut columns = Vec::new();
    of_fields(&kind.fields, "", &[], &mut columns);
    Some(columns)
}

fn of_fields(fields: &[TypeField], before: &str, path: &[usize], out: &mut Vec<Column>) {
    // Decoding leaves out what cannot be shown.
    let shown = fields.iter().filter(|field| {
        field.constant.is_some() || field.shape.size > 0 || field.shape.kind.known().is_some()
    });
    for (at, field) in shown.enumerate() {
        let name = format!("{before}{}", field.name);
        let path = [path, &[at]].concat();
        match &field.constant {
            Some(constant) => {
                let (of, is_list) = of_value(constant).unwrap_or((Of::Json, false));
                out.push(Column { name, of, is_list, path });
            }
            None => of_shape(&field.shape, name, path, out),
        }
    }
}

fn of_shape(shape: &TypeShape, name: String, path: Vec<usize>, out: &mut Vec<Column>) {
    let of = shape.of.as_deref();
    match (shape.kind.known(), of) {
        (Some(Kind::Struct), _) => of_fields(&shape.fields, &format!("{name}."), &path, out),
        (Some(Kind::Option), Some(of)) => of_shape(of, name, path, out),
        (Some(Kind::Array | Kind::Vec), Some(of)) => {
            let plain = plain(of);
            let of = plain.unwrap_or(Of::Json);
            out.push(Column { name, of, is_list: plain.is_some(), path });
        }
        _ => {
            let of = plain(shape).unwrap_or(Of::Json);
            out.push(Column { name, of, is_list: false, path });
        }
    }
}

fn plain(shape: &TypeShape) -> Option<Of> {
    let Some(kind) = shape.kind.known() else { return Some(Of::Bytes) };
    Some(match kind {
        Kind::U8 => Of::Int(8, false),
        Kind::U16 => Of::Int(16, false),
        Kind::U32 => Of::Int(32, false),
        Kind::U64 => Of::Unsigned,
        Kind::I8 => Of::Int(8, true),
        Kind::I16 => Of::Int(16, true),
        Kind::I32 => Of::Int(32, true),
        Kind::I64 => Of::Long,
        Kind::F32 => Of::Float,
        Kind::F64 => Of::Double,
        Kind::Bool => Of::Bool,
        Kind::Char | Kind::Text | Kind::String | Kind::U128 | Kind::I128 | Kind::Enum => Of::Text,
        Kind::Bytes => Of::Bytes,
        _ => return None,
    })
}

/// Returns the columns of records whose fields may differ, from the first of them.
pub(super) fn of_values<'a>(values: impl Iterator<Item = &'a Value> + Clone) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for value in values.clone() {
        let (one, fields) = fields(value);
        for (name, value) in one.iter().map(|value| (WHOLE, *value)).chain(fields) {
            let Some((of, is_list)) = of_value(value) else { continue };
            let at = *places.entry(name.to_owned()).or_insert(columns.len());
            match columns.get_mut(at) {
                None => {
                    columns.push(Column { is_list, ..Column::new(name, of) });
                }
                Some(column) if column.is_list != is_list => {
                    (column.of, column.is_list) = (Of::Json, false);
                }
                Some(column) => match (column.of, of) {
                    (was, is) if was == is => {}
                    (Of::Long, Of::Unsigned) | (Of::Unsigned, Of::Long) if !is_list => {
                        column.of = Of::Unsigned;
                    }
                    _ => (column.of, column.is_list) = (Of::Json, false),
                },
            }
        }
    }
    // Integers of both signs, beyond the range of one type.
    for column in &mut columns {
        let all = values.clone().filter_map(|value| of_name(value, &column.name));
        if !column.is_list && !all.clone().all(|value| column.fits(value)) {
            column.of = Of::Json;
        }
    }
    columns
}

/// The name of the column of a value that has no fields.
pub(super) const WHOLE: &str = "value";

/// Returns a record's fields, or the value itself.
pub(super) fn fields(value: &Value) -> (Option<&Value>, impl Iterator<Item = (&str, &Value)>) {
    let (one, fields) = match value {
        Value::Struct(fields) => (None, fields.as_slice()),
        other => (Some(other), &[][..]),
    };
    (one, fields.iter().map(|(name, value)| (&**name, value)))
}

fn of_name<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let (one, mut fields) = fields(value);
    match one {
        Some(value) => (name == WHOLE).then_some(value),
        None => fields.find(|(own, _)| *own == name).map(|(_, value)| value),
    }
}

/// Returns the column type of a value; `None` for null.
fn of_value(value: &Value) -> Option<(Of, bool)> {
    let of = match value {
        Value::Null => return None,
        Value::Bool(_) => Of::Bool,
        Value::U64(value) if i64::try_from(*value).is_err() => Of::Unsigned,
        Value::I64(_) | Value::U64(_) => Of::Long,
        Value::F32(_) => Of::Float,
        Value::F64(_) => Of::Double,
        Value::Bytes(_) => Of::Bytes,
        Value::List(values) if values.iter().all(|one| matches!(one, Value::U64(_))) => {
            return Some((Of::Unsigned, true));
        }
        Value::List(values) if values.iter().all(|one| matches!(one, Value::F64(_))) => {
            return Some((Of::Double, true));
        }
        Value::List(_) | Value::Struct(_) => Of::Json,
        _ => Of::Text,
    };
    Some((of, false))
}
