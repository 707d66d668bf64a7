//! What happened in a span of time, ring by ring: how many records in each part of it, and the records themselves
//! where they are few.

use super::clock::Clock;
use super::records::{self, RecordJson};
use super::shared::Shared;
use super::taps::What;
use perfring_consumer::{Item, Location, Lost, Policy, Start};
use perfring_export::{Loss, LossCause, Rec, Shapes};
use serde::Serialize;

/// Parts of a span, at most.
const BINS: usize = 4_000;
/// Records of a ring that are few.
const FEW: usize = 240;
/// Losses of a ring that are shown.
const LOSSES: usize = 500;
/// Records that are looked at: of a ring, and of all.
const OF_ONE: u64 = 200_000;
const OF_ALL: u64 = 1_000_000;
/// Rings that are looked at.
const RINGS: usize = 80;

/// A span of the page's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    from: i64,
    to: i64,
    bins: usize,
}

/// A ring in a span.
#[derive(Debug, Serialize)]
pub(super) struct Lane {
    id: u32,
    name: String,
    /// Records in each part of the span.
    bins: Vec<u32>,
    /// All of its records, if they are few.
    records: Option<Vec<RecordJson>>,
    /// Losses: when, how many, why.
    lost: Vec<(i64, u64, &'static str)>,
    /// Records that were overwritten, or read and freed, before they could be looked at.
    missed: u64,
    /// Whether the rest was not looked at, as there were too many.
    more: bool,
}

impl Span {
    pub(super) fn new(from: i64, to: i64, bins: usize) -> Option<Self> {
        (from < to).then(|| Span { from, to, bins: bins.clamp(1, BINS) })
    }

    fn has(&self, t: i64) -> bool {
        (self.from..self.to).contains(&t)
    }

    fn bin(&self, t: i64) -> usize {
        let part = i128::from(t - self.from) * self.bins as i128 / i128::from(self.to - self.from);
        usize::try_from(part).unwrap_or(0).min(self.bins - 1)
    }
}

impl Lane {
    pub(super) fn new(id: u32, name: &str, span: &Span) -> Self {
        Lane {
            id,
            name: name.to_owned(),
            bins: vec![0; span.bins],
            records: Some(Vec::new()),
            lost: Vec::new(),
            missed: 0,
            more: false,
        }
    }

    pub(super) fn record(&mut self, seq: u64, record: &Rec<'_>, span: &Span, clock: &Clock) {
        let Some(t) = record.wall.map(|wall| clock.of_wall(wall)).filter(|t| span.has(*t)) else {
            return;
        };
        if let Some(count) = self.bins.get_mut(span.bin(t)) {
            *count += 1;
        }
        match &mut self.records {
            Some(few) if few.len() < FEW => {
                few.push(RecordJson::of(seq, self.id, &self.name, record, clock));
            }
            few => *few = None,
        }
    }

    pub(super) fn loss(&mut self, loss: &Loss, span: &Span, clock: &Clock) {
        let t = loss.wall.map(|wall| clock.of_wall(wall)).filter(|t| span.has(*t));
        if let Some(t) = t
            && self.lost.len() < LOSSES
        {
            self.lost.push((t, loss.records, loss.cause.name()));
        }
    }
}

/// Looks at live rings with timestamps.
pub(super) fn live(shared: &Shared, rings: &[u32], span: &Span) -> Vec<Lane> {
    let mut left = OF_ALL;
    rings.iter().take(RINGS).filter_map(|id| one(shared, *id, span, &mut left)).collect()
}

/// Of a ring from which records go once they are read, there is what was seen meanwhile; of another one, what it holds.
fn one(shared: &Shared, id: u32, span: &Span, left: &mut u64) -> Option<Lane> {
    let seen = records::with_tap(shared, id, |tap, kept| {
        let origin = tap.shapes.origin();
        let drops = origin.timed && origin.policy == Some(Policy::Drop);
        drops.then(|| {
            let mut lane = Lane::new(id, &tap.shapes.origin().name.clone(), span);
            lane.missed = tap.missed + tap.skipped;
            for of in kept {
                match &of.what {
                    What::Lost(loss) => {
                        let wall = loss
                            .time
                            .and_then(|time| tap.shapes.origin().anchors.wall(loss.pos, time));
                        lane.loss(&Loss { wall, ..*loss }, span, &shared.clock);
                    }
                    What::Record { .. } => {
                        let Some(record) = of.record() else { continue };
                        lane.record(record.pos, &tap.shapes.see(record), span, &shared.clock);
                    }
                }
            }
            lane
        })
    });
    match seen.flatten() {
        Some(lane) => Some(lane),
        None => walk(shared, id, span, left),
    }
}

fn walk(shared: &Shared, id: u32, span: &Span, left: &mut u64) -> Option<Lane> {
    let (start, name, location) = {
        let model = shared.model();
        let (name, location) = model.ring(id)?;
        (model.before(id, span.from), name.to_owned(), Location::from(location))
    };
    let start = start.map_or(Start::Oldest, Start::At);
    let mut observer = shared.watch().observer(id, start)?;
    if !observer.layout().time {
        return None;
    }
    let mut shapes =
        Shapes::open(&location, id).ok().filter(|shapes| shapes.is_of(observer.layout()))?;
    let mut lane = Lane::new(id, &name, span);
    let mut last = None;
    let until = OF_ONE.min(*left);
    for nth in 0.. {
        if nth >= until {
            lane.more = true;
            break;
        }
        *left -= 1;
        // A ring that is damaged ends there.
        let Ok(Some(item)) = observer.read() else { break };
        match item {
            Item::Record(record) => {
                last = record.time.or(last);
                let record = shapes.see(record);
                lane.record(record.pos, &record, span, &shared.clock);
                if record.wall.is_some_and(|wall| shared.clock.of_wall(wall) >= span.to) {
                    break;
                }
            }
            Item::Lost(Lost { records, cause, .. }) if cause.name() == "lapped" => {
                lane.missed += records
            }
            Item::Lost(Lost { pos, records, bytes, cause }) => {
                let wall = last.and_then(|time| shapes.origin().anchors.wall(pos, time));
                let cause = LossCause::Ring(cause);
                lane.loss(
                    &Loss { pos, records, bytes, cause, time: last, wall },
                    span,
                    &shared.clock,
                );
            }
        }
    }
    Some(lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_of_a_span_is_in_one_part_of_it() {
        let span = Span::new(-10, 10, 4).expect("a span");
        let bins: Vec<usize> = [-10, -6, -5, -1, 0, 9].map(|t| span.bin(t)).into();
        assert_eq!(bins, [0, 0, 1, 1, 2, 3]);
        assert!(span.has(-10) && !span.has(10));
        let far = Span::new(i64::MIN / 2, i64::MAX / 2, 10).expect("a span");
        assert_eq!((far.bin(i64::MIN / 2), far.bin(i64::MAX / 2 - 1)), (0, 9));
        assert!(Span::new(5, 5, 10).is_none());
    }
}
