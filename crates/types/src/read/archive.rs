//! Fields at offsets: Pod payloads, and rkyv archives, which add pointers.

use super::layout::ByteLayout;
use super::limits::{Fault, Left, labelled};
use super::types::{TypeField, TypeShape};
use super::value::Value;
use crate::schema::Kind;

/// Reads from one payload, and counts the values that it makes.
pub(super) struct ArchiveReader<'a> {
    payload: &'a [u8],
    layout: ByteLayout,
    left: Left,
}

impl<'a> ArchiveReader<'a> {
    pub(super) fn new(payload: &'a [u8], layout: ByteLayout) -> Self {
        ArchiveReader { payload, layout, left: Left::of(payload) }
    }

    /// Reads a struct of these fields that begins at `at`.
    pub(super) fn structure(&mut self, fields: &[TypeField], at: usize) -> Result<Value, Fault> {
        let mut values = Vec::with_capacity(fields.len().min(self.left.values));
        for field in fields {
            self.left.take_bytes(field.name.len())?;
            let value = match &field.constant {
                Some(constant) => self.left.constant(constant),
                None if !field.shape.shown => continue,
                None => self.value(&field.shape, plus(at, field.at)),
            };
            values.push((field.name.clone(), value.map_err(|fault| fault.at(&field.name))?));
        }
        Ok(Value::Struct(values))
    }

    fn value(&mut self, shape: &TypeShape, at: usize) -> Result<Value, Fault> {
        self.left.take_values(1)?;
        let Some(kind) = shape.kind.known() else {
            return self.bytes(at, shape.size).map(|bytes| Value::Bytes(bytes.to_vec()));
        };
        Ok(match kind {
            Kind::U8 => Value::U64(u8::from_le_bytes(self.word(at)?).into()),
            Kind::U16 => Value::U64(u16::from_le_bytes(self.word(at)?).into()),
            Kind::U32 => Value::U64(u32::from_le_bytes(self.word(at)?).into()),
            Kind::U64 => Value::U64(u64::from_le_bytes(self.word(at)?)),
            Kind::U128 => Value::U128(u128::from_le_bytes(self.word(at)?)),
            Kind::I8 => Value::I64(i8::from_le_bytes(self.word(at)?).into()),
            Kind::I16 => Value::I64(i16::from_le_bytes(self.word(at)?).into()),
            Kind::I32 => Value::I64(i32::from_le_bytes(self.word(at)?).into()),
            Kind::I64 => Value::I64(i64::from_le_bytes(self.word(at)?)),
            Kind::I128 => Value::I128(i128::from_le_bytes(self.word(at)?)),
            Kind::F32 => Value::F32(f32::from_le_bytes(self.word(at)?)),
            Kind::F64 => Value::F64(f64::from_le_bytes(self.word(at)?)),
            Kind::Bool => match self.word(at)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(format!("{other} is not a boolean").into()),
            },
            Kind::Char => {
                let number = u32::from_le_bytes(self.word(at)?);
                let char = char::from_u32(number);
                Value::Char(char.ok_or_else(|| format!("{number:#x} is not a character"))?)
            }
            Kind::Text => {
                let bytes = self.bytes(at, shape.size)?;
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                Value::Str(String::from_utf8_lossy(&bytes[..end]).into_owned())
            }
            Kind::Bytes => Value::Bytes(self.bytes(at, shape.size)?.to_vec()),
            Kind::Array => self.list(of(shape)?, at, shape.count as usize)?,
            Kind::Enum => {
                let value = labelled(self.value(of(shape)?, at)?, shape);
                self.left.take_label(&value)?;
                value
            }
            Kind::String => self.string(at)?,
            Kind::Vec => self.vector(of(shape)?, at)?,
            Kind::Option => match self.word(at)? {
                [0] => Value::Null,
                [1] => self.value(of(shape)?, plus(at, shape.at))?,
                [other] => return Err(format!("{other} is not the tag of an option").into()),
            },
            Kind::Any => return Err("it is possible only in a tagged record".into()),
            Kind::Struct => self.structure(&shape.fields, at)?,
        })
    }

    fn list(&mut self, of: &TypeShape, at: usize, count: usize) -> Result<Value, Fault> {
        if count > self.left.values {
            return Err(Left::nothing());
        }
        let mut values = Vec::with_capacity(count);
        for index in 0..count {
            let at = at.saturating_add(index.saturating_mul(of.size as usize));
            values.push(self.value(of, at).map_err(|fault| fault.at(index))?);
        }
        Ok(Value::List(values))
    }

    /// An `ArchivedString`.
    fn string(&mut self, at: usize) -> Result<Value, Fault> {
        let pair = self.get(at, 2 * self.layout.width)?;
        let first = pair.first().copied().unwrap_or_default();
        let text = if first & 0xc0 != 0x80 {
            let len = pair.iter().position(|byte| *byte == 0xff).unwrap_or(pair.len());
            &pair[..len]
        } else {
            let word = self.size(at)?;
            // The two bits `10` are in the first byte, at the end that the byte order gives.
            let len = if self.layout.big {
                word & (u64::MAX >> (66 - 8 * self.layout.width))
            } else {
                (word & 0x3f) | ((word & !0xff) >> 2)
            };
            let begin = self.target(at, plus(at, self.layout.width as u32), len, 1)?;
            self.get(begin, len as usize)?
        };
        self.left.take_bytes(text.len())?;
        match str::from_utf8(text) {
            Ok(text) => Ok(Value::Str(text.to_owned())),
            Err(error) => Err(format!("it is not UTF-8: {error}").into()),
        }
    }

    /// Reads an `ArchivedVec`: a pointer, relative to its own address, and a length.
    fn vector(&mut self, of: &TypeShape, at: usize) -> Result<Value, Fault> {
        let count = self.size(plus(at, self.layout.width as u32))?;
        if count == 0 {
            return Ok(Value::List(Vec::new())); // its pointer may have any value
        }
        let begin = self.target(at, at, count, of.size)?;
        self.list(of, begin, count as usize)
    }

    /// Returns the offset of `count` times `size` bytes, to which the pointer at `pointer` leads
    /// from `at`.
    fn target(&self, at: usize, pointer: usize, count: u64, size: u32) -> Result<usize, Fault> {
        let shift = 128 - 8 * self.layout.width as u32;
        let offset = (self.size(pointer)? as u128 as i128) << shift >> shift;
        let begin = at as i128 + offset;
        let len = i128::from(count) * i128::from(size);
        if begin < 0 || begin + len > self.payload.len() as i128 {
            let end = self.payload.len();
            return Err(
                format!("it points to {len} bytes at {begin}, and the record has {end}").into()
            );
        }
        Ok(begin as usize)
    }

    /// Reads an archived `usize`.
    fn size(&self, at: usize) -> Result<u64, Fault> {
        Ok(match self.layout.width {
            2 => u16::from_le_bytes(self.word(at)?).into(),
            4 => u32::from_le_bytes(self.word(at)?).into(),
            _ => u64::from_le_bytes(self.word(at)?),
        })
    }

    /// Returns the bytes of a number, the least significant first.
    fn word<const N: usize>(&self, at: usize) -> Result<[u8; N], Fault> {
        let bytes = self.get(at, N)?.first_chunk::<N>();
        let mut word = *bytes.ok_or_else(|| self.beyond(at, N))?;
        if self.layout.big {
            word.reverse();
        }
        Ok(word)
    }

    fn bytes(&mut self, at: usize, size: u32) -> Result<&'a [u8], Fault> {
        self.left.take_bytes(size as usize)?;
        self.get(at, size as usize)
    }

    fn get(&self, at: usize, len: usize) -> Result<&'a [u8], Fault> {
        let bytes = at.checked_add(len).and_then(|end| self.payload.get(at..end));
        bytes.ok_or_else(|| self.beyond(at, len))
    }

    fn beyond(&self, at: usize, len: usize) -> Fault {
        format!("it takes {len} bytes at {at}, and the record has {}", self.payload.len()).into()
    }
}

fn of(shape: &TypeShape) -> Result<&TypeShape, Fault> {
    shape.of.as_deref().ok_or_else(|| "its element type is missing".into())
}

fn plus(at: usize, more: u32) -> usize {
    at.saturating_add(more as usize)
}
