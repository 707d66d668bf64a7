//! Passes what live rings hold to a question about their records.

use super::records;
use super::seen::Seen;
use super::shared::Shared;
use super::taps::{Kept, TAPS, Tap, What};
use perfring_consumer::{Item, Location, Lost, Policy, Start};
use perfring_events::{Loss, Shapes};
use std::collections::VecDeque;

/// Records that are looked at: of a ring, and of all.
const OF_ONE: u64 = 200_000;
const OF_ALL: u64 = 1_000_000;
/// Rings that are looked at.
pub(super) const RINGS: usize = 80;

/// Which records are passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// Those from about this time on, of what the ring holds.
    From(i64),
    /// The newest, and those that the ring has overwritten since the page looked at them.
    Newest,
}

/// Passes each of these rings, and what it holds, to `visit`, with its number and its name. `visit` returns whether it wants
/// more of the ring. Of a ring from which records go once they are read, there is what was seen meanwhile.
pub(super) fn each(
    shared: &Shared,
    rings: &[u32],
    which: Which,
    mut visit: impl FnMut(u32, &str, Seen<'_>) -> bool,
) {
    let mut left = OF_ALL;
    for id in rings.iter().take(RINGS) {
        let drops = records::with_tap(shared, *id, |tap, kept| {
            let drops = tap.shapes.origin().policy == Some(Policy::Drop);
            if drops {
                visit_kept(*id, tap, kept, u64::MAX, &mut visit);
            }
            drops
        });
        if drops != Some(true) {
            walk(shared, *id, which, &mut left, &mut visit);
        }
    }
}

/// Samples the instruments in the rings' metrics areas, and passes these samples and those of earlier questions to `visit`.
pub(super) fn samples(
    shared: &Shared,
    rings: &[u32],
    mut visit: impl FnMut(u32, &str, Seen<'_>) -> bool,
) {
    for id in rings.iter().take(TAPS) {
        records::with_tap(shared, *id, |tap, _| {
            tap.sample();
            let name = tap.shapes.origin().name.clone();
            let samples = std::mem::take(&mut tap.samples);
            for record in samples.iter().filter_map(Kept::record) {
                visit(*id, &name, Seen::Record(record.pos, &tap.shapes.see(record)));
            }
            tap.samples = samples;
        });
    }
}

type Visit<'a> = dyn FnMut(u32, &str, Seen<'_>) -> bool + 'a;

/// Passes what is kept of a ring before a position.
fn visit_kept(id: u32, tap: &mut Tap, kept: &VecDeque<Kept>, before: u64, visit: &mut Visit<'_>) {
    let name = tap.shapes.origin().name.clone();
    let is_whole = before == u64::MAX;
    if is_whole {
        let timed = tap.shapes.origin().timed;
        let missed = tap.missed + tap.skipped;
        if !visit(id, &name, Seen::Ring { timed }) || !visit(id, &name, Seen::Missed(missed)) {
            return;
        }
    }
    for of in kept {
        let wanted = match &of.what {
            What::Lost(loss) if loss.pos < before => {
                let anchors = &tap.shapes.origin().anchors;
                let wall = loss.time.and_then(|time| anchors.wall(loss.pos, time));
                visit(id, &name, Seen::Lost(&Loss { wall, ..*loss }))
            }
            What::Record { pos, .. } if *pos < before => match of.record() {
                Some(record) => visit(id, &name, Seen::Record(*pos, &tap.shapes.see(record))),
                None => true,
            },
            _ => true,
        };
        if !wanted {
            return;
        }
    }
}

fn walk(
    shared: &Shared,
    id: u32,
    which: Which,
    left: &mut u64,
    visit: &mut Visit<'_>,
) -> Option<()> {
    let (start, name, location) = {
        let model = shared.model();
        let (name, location) = model.ring(id)?;
        let start = match which {
            Which::From(t) => model.before(id, t),
            Which::Newest => model.recent(id, OF_ONE / 2),
        };
        (start, name.to_owned(), Location::from(location))
    };
    let start = start.map_or(Start::Oldest, Start::At);
    let mut observer = shared.watch().observer(id, start)?;
    let mut shapes =
        Shapes::open(&location, id).ok().filter(|shapes| shapes.is_of(observer.layout()))?;
    if !visit(id, &name, Seen::Ring { timed: observer.layout().time }) {
        return None;
    }
    let (mut last, mut first) = (None, None);
    let until = OF_ONE.min(*left);
    for nth in 0.. {
        if nth >= until {
            visit(id, &name, Seen::More);
            break;
        }
        *left -= 1;
        // A ring that is damaged ends there.
        let Ok(Some(item)) = observer.read() else { break };
        let wanted = match item {
            Item::Record(record) => {
                last = record.time.or(last);
                first.get_or_insert(record.pos);
                visit(id, &name, Seen::Record(record.pos, &shapes.see(record)))
            }
            Item::Lost(Lost { records, cause, .. }) if cause.name() == "lapped" => {
                visit(id, &name, Seen::Missed(records))
            }
            Item::Lost(lost) => {
                let loss = Loss::of(lost, &observer.saved(), last, shapes.origin());
                visit(id, &name, Seen::Lost(&loss))
            }
        };
        if !wanted {
            break;
        }
    }
    if let Which::Newest = which {
        let before = first.unwrap_or(u64::MAX - 1);
        records::with_tap(shared, id, |tap, kept| {
            visit_kept(id, tap, kept, before, visit);
        });
    }
    Some(())
}
