//! Writes what was found about a case.

use crate::case::{Case, What};
use crate::evidence::{Role, Thread};
use crate::finding::{Certainty, Finding, Kind, UNKNOWN};
use crate::names::span;
use crate::rules::Rule;
use crate::sentences::{self, named};
use perfring_consumer::Cause;
use perfring_events::LossCause;

/// Writes a finding by the rule that names the cause.
pub(crate) fn finding(case: &Case<'_>, rule: Option<&Rule>) -> Finding {
    let why = rule.map_or_else(|| sentences::unknown(case), |rule| (rule.sentence)(case));
    let ring = match case.what {
        What::Clock(_) => String::new(),
        _ => case.names.ring(case.ring),
    };
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
            let s = match loss.records {
                0 => "an unknown number of records was".to_owned(),
                1 => "1 record was".to_owned(),
                many => format!("{many} records were"),
            };
            let how = match loss.drops && loss.cause == LossCause::Ring(Cause::Lapped) {
                true => "not read",
                false => "lost",
            };
            let sentence = format!("{s} {how} in ring {ring}: {why}");
            (Kind::Loss, None, None, loss.records, sentence)
        }
        What::Owner { seat, .. } => {
            let role = match seat.role {
                Role::Producer => "producer",
                Role::Consumer => "consumer",
            };
            let who = named(Some(seat));
            let sentence = format!("{role} {who} of ring {ring} {why}");
            let thread = Thread { pid: seat.pid, tid: seat.pid };
            (Kind::Owner, Some(thread), Some(seat.name.clone()), 0, sentence)
        }
        What::Read(read) => {
            let reader = named(Some(&read.reader));
            let (late, lasted) = (span(case.length), span(read.lasted));
            let lasted = if read.lasted > case.length {
                format!(", in a time of {lasted}")
            } else {
                String::new()
            };
            let sentence = format!(
                "consumer {reader} of ring {ring} read records {late} late at least{lasted}: {why}"
            );
            let (pid, name) = (read.reader.pid, read.reader.name.clone());
            (Kind::Read, Some(Thread { pid, tid: pid }), Some(name), 0, sentence)
        }
        What::Clock(_) => (Kind::Machine, None, None, 0, why),
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
        certainty: rule.map_or(Certainty::Unknown, |rule| match &case.what {
            What::Loss(loss) if loss.changed => rule.certainty.max(Certainty::Likely),
            _ => rule.certainty,
        }),
        call: case.gap().and_then(|gap| Some(gap.call.as_ref()?.0.clone())),
        by: by.map(|task| (task, case.task(task))),
        sentence,
        parts: case.watched().cloned(),
        preempted_by: case
            .watched()
            .map_or(Vec::new(), |parts| sentences::preempted_by(case, parts)),
        stopped: case.gap().map_or(0, |gap| gap.stopped.surely),
        throttled: case.gap().map_or(0, |gap| gap.throttled),
    }
}
