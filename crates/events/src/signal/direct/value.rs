//! Values of fields.

use perfring_types::Kind;
use perfring_types::read::{TypeField, TypeShape, Value};
use perfring_types::tagged::Data;

/// Returns the value of a field's constant.
pub(super) fn constant(field: &TypeField) -> Option<Data<'_>> {
    Some(match field.constant.as_ref()? {
        Value::Bool(value) => Data::Bool(*value),
        Value::I64(value) => Data::I64(*value),
        Value::U64(value) => Data::U64(*value),
        Value::F64(value) => Data::F64(*value),
        Value::Str(value) => Data::Text(value),
        _ => return None,
    })
}

/// Returns the name of an enumeration's value, if it has one.
pub(super) fn label<'a>(shape: &'a TypeShape, value: Data<'a>) -> Data<'a> {
    let number = match value {
        Data::I64(number) => Some(number),
        Data::U64(number) => i64::try_from(number).ok(),
        Data::I128(number) => i64::try_from(number).ok(),
        Data::U128(number) => i64::try_from(number).ok(),
        _ => None,
    };
    match number {
        Some(number) => shape.label(number).map_or(Data::I64(number), |name| Data::Text(name)),
        None => value,
    }
}

/// Returns whether the values of this shape need no decoding.
pub(super) fn is_direct(shape: &TypeShape) -> bool {
    let is_integer = |shape: &TypeShape| shape.kind.known().is_some_and(is_integer);
    match shape.kind.known() {
        Some(Kind::Enum) => shape.of.as_deref().is_some_and(is_integer),
        Some(Kind::Text | Kind::Bytes | Kind::Bool | Kind::F32 | Kind::F64) => true,
        _ => is_integer(shape),
    }
}

fn is_integer(kind: Kind) -> bool {
    use Kind::*;
    matches!(kind, U8 | U16 | U32 | U64 | U128 | I8 | I16 | I32 | I64 | I128)
}

/// Returns the value of this shape at an offset; `None` if it must be decoded.
pub(super) fn at_offset<'a>(shape: &TypeShape, at: u32, payload: &'a [u8]) -> Option<Data<'a>> {
    let bytes = payload.get(at as usize..)?;
    let sized = || bytes.get(..shape.size as usize);
    fn word<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.first_chunk::<N>().copied()
    }
    Some(match shape.kind.known()? {
        Kind::U8 => Data::U64(u8::from_ne_bytes(word(bytes)?).into()),
        Kind::U16 => Data::U64(u16::from_ne_bytes(word(bytes)?).into()),
        Kind::U32 => Data::U64(u32::from_ne_bytes(word(bytes)?).into()),
        Kind::U64 => Data::U64(u64::from_ne_bytes(word(bytes)?)),
        Kind::U128 => Data::U128(u128::from_ne_bytes(word(bytes)?)),
        Kind::I8 => Data::I64(i8::from_ne_bytes(word(bytes)?).into()),
        Kind::I16 => Data::I64(i16::from_ne_bytes(word(bytes)?).into()),
        Kind::I32 => Data::I64(i32::from_ne_bytes(word(bytes)?).into()),
        Kind::I64 => Data::I64(i64::from_ne_bytes(word(bytes)?)),
        Kind::I128 => Data::I128(i128::from_ne_bytes(word(bytes)?)),
        Kind::F32 => Data::F64(f32::from_ne_bytes(word(bytes)?).into()),
        Kind::F64 => Data::F64(f64::from_ne_bytes(word(bytes)?)),
        Kind::Bool => match word(bytes)? {
            [0] => Data::Bool(false),
            [1] => Data::Bool(true),
            _ => return None,
        },
        Kind::Text => {
            let bytes = sized()?;
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            Data::Text(str::from_utf8(bytes.get(..end)?).ok()?)
        }
        Kind::Bytes => Data::Bytes(sized()?),
        Kind::Enum => at_offset(shape.of.as_deref()?, at, payload)?,
        _ => return None,
    })
}
