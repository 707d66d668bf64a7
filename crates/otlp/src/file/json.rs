//! A request as JSON.
//!
//! Made from its bytes, by the table of names. The `with-serde` feature of the crate `opentelemetry-proto` writes `null` for a
//! double that is not a number or infinite, and for each optional one that is missing: such a value would be lost, and readers
//! that expect a number refuse the line. Tests read all lines with that crate.

use super::names::{Field, Form, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::io::Write as _;

/// Appends a message as an object; `None` if it is no message of this type, or has a field that the table lacks.
pub(super) fn object(message: &Message, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // The values of a repeated field may have others between them.
    let (mut rest, mut present) = (bytes, 0u32);
    while let Some(key) = next(&mut rest)? {
        message.0.iter().find(|field| field.number == key.number)?;
        present |= 1u32.checked_shl(key.number)?;
    }
    out.push(b'{');
    let mut comma = "";
    for field in message.0 {
        // An empty list is `{"values":[]}` for readers that ask for the member.
        let is_empty_list = matches!(message.0, [Field { repeated: true, .. }]);
        if present & (1 << field.number) == 0 && !is_empty_list {
            continue;
        }
        let _ = write!(out, "{comma}\"{}\":", field.name); // a `Vec` takes all
        comma = ",";
        let mut of_field = bytes;
        if field.repeated {
            all(field, of_field, out)?;
            continue;
        }
        let mut last = None;
        while let Some(key) = next(&mut of_field)? {
            last = Some(key).filter(|key| key.number == field.number).or(last);
        }
        value(&field.form, &mut last?.value, out)?;
    }
    out.push(b'}');
    Some(())
}

/// Appends the values of a repeated field.
fn all(field: &Field, mut bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.push(b'[');
    let mut comma = "";
    while let Some(mut key) = next(&mut bytes)? {
        if key.number != field.number {
            continue;
        }
        let mut separated = |bytes: &mut &[u8]| {
            out.extend_from_slice(comma.as_bytes());
            comma = ",";
            value(&field.form, bytes, out)
        };
        // Scalars are packed: one key brings several, or none.
        if !field.form.is_scalar() {
            separated(&mut key.value)?;
        }
        while field.form.is_scalar() && !key.value.is_empty() {
            separated(&mut key.value)?;
        }
    }
    out.push(b']');
    Some(())
}

/// A key, and the bytes of what it brings.
#[derive(Clone, Copy)]
struct Key<'a> {
    number: u32,
    value: &'a [u8],
}

/// Takes the next key from a message: `Some(None)` at its end, `None` if it is damaged.
#[expect(clippy::option_option, reason = "a damaged message has no end")]
fn next<'a>(bytes: &mut &'a [u8]) -> Option<Option<Key<'a>>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let (number, wire) = decode_key(bytes).ok()?;
    let len = match wire {
        WireType::Varint => {
            let mut rest = *bytes;
            decode_varint(&mut rest).ok()?;
            bytes.len() - rest.len()
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => usize::try_from(decode_varint(bytes).ok()?).ok()?,
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    let (value, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(Some(Key { number, value }))
}

/// Appends a value: all of the bytes, or the first scalar of them.
fn value(form: &Form, bytes: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
    // Writing to a `Vec` cannot fail.
    let _ = match form {
        Form::Of(message) => return object(message, bytes, out),
        Form::Text => serde_json::to_writer(out, str::from_utf8(bytes).ok()?).map_err(Into::into),
        Form::Base64 => write!(out, "\"{}\"", STANDARD.encode(bytes)),
        Form::Hex => {
            out.push(b'"');
            bytes.iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
            out.push(b'"');
            Ok(())
        }
        Form::Int => write!(out, "{}", decode_varint(bytes).ok()? as u32 as i32),
        Form::UInt => write!(out, "{}", decode_varint(bytes).ok()? as u32),
        Form::Zigzag => {
            let value = decode_varint(bytes).ok()? as u32;
            write!(out, "{}", (value >> 1) as i32 ^ -((value & 1) as i32))
        }
        Form::Fixed32 => write!(out, "{}", bytes.try_get_u32_le().ok()?),
        Form::Long => write!(out, "\"{}\"", decode_varint(bytes).ok()? as i64),
        Form::ULong => write!(out, "\"{}\"", decode_varint(bytes).ok()?),
        Form::Fixed64 => write!(out, "\"{}\"", bytes.try_get_u64_le().ok()?),
        Form::SFixed64 => write!(out, "\"{}\"", bytes.try_get_i64_le().ok()?),
        Form::Double => match bytes.try_get_f64_le().ok()? {
            value if value.is_nan() => write!(out, "\"NaN\""),
            f64::INFINITY => write!(out, "\"Infinity\""),
            f64::NEG_INFINITY => write!(out, "\"-Infinity\""),
            value => serde_json::to_writer(out, &value).map_err(Into::into),
        },
        Form::Bool => write!(out, "{}", decode_varint(bytes).ok()? != 0),
    };
    Some(())
}
