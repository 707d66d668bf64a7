//! What a recording has: a recorder that appends to it repeats none of it.

use crate::failure::{Failure, note};
use crate::stop::Stop;
use perfring_consumer::advanced::Saved;
use perfring_consumer::stat::{Count, Stat};
use perfring_consumer::{AttachError, Cause, Location, Lost, Observer, Start};
use perfring_export::recording::Reader;
use perfring_export::{Event, Loss, What, series};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Events between two checks of the signals.
const TURN: u64 = 1024;

/// The losses that a recording has, and how far it has each ring.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// By ring and cause. Each is known by its sum, and has its records and bytes.
    losses: HashMap<([u8; 16], &'static str), BTreeMap<u64, Count>>,
    reached: HashMap<[u8; 16], Reached>,
}

/// How far a recording has a ring. The default is that of a ring that the recording does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The position of the last record.
    last: Option<u64>,
    /// A position before which nothing is missing.
    end: u64,
    /// The position up to which the recorder read, if it was not killed.
    saved: Option<Saved>,
}

impl Reached {
    /// Returns an observer that continues where the recording ends. An older copy of the ring is read from its oldest record
    /// on.
    pub(crate) fn resume(self, observer: Observer) -> Result<(Observer, Reached), AttachError> {
        let reached = self.of(&observer.stat()?, observer.location());
        Ok((observer.again(reached.start().map_or(Start::Oldest, Start::At))?, reached))
    }

    /// Returns how far the recording has a ring in this state: an older copy of the ring not at all.
    pub(crate) fn of(self, stat: &Stat, location: &Location) -> Reached {
        let head = stat.totals.map_or(u64::MAX, |totals| totals.head);
        if self.has(head) || self.saved.is_some_and(|saved| saved.pos > head) {
            let what = "ends before the recording does, as an old copy of a ring: all of its records are recorded";
            note(&format!("{location} {what}"));
            return Reached::default();
        }
        self
    }

    /// Returns the position at which a reader continues, if the number of records before it is known.
    fn start(&self) -> Option<Saved> {
        let is_position = |saved: &Saved| saved.pos.is_multiple_of(8);
        // A later run, which was killed, may have recorded more.
        let is_last = |saved: &Saved| saved.pos >= self.end;
        self.saved.filter(is_position).filter(is_last)
    }

    /// Returns whether the recording has the record at this position.
    pub(crate) fn has(&self, pos: u64) -> bool {
        self.last.is_some_and(|last| pos <= last)
    }

    /// Returns the loss between the recording's end and the oldest record of its ring. A reader that continues at a known
    /// number of records reports that loss itself. Otherwise the number is unknown.
    pub(crate) fn lost_before(&self, pos: u64) -> Option<Lost> {
        let is_known = *self == Reached::default() || self.start().is_some() || self.has(pos);
        let bytes = if is_known { 0 } else { pos.saturating_sub(self.end) };
        let lost = Lost { pos, records: 0, bytes, cause: Cause::Lapped, at_end: false };
        (bytes > 0).then_some(lost)
    }
}

impl Told {
    /// Reads all files of a recording, up to damage.
    pub(crate) fn of(path: &Path, stop: &Stop) -> Result<Self, Failure> {
        let mut told = Told::default();
        for path in series(path).map_err(Failure::general)? {
            let Ok(mut reader) = Reader::open(&path) else { continue };
            for number in 1u64.. {
                let Ok(Some(event)) = reader.next() else { break };
                told.learn(&event);
                if number.is_multiple_of(TURN) {
                    stop.check()?;
                }
            }
            for (uuid, saved) in reader.read_to() {
                told.reached.entry(*uuid).or_default().saved = Some(*saved);
            }
        }
        Ok(told)
    }

    fn learn(&mut self, event: &Event<'_>) {
        let uuid = event.origin.uuid;
        let mut reached = |last: Option<u64>, end: u64| {
            // A source without a policy, such as the kernel's, begins at 0 each time.
            if event.origin.policy.is_some() {
                let reached = self.reached.entry(uuid).or_default();
                (reached.last, reached.end) = (reached.last.max(last), reached.end.max(end));
            }
        };
        match &event.what {
            What::Record(record) => {
                reached(Some(record.pos), record.pos.saturating_add(record.ring_bytes()));
            }
            What::Lost(loss) => {
                reached(None, loss.pos);
                if let Loss { cause, records, bytes, sum: Some(sum), .. } = *loss {
                    let of_cause = self.losses.entry((uuid, cause.name())).or_default();
                    of_cause.insert(sum, Count { records, bytes });
                }
            }
            What::Began | What::Ended => {}
        }
    }

    /// Returns how far the recording has each ring.
    pub(crate) fn take_reached(&mut self) -> HashMap<[u8; 16], Reached> {
        std::mem::take(&mut self.reached)
    }

    /// Returns an event without the lost records that the recording has; `None` if there are no others in it.
    pub(crate) fn cut<'a>(&self, event: Event<'a>) -> Option<Event<'a>> {
        let What::Lost(loss) = &event.what else { return Some(event) };
        // A marker of another writer may report no records.
        let Some(sum) = loss.sum.filter(|_| loss.records > 0) else { return Some(event) };
        let Some(told) = self.losses.get(&(event.origin.uuid, loss.cause.name())) else {
            return Some(event);
        };
        let within = sum.saturating_sub(loss.records).saturating_add(1)..=sum;
        let had = told.range(within).fold(Count::default(), |sum, (_, had)| sum.plus(*had));
        let Count { records, bytes } =
            Count { records: loss.records, bytes: loss.bytes }.since(had);
        let rest = Loss { records, bytes, ..*loss };
        (rest.records > 0).then_some(Event { what: What::Lost(rest), ..event })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use perfring_export::recording::{Options, Recording};
    use perfring_export::{LossCause, Origin, Output};
    use std::time::Instant;

    #[test]
    fn a_signal_ends_the_reading_of_a_long_recording() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.perfrec");
        let options = Options { path: path.clone(), ..Options::default() };
        let mut recording = Recording::open("recording", &options).unwrap();
        let origin = Origin::default();
        for seq in 0..TURN {
            recording.take(&Event { seq, origin: &origin, what: What::Began }).unwrap();
        }
        recording.close(Instant::now()).unwrap();
        assert!(matches!(Told::of(&path, &Stop::asked()), Err(Failure::Signal(_))));
    }

    #[test]
    fn a_marker_that_reports_no_records_is_passed_on() {
        let mut told = Told::default();
        let cause = LossCause::Ring(Cause::Full);
        let had = Count { records: 2, bytes: 48 };
        told.losses.insert(([0; 16], cause.name()), BTreeMap::from([(7, had)]));
        let origin = Origin::default();
        let rest = |records, sum| {
            let loss = Loss { sum: Some(sum), ..Loss::new(0, records, 24 * records, cause) };
            let event = told.cut(Event { seq: 0, origin: &origin, what: What::Lost(loss) });
            event.map(|event| match event.what {
                What::Lost(loss) => loss.records,
                _ => unreachable!("it was a loss"),
            })
        };
        assert_eq!((rest(0, 7), rest(0, 0)), (Some(0), Some(0)));
        assert_eq!((rest(2, 7), rest(3, 8), rest(1, 8)), (None, Some(1), Some(1)));
    }
}
