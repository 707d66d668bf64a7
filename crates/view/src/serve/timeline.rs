//! What happened in a span of time in live rings.

use super::lane::{Lane, Span};
use super::records;
use super::shared::Shared;
use super::taps::What;
use perfring_consumer::{Item, Location, Lost, Policy, Start};
use perfring_export::{Loss, Shapes};

/// Records that are looked at: of a ring, and of all.
const OF_ONE: u64 = 200_000;
const OF_ALL: u64 = 1_000_000;
/// Rings that are looked at.
const RINGS: usize = 80;

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
            Item::Lost(lost) => {
                let loss = Loss::of(lost, &observer.saved(), last, shapes.origin());
                lane.loss(&loss, span, &shared.clock);
            }
        }
    }
    Some(lane)
}
