//! Writing fields into a payload.

use crate::site;
use perfring_producer::types::Class;
use perfring_producer::types::tagged::{Key, TaggedWriter};
use std::error::Error;
use std::fmt;
use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};

/// Appends each visited field.
pub(crate) struct Fields<'a, 'w> {
    pub(crate) writer: &'a mut TaggedWriter<'w>,
    /// The number of the first field; `None` to write names with the values.
    pub(crate) first: Option<u16>,
    pub(crate) class: Class,
    pub(crate) metadata: &'static Metadata<'static>,
}

impl Fields<'_, '_> {
    /// The closures own what they write: a value whose address is taken is stored, and loaded again with its neighbours.
    #[inline(always)]
    fn put(&mut self, field: &Field, put: impl FnOnce(&mut TaggedWriter<'_>, Key<'_>)) {
        match self.first {
            Some(first) => put(self.writer, Key::Field(first + field.index() as u16)),
            None => self.put_named(field, put),
        }
    }

    #[cold]
    #[inline(never)]
    fn put_named(&mut self, field: &Field, put: impl FnOnce(&mut TaggedWriter<'_>, Key<'_>)) {
        let put = |name: &str| put(self.writer, Key::Name(name));
        site::with_name(self.class, self.metadata, field.name(), put);
    }
}

impl Visit for Fields<'_, '_> {
    #[inline]
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, move |writer, key| writer.f64(key, value));
    }

    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, move |writer, key| writer.i64(key, value));
    }

    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, move |writer, key| writer.u64(key, value));
    }

    #[inline]
    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put(field, move |writer, key| writer.i128(key, value));
    }

    #[inline]
    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put(field, move |writer, key| writer.u128(key, value));
    }

    #[inline]
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, move |writer, key| writer.bool(key, value));
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, move |writer, key| writer.text(key, value));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.put(field, move |writer, key| writer.bytes(key, value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, move |writer, key| writer.display(key, Chain(value)));
    }

    #[inline]
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, move |writer, key| writer.debug(key, value));
    }
}

/// An error with its sources.
struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        // An error may be its own source.
        for _ in 0..32 {
            let Some(error) = next else { break };
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}
