//! The last records of rings that somebody looks at. An observer looks at each a few times a second, copies what is
//! new, and skips what is too much.

use perfring_consumer::{Item, Lost, Observer, RecordRef, Start, WriterId};
use perfring_events::{Loss, Shapes, sampled};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rings that are looked at, at most: those that were asked for last.
pub(super) const TAPS: usize = 64;
/// A ring is looked at for so long after it was asked for.
const UNASKED: Duration = Duration::from_secs(30);
/// Items that are kept of a ring, and their payloads' bytes.
const KEPT: usize = 10_000;
const KEPT_BYTES: usize = 8 << 20;
/// Samples of a ring's instruments that are kept, beside those, and the time between two samples of one.
const SAMPLES: usize = 100_000;
const SAMPLED: Duration = Duration::from_secs(1);
/// Items that are copied at one look, of all rings.
const LOOK: u64 = 4_000;
/// Items that are looked at when a ring is first asked for.
const FIRST: u64 = 300_000;

/// The rings that somebody looks at.
#[derive(Debug, Default)]
pub(super) struct Taps {
    taps: HashMap<u32, Tap>,
    seq: u64,
}

/// A ring that somebody looks at.
#[derive(Debug)]
pub(super) struct Tap {
    observer: Observer,
    pub(super) shapes: Shapes,
    pub(super) kept: VecDeque<Kept>,
    bytes: usize,
    /// Samples of the instruments in its metrics area, as records of their types.
    pub(super) samples: VecDeque<Kept>,
    sample_bytes: usize,
    sampled: Option<Instant>,
    asked: Instant,
    /// Records that were skipped, as they were too many.
    pub(super) skipped: u64,
    /// Records that were gone before they could be looked at.
    pub(super) missed: u64,
    /// Why it cannot be read on.
    pub(super) trouble: Option<String>,
    last: Option<u64>,
}

/// A record or a loss.
#[derive(Debug)]
pub(super) struct Kept {
    /// Rises over all rings; 0 for a sample.
    pub(super) seq: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Record { pos: u64, kind: u32, time: Option<u64>, writer: Option<WriterId>, bytes: Box<[u8]> },
    Lost(Loss),
}

impl Kept {
    pub(super) fn record(&self) -> Option<RecordRef<'_>> {
        match &self.what {
            What::Record { pos, kind, time, writer, bytes } => {
                Some(RecordRef { pos: *pos, kind: *kind, time: *time, writer: *writer, bytes })
            }
            What::Lost(_) => None,
        }
    }
}

impl Taps {
    pub(super) fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    pub(super) fn has(&self, id: u32) -> bool {
        self.taps.contains_key(&id)
    }

    /// Looks at a ring from now on, and at what it holds.
    pub(super) fn add(&mut self, id: u32, observer: Observer, shapes: Shapes) {
        if self.taps.len() >= TAPS
            && let Some(oldest) =
                self.taps.iter().min_by_key(|(_, tap)| tap.asked).map(|(id, _)| *id)
        {
            self.taps.remove(&oldest);
        }
        let tap = Tap {
            observer,
            shapes,
            kept: VecDeque::new(),
            bytes: 0,
            samples: VecDeque::new(),
            sample_bytes: 0,
            sampled: None,
            asked: Instant::now(),
            skipped: 0,
            missed: 0,
            trouble: None,
            last: None,
        };
        let tap = self.taps.entry(id).or_insert(tap);
        tap.look(&mut self.seq, FIRST);
        // What was overwritten before somebody looked is not missed.
        tap.missed = 0;
    }

    /// Returns the tap of a ring, which is looked at for longer.
    pub(super) fn ask(&mut self, id: u32) -> Option<&mut Tap> {
        let tap = self.taps.get_mut(&id)?;
        tap.asked = Instant::now();
        Some(tap)
    }

    /// Looks at all rings.
    pub(super) fn look(&mut self) {
        self.taps.retain(|_, tap| tap.asked.elapsed() < UNASKED);
        let share = (LOOK / self.taps.len().max(1) as u64).max(16);
        for tap in self.taps.values_mut() {
            tap.look(&mut self.seq, share);
        }
    }

    pub(super) fn seq(&self) -> u64 {
        self.seq
    }
}

impl Tap {
    /// Copies the next items, and skips all that follow if they are more.
    fn look(&mut self, seq: &mut u64, most: u64) {
        if self.trouble.is_some() {
            return;
        }
        let mut left = most;
        while left > 0 {
            left -= 1;
            let what = match self.observer.read() {
                Ok(Some(Item::Record(RecordRef { pos, kind, time, writer, bytes }))) => {
                    self.last = time.or(self.last);
                    What::Record { pos, kind, time, writer, bytes: bytes.into() }
                }
                Ok(Some(Item::Lost(Lost { records, cause, .. }))) if cause.name() == "lapped" => {
                    self.missed += records;
                    continue;
                }
                Ok(Some(Item::Lost(lost))) => {
                    let after = self.observer.saved();
                    What::Lost(Loss::of(lost, &after, self.last, self.shapes.origin()))
                }
                Ok(None) => return,
                Err(error) => {
                    self.trouble = Some(error.to_string());
                    return;
                }
            };
            *seq += 1;
            let kept = Kept { seq: *seq, what };
            keep(&mut self.kept, &mut self.bytes, kept, KEPT);
        }
        self.skip();
    }

    fn skip(&mut self) {
        let before = self.observer.saved();
        match self.observer.again(Start::Latest) {
            Ok(observer) => {
                self.skipped += observer.saved().before.since(before.before).records;
                self.observer = observer;
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// Samples the instruments in its metrics area, if they are due.
    pub(super) fn sample(&mut self) {
        let is_due = self.sampled.is_none_or(|at| at.elapsed() >= SAMPLED);
        if self.observer.layout().metrics_size == 0 || !is_due {
            return;
        }
        self.sampled = Some(Instant::now());
        // The records say why the ring cannot be read.
        let Ok(metrics) = self.observer.metrics() else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(now.as_nanos()).ok();
        for sample in &metrics.samples {
            let mut bytes = Vec::new();
            sampled(sample, wall, &mut bytes);
            let (kind, bytes) = (sample.kind.get(), bytes.into());
            let what = What::Record { pos: sample.at, kind, time: None, writer: None, bytes };
            let kept = Kept { seq: 0, what };
            keep(&mut self.samples, &mut self.sample_bytes, kept, SAMPLES);
        }
    }
}

/// Keeps an item instead of the oldest, if there are so many.
fn keep(all: &mut VecDeque<Kept>, bytes: &mut usize, kept: Kept, most: usize) {
    let len = |kept: &Kept| kept.record().map_or(0, |record| record.bytes.len());
    *bytes += len(&kept);
    all.push_back(kept);
    while all.len() > most || *bytes > KEPT_BYTES {
        let Some(oldest) = all.pop_front() else { return };
        *bytes -= len(&oldest);
    }
}
