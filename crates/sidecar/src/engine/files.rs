//! Files of rings that are read: removed, renamed, copied.

use super::Engine;
use super::ring::{Note, Ring, Stage, file_at};
use perfring_consumer::Location;

/// What a file is, of a ring with a known uuid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Appeared {
    /// It is not read.
    New,
    /// It is read.
    Read,
    /// It is a copy of a ring that is read, whose location this is.
    Copy(String),
}

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

    /// Notes that the file of a ring at this location was removed: the ring ends once it is read and has no producer. Another
    /// file of that ring, a copy, may have been there.
    pub fn file_removed(&mut self, uuid: &[u8; 16], location: &Location) {
        let Some(id) = self.by_uuid.get(uuid) else { return };
        if let Some(ring) = self.rings.get_mut(*id)
            && ring.location.as_ref() == Some(location)
        {
            ring.removed = true;
            self.leave(*id);
        }
    }

    /// Notes a file of a ring. Returns whether the ring is read by this file, which may have had another name.
    ///
    /// A ring that is read by another file, which was removed or is no longer followed, ends: this file takes its place.
    pub fn file_appeared(&mut self, uuid: &[u8; 16], location: &Location) -> Appeared {
        let Some(id) = self.by_uuid.get(uuid) else { return Appeared::New };
        let Some(ring) = self.rings.get_mut(*id) else { return Appeared::New };
        if ring.stage != Stage::Reading {
            return Appeared::New;
        }
        let is_here = |location: &Location| file_at(location) == ring.file;
        let named = ring.location.as_ref().is_some_and(is_here);
        if is_here(location) {
            // Renamed, also into the directory of another input.
            if !named {
                ring.location = Some(location.clone());
            }
            if std::mem::take(&mut ring.removed) {
                ring.location = Some(location.clone());
            }
            self.leaving.retain(|leaving| leaving != id);
            return Appeared::Read;
        }
        if named && !ring.removed {
            return Appeared::Copy(
                ring.location.as_ref().map_or_else(String::new, ToString::to_string),
            );
        }
        ring.stage = Stage::Ending;
        self.leave(*id);
        Appeared::New
    }
}
