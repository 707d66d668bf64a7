//! The rings that are read, in a table: one is looked up for every record.

use super::merges::RingId;
use super::ring::Ring;
use slab::Slab;

/// Rings by their ids. An id says which slot its ring has; slots are reused, so each says which id its ring has.
#[derive(Default)]
pub(crate) struct Rings {
    all: Slab<(RingId, Ring)>,
}

impl Rings {
    /// Returns the slot of the next ring that is added.
    pub(super) fn vacant(&self) -> u32 {
        self.all.vacant_key() as u32 // there are fewer rings than file descriptors
    }

    /// Adds a ring, whose id is of the vacant slot.
    pub(super) fn add(&mut self, id: RingId, ring: Ring) -> &mut Ring {
        debug_assert_eq!(self.vacant(), id.slot);
        &mut self.all.vacant_entry().insert((id, ring)).1
    }

    pub(super) fn remove(&mut self, id: RingId) {
        if self.get(id).is_some() {
            self.all.remove(id.slot as usize);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub(super) fn get(&self, id: RingId) -> Option<&Ring> {
        let (of, ring) = self.all.get(id.slot as usize)?;
        (*of == id).then_some(ring)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: RingId) -> Option<&mut Ring> {
        let (of, ring) = self.all.get_mut(id.slot as usize)?;
        (*of == id).then_some(ring)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RingId, &Ring)> {
        self.all.iter().map(|(_, (id, ring))| (*id, ring))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (RingId, &mut Ring)> {
        self.all.iter_mut().map(|(_, (id, ring))| (*id, ring))
    }
}

#[cfg(test)]
mod tests {
    use super::super::merges::Merges;
    use super::*;
    use crate::config::{Input, InputSource};
    use perfring_consumer::Location;
    use perfring_producer::{Options, Producer};
    use std::time::Duration;

    #[test]
    fn the_id_of_a_ring_that_is_gone_finds_no_other_ring_in_its_slot() {
        let dir = tempfile::tempdir().unwrap();
        let mut merges = Merges::new(Duration::ZERO).unwrap();
        let mut rings = Rings::default();
        let [first, second] = ["first", "second"].map(|name| {
            let path = dir.path().join(name);
            drop(Producer::create(&path, &Options::default()).unwrap());
            let location = Location::from(path);
            let input = Input::new(InputSource::Ring(location.clone()));
            let (ring, source) = Ring::attach(&location, &input, 0, None, |_| None).unwrap();
            let id = merges.add(ring.class(), source, rings.vacant());
            rings.add(id, ring);
            if name == "first" {
                rings.remove(id);
                merges.remove(id);
            }
            id
        });
        assert_eq!(first.slot, second.slot);
        rings.remove(first);
        assert!(rings.get(first).is_none() && rings.get_mut(first).is_none());
        assert_eq!(rings.iter().map(|(id, _)| id).collect::<Vec<_>>(), [second]);
    }
}
