//! Writes what was found about a case.

use crate::case::{Case, What};
use crate::evidence::{Role, Thread};
use crate::finding::{Certainty, Finding, Kind, UNKNOWN};
use crate::names::span;
use crate::rules::{self, Rule};
use perfring_consumer::Cause;
use perfring_events::LossCause;

/// Writes a finding by the rule that names the cause.
pub(crate) fn finding(case: &Case<'_>, rule: Option<&Rule>) -> Finding {
    let why = rule.map_or_else(|| rules::unknown(case), |rule| (rule.sentence)(case));
    let ring = case.names.ring(case.ring);
    let (kind, thread, name, records, sentence) = match &case.what {
        What::Gap(gap) => {
            let thread = gap.gap.thread;
            let end = if gap.gap.is_open { ", up to the end" } else { "" };
            let (task, length) = (case.task(thread), span(case.length));
            let sentence = format!("{task} wrote nothing for {length}{end}: {why}");
            let name = case.names.of(thread).map(str::to_owned);
            (Kind::Gap, Some(thread), name, 0, sentence)
        }
        What::Loss(loss) => {
            let s = if loss.records == 1 { " was" } else { "s were" };
            let how = match loss.drops && loss.cause == LossCause::Ring(Cause::Lapped) {
                true => "not read",
                false => "lost",
            };
            let sentence = format!("{} record{s} {how} in ring {ring}: {why}", loss.records);
            (Kind::Loss, None, None, loss.records, sentence)
        }
        What::Owner { seat, .. } => {
            let role = match seat.role {
                Role::Producer => "producer",
                Role::Consumer => "consumer",
            };
            let who = rules::named(Some(seat));
            let sentence = format!("{role} {who} of ring {ring} {why}");
            let thread = Thread { pid: seat.pid, tid: seat.pid };
            (Kind::Owner, Some(thread), Some(seat.name.clone()), 0, sentence)
        }
    };
    let by = rule.and_then(|rule| (rule.by)(case));
    Finding {
        kind,
        time: case.time,
        length: case.length,
        ring,
        thread,
        name: name.filter(|name| !name.is_empty()),
        records,
        cause: rule.map_or(UNKNOWN, |rule| rule.cause),
        certainty: rule.map_or(Certainty::Unknown, |rule| rule.certainty),
        by: by.map(|task| (task, case.task(task))),
        sentence,
        parts: case.watched().cloned(),
        preempted_by: rules::preempted_by(case),
        stopped: case.gap().map_or(0, |gap| gap.stopped.surely),
        throttled: case.gap().map_or(0, |gap| gap.throttled),
    }
}
