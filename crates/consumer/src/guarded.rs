//! Reading only headers in place: for a consumer whose producer is not trusted.

use crate::item::{Item, RecordRef};
use perfring_abi::SIZE_MAX;
use perfring_ring::{AuxRange, Front, Next, Place, ReadError};
use perfring_shm::{self as shm, ReadWindow, bytes_of};

/// A drop ring whose records are copied, each.
#[derive(Debug)]
pub(crate) struct GuardedRing {
    pub(crate) window: ReadWindow<shm::Guarded>,
    /// The newest record's payload.
    words: Vec<u64>,
}

impl GuardedRing {
    pub(crate) fn new(window: ReadWindow<shm::Guarded>) -> Self {
        GuardedRing { window, words: vec![0; (SIZE_MAX / 8) as usize] }
    }

    /// Returns the next item.
    #[inline]
    pub(crate) fn read(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        let found = self.find()?;
        self.copied(found)
    }

    /// Returns the next item, and the kind of the item after it.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, ReadError> {
        let found = self.find()?;
        let front = self.window.front();
        Ok(self.copied(found)?.map(|item| (item, front)))
    }

    /// Finds the next record. If there is no memory for its payload, it comes again.
    #[inline]
    fn find(&mut self) -> Result<Option<Next<Place>>, ReadError> {
        let words = &mut self.words;
        self.window.next_to_copy(|range| room_for(words, range).map(drop))
    }

    #[inline]
    fn copied(&mut self, found: Option<Next<Place>>) -> Result<Option<Item<'_>>, ReadError> {
        let (window, words) = (&self.window, &mut self.words);
        let item = match found {
            Some(Next::Record(Place::Ring(frame))) => {
                // The frame's length was checked against the head, and is ours.
                let len = frame.len.div_ceil(8);
                if len > words.len() {
                    words.resize(len, 0);
                }
                let to = &mut words[..len];
                window.copy(&frame, to);
                Item::Record(RecordRef::new(&frame, bytes_of(to, frame.len)))
            }
            Some(Next::Record(Place::Aux(frame, range))) => {
                let to = room_for(words, range)?;
                window.copy_range(range, to);
                Item::Record(RecordRef::new(&frame, bytes_of(to, range.len)))
            }
            Some(Next::Lost(lost)) => Item::Lost(lost),
            None => return Ok(None),
        };
        // Checked last, so that everything that was loaded before came from the file.
        window.mapping().cut_off().map_or(Ok(Some(item)), Err)
    }
}

/// Returns room for a payload of the AUX area, which is no longer than that.
#[cold]
fn room_for(words: &mut Vec<u64>, range: AuxRange) -> Result<&mut [u64], ReadError> {
    let len = range.len.div_ceil(8);
    let more = len.saturating_sub(words.len());
    let bytes = range.len as u64;
    words.try_reserve_exact(more).map_err(|_| ReadError::OutOfMemory { bytes })?;
    words.resize(len.max(words.len()), 0);
    Ok(&mut words[..len])
}
