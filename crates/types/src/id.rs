//! A type's id, derived from its definition.

use crate::schema::{Constant, Field, Schema, Shape};
use perfring_abi::RecordType;

/// FNV-1a, 64 bits (Fowler, Noll, Vo): small, and usable in a `const`.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Fnv {
    const fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut at = 0;
        while at < bytes.len() {
            self.0 = (self.0 ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            at += 1;
        }
        self
    }

    /// Hashes text and its end, so that "ab", "c" differs from "a", "bc".
    const fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes()).bytes(&[0xff])
    }

    const fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    const fn shape(self, shape: &Shape<'_>) -> Self {
        let mut hash = self
            .text(shape.kind.name())
            .number(shape.size as u64)
            .number(shape.count as u64)
            .number(shape.at as u64);
        if let Some(of) = shape.of {
            hash = hash.shape(of);
        }
        let mut at = 0;
        while at < shape.labels.len() {
            hash = hash.number(shape.labels[at].value as u64).text(shape.labels[at].name);
            at += 1;
        }
        hash.fields(shape.fields)
    }

    const fn fields(mut self, fields: &[Field<'_>]) -> Self {
        let mut at = 0;
        while at < fields.len() {
            let field = &fields[at];
            self = self.text(field.name).number(field.at as u64).shape(&field.shape);
            self = match field.constant {
                None => self,
                Some(Constant::Bool(value)) => self.text("bool").number(value as u64),
                Some(Constant::I64(value)) => self.text("i64").number(value as u64),
                Some(Constant::U64(value)) => self.text("u64").number(value),
                Some(Constant::F64(value)) => self.text("f64").number(value.to_bits()),
                Some(Constant::Str(value)) => self.text("str").text(value),
            };
            at += 1;
        }
        self
    }
}

impl Schema<'_> {
    /// Returns a hash of everything that a reader of payloads must know: name, version, encoding,
    /// format, class and fields, without units and help. Types with the same hash are the same.
    #[must_use]
    pub const fn layout(&self) -> u64 {
        Fnv(0xcbf2_9ce4_8422_2325)
            .text(self.name)
            .number(self.version as u64)
            .text(self.encoding.name())
            .text(self.format)
            .text(self.class.name())
            .number(self.size as u64)
            .fields(self.fields)
            .0
    }

    /// Returns a hash of the layout and the id: a producer remembers it for each registered type.
    #[must_use]
    pub const fn key(&self) -> u64 {
        self.layout().rotate_left(20) ^ self.id.get() as u64
    }

    /// Returns the id that follows from [`Schema::layout`]: equal for equal types in every program.
    /// Its highest bit is set, so it differs from the small numbers that people choose.
    #[must_use]
    pub const fn hashed_id(&self) -> RecordType {
        let hash = self.layout();
        match RecordType::new((hash ^ (hash >> 32)) as u32 | 1 << 31) {
            Some(id) => id,
            None => RecordType::BYTES, // unreachable: the highest bit is set
        }
    }
}
