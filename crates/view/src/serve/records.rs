//! The last records of live rings.

use super::clock::Clock;
use super::filter::{Filter, Wrong};
use super::shared::Shared;
use super::shown::{RecordJson, Whole};
use super::taps::{Kept, TAPS, Tap, What};
use perfring_consumer::{Location, Start};
use perfring_events::{Loss, Shapes};
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};

/// Records of one answer, at most.
const MOST: usize = 500;
/// Records of which a tap begins, of a ring that has more.
const RECENT: u64 = 20_000;

/// What the page asks for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) rings: Vec<u32>,
    pub(super) filter: String,
    pub(super) kind: String,
    /// Only what came after this number.
    pub(super) after: u64,
    pub(super) limit: usize,
}

#[derive(Serialize)]
pub(super) struct Answer {
    pub(super) records: Vec<RecordJson>,
    /// For the next question.
    pub(super) next: u64,
    /// What was looked at, and what of it was selected.
    pub(super) seen: u64,
    pub(super) matched: u64,
    /// Records that were skipped since the rings are looked at, as they were too many; and that were gone before.
    pub(super) skipped: u64,
    pub(super) missed: u64,
    /// Rings that are left out, as there are too many.
    pub(super) left_out: usize,
    /// The names of the rings' types.
    pub(super) types: BTreeSet<String>,
    /// What is wrong with the filter.
    pub(super) wrong: Vec<Wrong>,
    /// Rings that cannot be read, and why.
    pub(super) trouble: Vec<String>,
}

/// Looks at a ring from now on, if it is not looked at already.
fn open(shared: &Shared, id: u32) -> Result<(), String> {
    if shared.taps().has(id) {
        return Ok(());
    }
    let (recent, location) = {
        let model = shared.model();
        let Some((_, location)) = model.ring(id) else { return Err("it was removed".to_owned()) };
        (model.recent(id, RECENT), Location::from(location))
    };
    let start = recent.map_or(Start::Oldest, Start::At);
    let observer = shared.watch().observer(id, start);
    let observer = observer.ok_or_else(|| "it was removed".to_owned())?;
    let shapes = Shapes::open(&location, id).map_err(|error| error.to_string())?;
    if !shapes.is_of(observer.layout()) {
        return Err("another ring has its name now".to_owned());
    }
    shared.taps().add(id, observer, shapes);
    Ok(())
}

/// Returns whether a record is selected; every loss is.
fn is_selected(kept: &Kept, tap: &mut Tap, filter: &Filter) -> bool {
    kept.record().is_none_or(|record| filter.takes(&tap.shapes.see(record)))
}

/// Writes a record, or a loss, as the page has it.
fn line(kept: &Kept, id: u32, tap: &mut Tap, clock: &Clock) -> Option<RecordJson> {
    let name = tap.shapes.origin().name.clone();
    if let What::Lost(loss) = &kept.what {
        let anchors = &tap.shapes.origin().anchors;
        let wall = loss.time.and_then(|time| anchors.wall(loss.pos, time));
        return Some(RecordJson::of_loss(kept.seq, id, &name, &Loss { wall, ..*loss }, clock));
    }
    Some(RecordJson::of(kept.seq, id, &name, &tap.shapes.see(kept.record()?), clock))
}

/// Returns the newest records of live rings.
pub(super) fn live(shared: &Shared, asked: &Asked) -> Result<Answer, Wrong> {
    let filter = Filter::parse(&asked.filter, &asked.kind)?;
    let mut answer = Answer {
        records: Vec::new(),
        next: 0,
        seen: 0,
        matched: 0,
        skipped: 0,
        missed: 0,
        left_out: asked.rings.len().saturating_sub(TAPS),
        types: BTreeSet::new(),
        wrong: Vec::new(),
        trouble: Vec::new(),
    };
    let rings = &asked.rings[..asked.rings.len().min(TAPS)];
    for id in rings {
        if let Err(why) = open(shared, *id) {
            let name = shared.model().ring(*id).map(|(name, _)| name.to_owned());
            answer.trouble.push(format!("{}: {why}", name.unwrap_or_default()));
        }
    }
    let limit = asked.limit.clamp(1, MOST);
    let mut taps = shared.taps();
    answer.next = taps.seq();
    let mut tables = Vec::new();
    for id in rings {
        let Some(tap) = taps.ask(*id) else { continue };
        answer.skipped += tap.skipped;
        answer.missed += tap.missed;
        if let Some(why) = &tap.trouble {
            answer.trouble.push(format!("{}: {why}", tap.shapes.origin().name));
        }
        // Of each ring the newest are enough: they are sorted below. The others are only counted.
        let kept = std::mem::take(&mut tap.kept);
        let mut found = 0;
        for of in kept.iter().rev().take_while(|of| of.seq > asked.after) {
            let (is_record, is_selected) = (of.record().is_some(), is_selected(of, tap, &filter));
            answer.seen += u64::from(is_record);
            answer.matched += u64::from(is_record && is_selected);
            if is_selected && found < limit {
                found += 1;
                answer.records.extend(line(of, *id, tap, &shared.clock));
            }
        }
        tap.kept = kept;
        let table = tap.shapes.origin().types.clone();
        answer.types.extend(table.iter().map(|kind| kind.name.clone()));
        tables.push(table);
    }
    answer.wrong = filter.unknown(tables.iter());
    answer.records.sort_by_key(|line| (line.t.unwrap_or(i64::MIN), line.seq));
    answer.records.drain(..answer.records.len().saturating_sub(limit));
    Ok(answer)
}

/// Looks at a ring from now on, and passes on what is kept of it.
pub(super) fn with_tap<T>(
    shared: &Shared,
    id: u32,
    visit: impl FnOnce(&mut Tap, &VecDeque<Kept>) -> T,
) -> Option<T> {
    open(shared, id).ok()?;
    let mut taps = shared.taps();
    let tap = taps.ask(id)?;
    let kept = std::mem::take(&mut tap.kept);
    let visited = visit(tap, &kept);
    tap.kept = kept;
    Some(visited)
}

/// Returns one record with its bytes.
pub(super) fn whole(shared: &Shared, id: u32, seq: u64) -> Option<Whole> {
    with_tap(shared, id, |tap, kept| {
        let name = tap.shapes.origin().name.clone();
        let at = kept.binary_search_by_key(&seq, |of| of.seq).ok()?;
        let record = kept.get(at)?.record()?;
        Some(Whole::of(seq, id, &name, &tap.shapes.see(record), &shared.clock))
    })?
}
