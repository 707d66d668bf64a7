//! The rings of a recording, as far as it has been read.

use super::error::{Bad, NO_FRAME};
use super::frame::{self, Frame};
use perfring_consumer::advanced::Saved;
use perfring_events::Origin;
use std::collections::HashMap;
use std::fmt;
use uuid::Uuid;

/// The limit of rings at a time, which bounds the reader's memory.
const ORIGINS_MAX: usize = 1 << 16;
/// The limit of bytes of all known type table entries at a time.
const TYPES_MAX: usize = 256 << 20;

/// Returns the number of the ring with this id.
struct Numbers(Box<Number>);

type Number = dyn FnMut(&[u8; 16]) -> u32;

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) origin: Origin,
    types_bytes: usize,
    /// How many types it has got.
    types: u32,
    /// Whether damage took its origin, or types.
    lacks: bool,
}

/// Rings by their numbers in the file.
#[derive(Debug, Default)]
pub(super) struct Rings {
    known: HashMap<u32, Known>,
    types_bytes: usize,
    seen: u32,
    /// Numbers rings by their ids, instead of by their order.
    numbers: Option<Numbers>,
    /// The positions up to which rings were read, by their ids.
    read_to: HashMap<[u8; 16], Saved>,
}

impl Rings {
    /// Numbers rings from now on as this function says, by their ids.
    pub(super) fn number_by(&mut self, number: impl FnMut(&[u8; 16]) -> u32 + 'static) {
        self.numbers = Some(Numbers(Box::new(number)));
    }

    pub(super) fn get(&self, id: u32) -> Option<&Origin> {
        self.known.get(&id).map(|known| &known.origin)
    }

    /// Returns whether a ring is known, with all of its types.
    pub(super) fn is_whole(&self, id: u32) -> bool {
        self.known.get(&id).is_some_and(|known| !known.lacks)
    }

    /// Returns the position up to which each ring was read, by its id, as far as the recording has it.
    pub(super) fn read_to(&self) -> &HashMap<[u8; 16], Saved> {
        &self.read_to
    }

    /// Returns the numbers of all rings, in order.
    pub(super) fn all(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.known.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Forgets all: their numbers are valid no longer.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.types_bytes = 0;
    }

    pub(super) fn forget(&mut self, id: u32) {
        if let Some(known) = self.known.remove(&id) {
            self.types_bytes -= known.types_bytes;
        }
    }

    /// Learns from an ORIGIN. Returns its number.
    pub(super) fn origin(&mut self, frame: &Frame<'_>) -> Result<u32, Bad> {
        let origin = frame.body.origin(|flag| frame.has(flag)).ok_or(NO_FRAME)?;
        let id = origin.id;
        // It may be repeated.
        let is_it = |known: &&Known| known.origin.uuid == origin.uuid && !known.lacks;
        let same = self.known.get(&id).filter(is_it).map(|known| known.origin.id);
        self.forget(id);
        if self.known.len() >= ORIGINS_MAX {
            return Err(Bad("it has more rings at a time than this program can read"));
        }
        let number = same.unwrap_or_else(|| self.number(&origin.uuid));
        self.insert(id, Origin { id: number, ..origin }, false);
        Ok(id)
    }

    fn number(&mut self, uuid: &[u8; 16]) -> u32 {
        let seen = self.seen;
        self.seen = seen.wrapping_add(1);
        match &mut self.numbers {
            Some(Numbers(number)) => number(uuid),
            None => seen,
        }
    }

    fn insert(&mut self, id: u32, origin: Origin, lacks: bool) {
        self.known.insert(id, Known { origin, types_bytes: 0, types: 0, lacks });
    }

    /// Learns from a TYPE, ANCHORS or READ_TO frame of a ring. Returns whether it is one.
    pub(super) fn learn(&mut self, id: u32, frame: &Frame<'_>) -> Result<bool, Bad> {
        let known = self.known.get_mut(&id).ok_or(Bad("a record of an unknown ring"))?;
        let mut body = frame.body;
        body.word().ok_or(NO_FRAME)?;
        match frame.what {
            frame::TYPE => {
                let entry = body.entry().ok_or(NO_FRAME)?;
                let bytes = body.0.len();
                known.types_bytes += bytes;
                known.types += 1;
                self.types_bytes += bytes;
                if self.types_bytes > TYPES_MAX {
                    return Err(Bad("its rings have more types than this program can read"));
                }
                known.origin.types.extend([Ok(entry)]);
            }
            frame::ANCHORS => known.origin.anchors = body.anchors().ok_or(NO_FRAME)?,
            frame::READ_TO => {
                let at = body.read_to().ok_or(NO_FRAME)?;
                let uuid = known.origin.uuid;
                if self.read_to.len() < ORIGINS_MAX || self.read_to.contains_key(&uuid) {
                    self.read_to.insert(uuid, at);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Notes how many types a ring must have by now.
    pub(super) fn expect_types(&mut self, id: u32, types: u32) {
        self.known.get_mut(&id).into_iter().for_each(|known| known.lacks |= known.types < types);
    }

    /// Invents the origin of a ring of which damage took it: only its id is known. It gets a number
    /// of its own, as the ring itself may come yet, under its name.
    pub(super) fn invent(&mut self, id: u32, uuid: [u8; 16]) {
        let number = self.number(&uuid.map(|byte| !byte));
        let name = Uuid::from_bytes(uuid).to_string();
        let location = name.clone();
        self.insert(id, Origin { id: number, uuid, name, location, ..Origin::default() }, true);
    }
}
