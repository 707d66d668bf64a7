//! Names of rings, and files of rings that are read: removed, renamed, copied.

use super::Engine;
use super::ring::{Note, Ring, Stage};
use perfring_consumer::Location;

impl Engine {
    /// Gives a new ring the name of its input, and makes it another name than those of all rings that are read. The name stays
    /// while the ring is read.
    pub(super) fn name(&mut self, ring: &mut Ring) {
        let at = ring.location.clone();
        let origin = ring.shapes.origin_mut();
        if let Some(input) = &ring.input.name {
            origin.name = format!("{input}/{}", origin.name);
        }
        let name = origin.name.clone();
        // A ring that replaces another one at its place has its name.
        let others = self.rings.iter().map(|(_, other)| other);
        let others = others.filter(|other| other.location.is_none() || other.location != at);
        let others = others.filter(|other| other.stage == Stage::Reading);
        let names: Vec<&str> = others.map(|other| &*other.shapes.origin().name).collect();
        if origin.distinguish(|name| names.contains(&name)) {
            let location = origin.name.clone();
            self.notes.push(Note::SameName { name, location });
        }
    }

    /// Notes that the file of a ring was removed: the ring ends once it is read and has no producer.
    pub fn file_removed(&mut self, uuid: &[u8; 16]) {
        let Some(id) = self.by_uuid.get(uuid).copied() else { return };
        if let Some(ring) = self.rings.get_mut(id) {
            ring.removed = true;
            self.leave(id);
        }
    }

    /// Notes where the file of a ring is now, which may be in the directory of another input.
    pub fn file_renamed(&mut self, uuid: &[u8; 16], location: &Location) {
        let Some(id) = self.by_uuid.get(uuid).copied() else { return };
        if let Some(ring) = self.rings.get_mut(id)
            && ring.stage == Stage::Reading
        {
            (ring.removed, ring.replaced) = (false, false);
            ring.location = Some(location.clone());
            self.leaving.retain(|leaving| *leaving != id);
        }
    }

    /// Notes that there is another file of a ring whose file was removed: the ring ends once it is read, also with a producer.
    pub fn file_replaced(&mut self, uuid: &[u8; 16]) {
        let ring = self.by_uuid.get(uuid).and_then(|id| self.rings.get_mut(*id));
        if let Some(ring) = ring.filter(|ring| ring.removed) {
            ring.replaced = true;
        }
    }
}
