//! Required outputs that take too long.

use super::Engine;
use super::mark::Mark;
use super::merges::RingId;
use super::outlet::Outlet;
use super::pending::Pending;
use super::place::{Place, Reached, reached};
use super::rings::Rings;
use std::time::{Duration, Instant};

/// A required output that has not delivered something for some time.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) output: &'a str,
    /// How long, at least: it may lack something for longer, by the time that what it lacked before took.
    pub(crate) since: Duration,
    pub(crate) trouble: Option<String>,
}

impl Engine {
    /// Ends the pauses of all outputs, or of the one with this name, before their next attempts. Returns the names of those that
    /// paused.
    pub(crate) fn retry(&mut self, output: Option<&str>) -> Vec<String> {
        let all = self.outlets.iter_mut();
        let all = all.filter(|outlet| output.is_none_or(|name| outlet.name == name));
        let paused = all.filter_map(|outlet| outlet.retry().then(|| outlet.name.clone()));
        paused.collect()
    }

    /// Returns the required outputs that lack something, and for how long: to be called from time to
    /// time.
    pub(crate) fn waiting(&mut self, now: Instant) -> Vec<Waiting<'_>> {
        let pending = &self.pending;
        let rings = &self.rings;
        let mut waiting = Vec::new();
        for (at, outlet) in self.outlets.numbered() {
            if !outlet.is_required() {
                continue;
            }
            let held = match (&outlet.lane, pending) {
                (Some(lane), _) => lane.pending.as_ref(),
                (None, Some((of, pending))) if *of == at => Some(pending),
                _ => None,
            };
            let lacks = outlet.lane.is_some() || held.is_some() || !outlet.places.is_settled();
            let mut mark = outlet.mark.take().filter(|_| lacks);
            if let Some(mark) = &mut mark {
                mark.left.retain(|(id, to)| {
                    outlet.places.get(*id).is_some_and(|done| reached(&done.saved) < *to)
                });
            }
            let mark = mark.filter(|mark| !mark.left.is_empty());
            outlet.mark = mark.or_else(|| lacks.then(|| of(outlet, held, rings, now)));
            if let Some(mark) = &outlet.mark {
                let figures = outlet.status().figures;
                let since = now.duration_since(mark.since);
                waiting.push((at, since, figures.trouble));
            }
        }
        let outlets = &self.outlets;
        let of = |(at, since, trouble)| Some(Waiting { output: outlets.name(at)?, since, trouble });
        waiting.into_iter().filter_map(of).collect()
    }
}

/// Returns what an output lacks now. `held` is an event that it has no room for.
fn of(outlet: &Outlet, held: Option<&Pending>, rings: &Rings, now: Instant) -> Mark {
    let read = |id: RingId| rings.get(id).map(|ring| reached(&ring.read.saved()));
    let behind = |(id, done): (RingId, Place)| {
        read(id).filter(|read| reached(&done.saved) < *read).map(|read| (id, read))
    };
    let mut left: Vec<_> = outlet.places.all().filter_map(behind).collect();
    // It is after everything that was read of its ring.
    let after = |(pos, told): Reached| (pos, told.saturating_add(1));
    let held = held.and_then(|held| Some((held.source, after(read(held.source)?))));
    left.extend(held);
    Mark { since: now, left }
}
