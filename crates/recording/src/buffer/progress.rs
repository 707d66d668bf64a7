//! How far a buffer is delivered, as the output goes on, and how that is saved.

use super::ends::{Ends, RingEnd, extend};
use super::place::Place;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The limit of marks that wait until they are delivered.
const MARKS: usize = 4096;
/// The interval of saving: once more for so many rings.
const SAVES: Duration = Duration::from_millis(50);
const SAVES_RINGS: u32 = 1000;

/// How far the files were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    /// The number of a file.
    pub(super) file: u64,
    /// When that was begun, ns since 1970.
    pub(super) began: u64,
    /// Events of it.
    pub(super) events: u64,
    /// Where the block begins that has the last of them.
    pub(super) block: u64,
}

/// How far reading was at some time.
struct Mark {
    /// The number of the last event that was passed on.
    passed: u64,
    at: At,
    /// What was passed on of rings since the mark before. It is no larger than what the output holds.
    rings: HashMap<Uuid, Option<u64>>,
}

/// The progress of delivery.
pub(super) struct Progress {
    /// The number of the last event that was passed on, and where that is.
    passed: u64,
    at: At,
    /// What was passed on of rings since the last mark.
    since: HashMap<Uuid, Option<u64>>,
    /// `passed` at the last mark.
    marked: u64,
    marks: VecDeque<Mark>,
    /// How far all is delivered, and whether that is not saved.
    place: Place,
    /// That, in bytes: a file, and where its first block begins that is not delivered.
    delivered: (u64, u64),
    moved: bool,
    saved: Option<Instant>,
}

impl Progress {
    pub(super) fn new(output: &str) -> Self {
        Progress {
            passed: 0,
            at: At::default(),
            since: HashMap::new(),
            marked: 0,
            marks: VecDeque::new(),
            place: Place::new(output),
            delivered: (0, 0),
            moved: false,
            saved: None,
        }
    }

    /// Goes on at a place that was saved, if there is one; the next file has the number `next`.
    /// Returns the first file that has all records of its rings, and what was delivered of such.
    pub(super) fn resume(&mut self, saved: Option<Place>, next: u64, dir: &Path) -> (u64, &Ends) {
        let knows = saved.as_ref().is_some_and(|saved| saved.exact != u64::MAX);
        self.place = saved.unwrap_or_else(|| mem::take(&mut self.place));
        if !knows {
            self.place.exact = next;
            self.place.rings.clear();
            // Without it, the next process knows no more than this one.
            let _ = self.place.write(dir);
        }
        (self.place.exact, &self.place.rings)
    }

    /// Forgets rings, as rules leave out records of them: one that is not reported yet may be before
    /// one that is delivered.
    pub(super) fn forget_rings(&mut self, dir: &Path) {
        self.place.exact = u64::MAX;
        self.place.rings.clear();
        self.since.clear();
        self.marks.iter_mut().for_each(|mark| mark.rings.clear());
        if self.place.write(dir).is_err() {
            let _ = Place::remove(dir); // if that fails, too, the directory is not ours
        }
    }

    /// Returns the number of the last event that was passed on.
    pub(super) fn last(&self) -> u64 {
        self.passed
    }

    /// Returns how many of so many bytes of files are not delivered, in whole blocks; `read` are the files of which something was
    /// read and which are still there.
    pub(super) fn undelivered(&self, bytes: u64, mut read: impl Iterator<Item = u64>) -> u64 {
        let (file, upto) = self.delivered;
        bytes.saturating_sub(if read.any(|number| number == file) { upto } else { 0 })
    }

    /// Notes an event that was passed on, and that the output has all up to `number`.
    pub(super) fn passed(&mut self, number: u64, at: At, end: Option<RingEnd>) {
        (self.passed, self.at) = (number, at);
        self.since.extend(end.filter(|_| at.file >= self.place.exact));
    }

    /// Remembers how far reading is now.
    pub(super) fn mark(&mut self) {
        if self.marked == self.passed {
            return;
        }
        self.marked = self.passed;
        let mut rings = mem::take(&mut self.since);
        if self.marks.len() >= MARKS
            && let Some(last) = self.marks.pop_back()
        {
            let later = mem::replace(&mut rings, last.rings);
            rings.extend(later);
        }
        self.marks.push_back(Mark { passed: self.passed, at: self.at, rings });
    }

    /// Moves on, if everything before this event is settled.
    pub(super) fn settled(&mut self, unsettled: u64) {
        while self.marks.front().is_some_and(|mark| mark.passed < unsettled) {
            let Some(Mark { at, rings, .. }) = self.marks.pop_front() else { break };
            let place = &mut self.place;
            (place.file, place.began, place.events) = (at.file, at.began, at.events);
            self.delivered = (at.file, at.block);
            for (ring, end) in rings {
                match end {
                    Some(end) => extend(&mut place.rings, ring, end),
                    None => drop(place.rings.remove(&ring)),
                }
            }
            self.moved = true;
        }
    }

    /// Saves it, from time to time.
    pub(super) fn save(&mut self, dir: &Path) {
        let rings = u32::try_from(self.place.rings.len()).unwrap_or(u32::MAX);
        let every = SAVES * (1 + rings / SAVES_RINGS);
        if self.moved && self.saved.is_none_or(|saved| saved.elapsed() >= every) {
            self.saved = Some(Instant::now());
            self.save_now(dir);
        }
    }

    /// Saves it.
    pub(super) fn save_now(&mut self, dir: &Path) {
        self.moved = self.place.write(dir).is_err(); // without it some come twice
    }

    /// Saves it on the disk.
    pub(super) fn save_on_disk(&mut self, dir: &Path) {
        if self.moved {
            self.moved = self.place.write_to_disk(dir).is_err();
        }
    }
}
