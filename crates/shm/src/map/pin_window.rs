//! Several records of a drop ring held at a time, in place.

use crate::map::mirror::Mirror;
use crate::map::payload::FrameBytes;
use crate::sys::futex;
use perfring_ring::{AuxRange, Count, Frame, Lost, Next, ReadError, Reader, Told};
use std::cell::Cell;

/// The records that a drop ring held at one moment: any number of them can be held at a time. When the window is
/// dropped, the records that were taken from it are released, in one step.
#[derive(Debug)]
pub struct PinWindow<'a> {
    map: &'a Mirror,
    reader: &'a mut Reader,
    /// Before the reader's cursor while a loss comes before the first record. [`Reader::peek`] refuses such a position, so that
    /// the loss costs the other reads nothing.
    cursor: Cell<u64>,
    /// Whether that loss was returned.
    missed: Cell<bool>,
    count: Cell<Count>,
    /// The last range of the AUX area that was taken.
    last: Cell<Option<AuxRange>>,
    told: Cell<Told>,
    /// Whether losses beyond the markers were requested.
    looked: Cell<bool>,
}

impl<'a> PinWindow<'a> {
    /// Pins everything from the reader's cursor on.
    pub(crate) fn new(map: &'a Mirror, reader: &'a mut Reader) -> Self {
        let (count, last, looked, missed) = Default::default();
        reader.forget_lost();
        let (cursor, told) = (Cell::new(begin(reader)), Cell::new(reader.told()));
        PinWindow { map, reader, cursor, missed, count, last, told, looked }
    }

    /// Returns the next item. It stays in place until the window is dropped.
    #[inline(always)]
    pub fn read(&self) -> Result<Option<Next<FrameBytes<'_>>>, ReadError> {
        let found = loop {
            let found = match self.reader.peek(self.map.ring(), self.cursor.get()) {
                Ok(found) => found,
                Err(corrupt) => {
                    let missed = self.missed().ok_or_else(|| self.map.guard.report(corrupt))?;
                    return Ok(Some(Next::Lost(missed)));
                }
            };
            let Some((found, after)) = found else {
                return Ok(self.lost().map(Next::Lost));
            };
            self.cursor.set(after);
            match found {
                Next::Lost(lost) => match self.tell(|told| told.pass(lost)) {
                    Some(lost) => return Ok(Some(Next::Lost(lost))),
                    None => continue, // told before
                },
                Next::Record(place) => break place,
            }
        };
        self.take(found.frame());
        if let Some(range) = found.range() {
            self.last.set(Some(range));
        }
        // SAFETY: the reader found it before an acquired head; both tails move when `self` is
        // dropped, and the slice borrows `self`.
        Ok(Some(Next::Record(unsafe { self.map.in_place(found) })))
    }

    /// Returns the loss before the first record, once.
    #[cold]
    fn missed(&self) -> Option<Lost> {
        let first = self.reader.cursor();
        if self.cursor.get() >= first {
            return None;
        }
        let (lost, told) = self.reader.missed()?;
        self.cursor.set(first);
        self.told.set(told);
        self.missed.set(true);
        Some(lost)
    }

    /// Returns a loss that producers have counted and no marker reports.
    #[cold]
    fn lost(&self) -> Option<Lost> {
        if !self.reader.may_have_lost(self.map.shared()) {
            return None;
        }
        self.looked.set(true);
        self.tell(|told| told.at_end(self.map.shared(), self.cursor.get(), false))
    }

    fn tell(&self, tell: impl FnOnce(&mut Told) -> Option<Lost>) -> Option<Lost> {
        let mut told = self.told.get();
        let lost = tell(&mut told);
        self.told.set(told);
        lost
    }

    fn take(&self, frame: &Frame) {
        let count = self.count.get();
        self.count.set(Count {
            records: count.records.wrapping_add(1),
            bytes: count.bytes.wrapping_add(frame.size),
        });
    }

    /// Returns the number of records taken so far.
    pub fn count(&self) -> Count {
        self.count.get()
    }

    /// Leaves everything unread: the next read starts where this one did.
    pub fn put_back(self) {
        self.cursor.set(begin(self.reader));
        self.missed.set(false);
        self.count.set(Count::default());
        self.last.set(None);
        self.told.set(self.reader.told());
    }
}

/// Returns where the window begins: before the reader's cursor if a loss comes before the first record. (Such a loss is one
/// of records that were overwritten, so the cursor is not 0.)
fn begin(reader: &Reader) -> u64 {
    reader.cursor().saturating_sub(reader.missed().is_some().into())
}

impl Drop for PinWindow<'_> {
    fn drop(&mut self) {
        if let Some(range) = self.last.get() {
            self.reader.pass_range(&range);
        }
        if self.missed.get() {
            self.reader.pass_missed();
        }
        let cursor = self.cursor.get().max(self.reader.cursor());
        self.reader.pass(cursor, self.count.get());
        self.reader.set_told(self.told.get());
        if self.looked.get() {
            // From now on the reader looks for new losses.
            self.reader.has_lost(self.map.shared(), true);
        }
        let ring = self.map.ring();
        futex::wake_if(self.reader.release(ring), ring.space_word());
    }
}
