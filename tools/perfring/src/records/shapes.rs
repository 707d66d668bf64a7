//! The types and clock anchors of a ring, for commands that show its records.

use crate::failure::Failure;
use crate::records::typed::Seen;
use perfring_consumer::{Anchors, Layout, Location, RecordRef, RecordType, Types};
use perfring_export::Origin;
use perfring_types::read::{TableDamage, TypeTable};

/// The types of a ring, and its clock anchors. Of a followed ring both are updated.
#[derive(Debug)]
pub(crate) struct Shapes {
    inner: perfring_export::Shapes,
    /// The name of the ring, where there are several.
    pub(crate) name: Option<String>,
}

impl Shapes {
    /// From copies of a table and of anchors.
    pub(crate) fn of(types: Types, anchors: Anchors) -> Self {
        let origin = Origin { anchors, ..Origin::default() };
        Shapes { inner: perfring_export::Shapes::of(origin, types), name: None }
    }

    /// Sets the name of the ring.
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Shapes { name: Some(name.into()), ..self }
    }

    /// Replaces the anchors.
    pub(crate) fn set_anchors(&mut self, anchors: Anchors) {
        self.inner.origin_mut().anchors = anchors;
    }

    /// Follows the ring at a location, if it is the one of this layout.
    pub(crate) fn follow(location: &Location, layout: &Layout) -> Result<Self, Failure> {
        let inner = perfring_export::Shapes::open(location, 0)?;
        if inner.is_of(layout) {
            return Ok(Shapes { inner, name: None });
        }
        // Another ring has taken the name: the types of this one cannot be found out.
        Ok(Self::of(Types::default(), Anchors::default()))
    }

    pub(crate) fn table(&self) -> &TypeTable {
        &self.inner.origin().types
    }

    /// Returns what of the table cannot be read.
    pub(crate) fn damage(&self) -> &[TableDamage] {
        self.table().damage()
    }

    /// Pairs a record with its type; reads the table again for types registered since the last
    /// call.
    pub(crate) fn see<'a>(&'a mut self, record: RecordRef<'a>) -> Seen<'a> {
        self.inner.prepare(&record);
        let origin = self.inner.origin();
        let kind = RecordType::new(record.kind).and_then(|kind| origin.types.get(kind));
        Seen::new(record, kind, &origin.anchors)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use perfring_consumer::{Observer, Start};
    use perfring_producer::{Options, Producer};
    use perfring_types::{Encoding, Schema};

    #[test]
    fn a_ring_that_took_the_name_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let ring = |name: &str| {
            let path = dir.path().join(name);
            let mut producer = Producer::create(&path, &Options::default()).unwrap();
            let id = RecordType::new(5000).unwrap();
            producer.register(&Schema { id, ..Schema::new("x", Encoding::Utf8) }).unwrap();
            (*Observer::attach(&path, Start::Oldest).unwrap().layout(), Location::from(path))
        };
        let ((own, location), (other, _)) = (ring("one"), ring("other"));
        assert_eq!(Shapes::follow(&location, &own).unwrap().table().len(), 1);
        assert!(Shapes::follow(&location, &other).unwrap().table().is_empty());
    }
}
