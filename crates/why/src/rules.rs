//! The rules, as a table: a condition over the evidence, a sentence, and a certainty. The tests beside it have a case for each.
//!
//! The first rule that explains more than half of a case's time names its cause; a rule that explains a loss or an owner
//! explains all of it. A rule stands above those that it is a special case of. No rule guesses: where none applies, the cause
//! is unknown, and the sentence says what is missing.

use crate::case::{Case, What};
use crate::evidence::{Holder, Thread};
use crate::finding::Certainty::{self, Certain, Likely};
use crate::gap::Parts;
use crate::names::span;
use crate::sentences::{
    consumer, culprits, culprits_of, faults, hold, holder, holds_up, how_long, is, is_how, lapped,
    meanwhile, named, no_task, of_seat, rest, waits,
};
use perfring_consumer::Cause;

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The cause that it names.
    pub(crate) cause: &'static str,
    pub(crate) certainty: Certainty,
    /// How much of the case's time it explains, ns; [`ALL`] for a case without parts.
    pub(crate) explains: fn(&Case<'_>) -> Option<u64>,
    /// What happened, to follow "TASK wrote nothing for SPAN:" or "N records were lost:" or "PRODUCER".
    pub(crate) sentence: fn(&Case<'_>) -> String,
    /// The task that is to blame.
    pub(crate) by: fn(&Case<'_>) -> Option<Thread>,
    /// It kept a thread from running: it explains also why a thread wrote nothing until the end.
    pub(crate) bars: bool,
}

const ALL: u64 = u64::MAX;

/// The table.
#[rustfmt::skip]
pub(crate) static RULES: [Rule; 34] = [
    // A gap between two records of a thread.
    Rule {
        cause: "suspended", certainty: Certain, bars: true, by: no_task,
        explains: |case| case.gap().map(|gap| gap.suspended),
        sentence: |case| format!("the machine was suspended for {} at least{}", span(case.gap().map_or(0, |gap| gap.suspended)), rest(case)),
    },
    Rule {
        cause: "stopped", certainty: Certain, bars: true, by: no_task,
        explains: |case| case.gap().map(|gap| gap.stopped.surely),
        sentence: |case| format!("a signal or a debugger had stopped the process for {} at least{}", span(case.gap().map_or(0, |gap| gap.stopped.surely)), rest(case)),
    },
    Rule {
        cause: "stopped briefly", certainty: Likely, bars: true, by: no_task,
        explains: |case| case.gap().map(|gap| gap.stopped.possibly),
        sentence: |case| format!("the process was found stopped by a signal or a debugger, for {} at most{}", span(case.gap().map_or(0, |gap| gap.stopped.possibly)), rest(case)),
    },
    Rule {
        cause: "held up", certainty: Likely, bars: false,
        by: |case| case.gap()?.held.as_ref().map(|held| Thread { pid: held.pid, tid: held.pid }),
        explains: |case| case.held_up(),
        sentence: |case| format!("the producers of the ring waited {}{}", hold(case), rest(case)),
    },
    Rule {
        cause: "throttled", certainty: Likely, bars: true, by: no_task,
        explains: |case| Some(case.gap()?.throttled.min(case.watched()?.off_cpu())),
        sentence: |case| format!("its cgroup had used up its quota of CPU time, and was throttled for {} in the sum of its CPUs{}{}", span(case.gap().map_or(0, |gap| gap.throttled)), meanwhile(case), rest(case)),
    },
    Rule {
        cause: "memory.high", certainty: Likely, bars: true, by: no_task,
        explains: |case| case.stalled(),
        sentence: |case| format!("its cgroup went over memory.high, and its tasks waited for memory for {} at least{}", span(case.gap().map_or(0, |gap| gap.stalled)), rest(case)),
    },
    Rule {
        cause: "preempted", certainty: Certain, bars: true,
        by: |case| case.watched()?.preempted_most().map(|(task, _)| task),
        explains: |case| Some(case.watched()?.preempted_in_all()),
        sentence: |case| format!("it was preempted by {}{}", culprits(case), rest(case)),
    },
    Rule {
        cause: "kept waiting", certainty: Certain, bars: true, by: no_task,
        explains: |case| Some(case.watched()?.kept),
        sentence: |case| format!("it could run, and got no CPU for {}, while the CPU that it had left was idle{}", span(case.watched().map_or(0, |parts| parts.kept)), rest(case)),
    },
    Rule {
        cause: "run delay", certainty: Likely, bars: false, by: no_task,
        explains: |case| case.woken_late(),
        sentence: |case| format!("it was woken and waited for a CPU, for {} at least by its run delay in /proc{}", span(case.woken_late().unwrap_or(0)), rest(case)),
    },
    Rule {
        cause: "system call", certainty: Likely, bars: false, by: no_task,
        explains: |case| case.gap()?.call.as_ref()?.1.checked_sub(case.woken_late()?),
        sentence: |case| format!("it was blocked in the system call {}, and may have waited for a CPU after that, {}{}", case.gap().and_then(|gap| Some(&*gap.call.as_ref()?.0)).unwrap_or_default(), waits(case), rest(case)),
    },
    Rule {
        cause: "blocked", certainty: Likely, bars: false, by: no_task,
        explains: |case| Some(case.watched()?.waited.saturating_sub(case.woken_late()?)),
        sentence: |case| format!("it slept or waited, and may have waited for a CPU after that, {}{}", waits(case), rest(case)),
    },
    Rule {
        cause: "stolen", certainty: Likely, bars: false, by: no_task,
        explains: |case| Some(case.gap()?.stolen.min(case.watched()?.ran)),
        sentence: |case| format!("it had a CPU, and the hypervisor gave that to others for {} at least, by steal in /proc/stat{}", span(case.gap().map_or(0, |gap| gap.stolen)), rest(case)),
    },
    Rule {
        cause: "page faults", certainty: Likely, bars: false, by: no_task,
        explains: |case| Some(case.watched()?.faulting),
        sentence: |case| format!("it had a CPU, and {} page faults followed each other for {}{}", case.watched().map_or(0, |parts| parts.faults), span(case.watched().map_or(0, |parts| parts.faulting)), rest(case)),
    },
    Rule {
        cause: "own code", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.gap()?.has_faults.then_some(case.watched()?.own_code()),
        sentence: |case| format!("it had a CPU for {}, so its own code, or the kernel on its behalf, took that long{}", span(case.watched().map_or(0, |parts| parts.ran)), rest(case)),
    },
    Rule {
        cause: "own code or page faults", certainty: Certain, bars: false, by: no_task,
        explains: |case| (!case.gap()?.has_faults || case.watched()?.faulting_or_own() > 0).then_some(case.watched()?.ran),
        sentence: |case| format!("it had a CPU for {}: its own code took that long, or page faults did, {}{}", span(case.watched().map_or(0, |parts| parts.ran)), faults(case), rest(case)),
    },
    Rule {
        cause: "several", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.watched().map(|_| ALL),
        sentence: |case| format!("no single cause explains half of it{}", rest(case)),
    },
    // A loss.
    Rule {
        cause: "consumer stopped", certainty: Certain, bars: false, by: |case| consumer(case, Holder::Stopped).map(of_seat),
        explains: |case| consumer(case, Holder::Stopped).map(|_| ALL),
        sentence: |case| format!("the ring was full, and its consumer {} was stopped by a signal or a debugger", named(consumer(case, Holder::Stopped))),
    },
    Rule {
        cause: "consumer dead", certainty: Certain, bars: false, by: |case| consumer(case, Holder::Dead).map(of_seat),
        explains: |case| consumer(case, Holder::Dead).map(|_| ALL),
        sentence: |case| format!("the ring was full, and its consumer {} had been killed or had crashed", named(consumer(case, Holder::Dead))),
    },
    Rule {
        cause: "slow consumer", certainty: Likely, bars: false, by: |case| consumer(case, Holder::Alive).map(of_seat),
        explains: |case| consumer(case, Holder::Alive).map(|_| ALL),
        sentence: |case| format!("the ring was full: its consumer {} was alive, and released less than the producers wrote", named(consumer(case, Holder::Alive))),
    },
    Rule {
        cause: "no consumer", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.loss(Cause::Full)?.has_no_consumer().then_some(ALL),
        sentence: |_| "the ring was full, and no process had the seat of its consumer".to_owned(),
    },
    Rule {
        cause: "released", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.loss(Cause::Lapped)?.drops.then_some(ALL),
        sentence: |_| "the ring's consumer had read and released them before the recorder came to them. The ring lost nothing; `perfring record --consume` records all".to_owned(),
    },
    Rule {
        cause: "lapped", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.loss(Cause::Lapped).map(|_| ALL),
        sentence: |case| lapped(case).to_owned(),
    },
    Rule {
        cause: "too large", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.loss(Cause::TooLarge).map(|_| ALL),
        sentence: |_| "the records were larger than the ring takes".to_owned(),
    },
    Rule {
        cause: "reservation", certainty: Certain, bars: false, by: |case| holder(case, Cause::Pending).map(of_seat),
        explains: |case| holder(case, Cause::Pending).map(|_| ALL),
        sentence: |case| format!("an older reservation was open, of producer {}{}", named(holder(case, Cause::Pending)), is_how(holder(case, Cause::Pending))),
    },
    Rule {
        cause: "lock", certainty: Certain, bars: false, by: |case| holder(case, Cause::Contended).map(of_seat),
        explains: |case| holder(case, Cause::Contended).map(|_| ALL),
        sentence: |case| format!("the ring's lock was held by producer {}{}", named(holder(case, Cause::Contended)), is_how(holder(case, Cause::Contended))),
    },
    // The holder of a seat.
    Rule {
        cause: "owner stopped", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.owner(Holder::Stopped).map(|_| ALL),
        sentence: |case| format!("{} stopped by a signal or a debugger{}{}", is(case), how_long(case), holds_up(case, Holder::Stopped)),
    },
    Rule {
        cause: "owner dead", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.owner(Holder::Dead).map(|_| ALL),
        sentence: |case| format!("was killed or has crashed{}", holds_up(case, Holder::Dead)),
    },
    Rule {
        cause: "owner dumps core", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.owner(Holder::DumpingCore).map(|_| ALL),
        sentence: |case| format!("{}{}, and keeps its seat until that is written{}", if case.is_over() { "dumped core" } else { "dumps core" }, how_long(case), holds_up(case, Holder::DumpingCore)),
    },
    Rule {
        cause: "owner holds up", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.owner(Holder::Alive).filter(|seat| seat.holds_up).map(|_| ALL),
        sentence: |case| format!("{} alive{}", is(case), holds_up(case, Holder::Alive)),
    },
    // A late read.
    Rule {
        cause: "reader stopped", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.stopped_reader(),
        sentence: |case| format!("a signal or a debugger had stopped it for {} at least", span(case.read().map_or(0, |read| read.stopped.surely))),
    },
    Rule {
        cause: "reader preempted", certainty: Certain, bars: false,
        by: |case| case.read()?.parts.as_ref()?.0.preempted_most().map(|(task, _)| task),
        explains: |case| case.of_read(Parts::preempted_in_all),
        sentence: |case| format!("it was preempted by {}", case.read().and_then(|read| Some(culprits_of(case, &read.parts.as_ref()?.0))).unwrap_or_default()),
    },
    Rule {
        cause: "reader waited", certainty: Likely, bars: false, by: no_task,
        explains: |case| case.of_read(|parts| parts.waited),
        sentence: |case| format!("it slept or waited for {}: for its watermark or its time to look, for an output, or for a CPU after that", span(case.read().and_then(|read| Some(read.parts.as_ref()?.0.waited)).unwrap_or(0))),
    },
    Rule {
        cause: "slow reader", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.of_read(|parts| parts.ran),
        sentence: |case| format!("it had a CPU for {}, and took that long", span(case.read().and_then(|read| Some(read.parts.as_ref()?.0.ran)).unwrap_or(0))),
    },
    // The machine.
    Rule {
        cause: "clock set", certainty: Certain, bars: false, by: no_task,
        explains: |case| matches!(case.what, What::Clock(_)).then_some(ALL),
        sentence: |case| match case.what {
            What::Clock(by) => format!("the wall clock was set {} by {}, within {}: times of CLOCK_REALTIME jumped, and those of rings did not", if by < 0 { "back" } else { "forward" }, span(by.unsigned_abs()), span(case.length)),
            _ => String::new(),
        },
    },
];

/// Returns the causes that the rules name, in the order of the table.
///
/// ```
/// assert!(perfring_why::causes().any(|cause| cause == "preempted"));
/// ```
pub fn causes() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.cause)
}

/// Returns the rule that names the cause: the first that explains more than half.
pub(crate) fn judge(
    mut rules: impl Iterator<Item = &'static Rule>,
    case: &Case<'_>,
) -> Option<&'static Rule> {
    rules.find(|rule| {
        (rule.explains)(case).is_some_and(|explained| explained > 0 && explained > case.length / 2)
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
