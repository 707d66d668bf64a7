//! The rules, as a table: a condition over the evidence, a sentence, and a certainty. The tests beside it have a case for each.
//!
//! The first rule that explains more than half of a case's time names its cause; a rule that explains a loss or an owner
//! explains all of it. A rule stands above those that it is a special case of. No rule guesses: where none applies, the cause
//! is unknown, and the sentence says what is missing.

use crate::case::{Case, Coverage, LossCase, What};
use crate::evidence::{Holder, Role, SeatNow, Thread};
use crate::finding::Certainty::{self, Certain, Likely};
use crate::gap::Parts;
use crate::names::span;
use perfring_consumer::Cause;
use perfring_events::LossCause;

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
pub(crate) static RULES: [Rule; 24] = [
    // A gap between two records of a thread.
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
        cause: "throttled", certainty: Likely, bars: true, by: no_task,
        explains: |case| Some(case.gap()?.throttled.min(case.watched()?.off_cpu())),
        sentence: |case| format!("its cgroup had used up its quota of CPU time, and was throttled for {} at least{}", span(case.gap().map_or(0, |gap| gap.throttled)), rest(case)),
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
        cause: "blocked", certainty: Likely, bars: false, by: no_task,
        explains: |case| Some(case.watched()?.waited.saturating_sub(case.woken_late()?)),
        sentence: |case| format!("it slept or waited, and may have waited for a CPU after that, {}{}", waits(case), rest(case)),
    },
    Rule {
        cause: "page faults", certainty: Likely, bars: false, by: no_task,
        explains: |case| Some(case.watched()?.faulting),
        sentence: |case| format!("it had a CPU, and {} page faults followed each other for {}{}", case.watched().map_or(0, |parts| parts.faults), span(case.watched().map_or(0, |parts| parts.faulting)), rest(case)),
    },
    Rule {
        cause: "own code", certainty: Certain, bars: false, by: no_task,
        explains: |case| case.gap()?.has_faults.then_some(case.watched()?.ran.saturating_sub(case.watched()?.faulting)),
        sentence: |case| format!("it had a CPU for {}, so its own code, or the kernel on its behalf, took that long{}", span(case.watched().map_or(0, |parts| parts.ran)), rest(case)),
    },
    Rule {
        cause: "own code or page faults", certainty: Certain, bars: false, by: no_task,
        explains: |case| (!case.gap()?.has_faults).then_some(case.watched()?.ran),
        sentence: |case| format!("it had a CPU for {}: its own code took that long, or page faults did, which are not all recorded{}", span(case.watched().map_or(0, |parts| parts.ran)), rest(case)),
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

/// Says why the cause of a case is unknown.
pub(crate) fn unknown(case: &Case<'_>) -> String {
    let Some(gap) = case.gap() else {
        return match &case.what {
            What::Loss(loss) => format!("the ring says \"{}\"{}", loss.cause.name(), present(loss)),
            _ => "is held up".to_owned(),
        };
    };
    match gap.coverage {
        Coverage::None => "unknown: no kernel events; record with `perfring record DIR --why`".to_owned(),
        Coverage::Lost(records) => {
            format!("unknown: the kernel had no room for {records} of its events in that time")
        }
        Coverage::Late => "unknown: events of that time came too late to be put in order".to_owned(),
        Coverage::Whole => {
            "unknown: the kernel's events and the records contradict each other, so something is missing".to_owned()
        }
    }
}

fn lapped(case: &Case<'_>) -> &'static str {
    match case.loss(Cause::Lapped).is_some_and(|loss| !loss.present.is_empty()) {
        true => {
            "producers overwrote the records while this command read the ring. The ring lost nothing to its own readers by that"
        }
        false => "the reader came too late: producers had overwritten the records before that",
    }
}

/// Says how the processes are now, where nothing says how they were then.
fn present(loss: &LossCase) -> String {
    if !loss.seats.is_empty() {
        return String::new();
    }
    let missing = "how its processes were at that time is not recorded; `perfring record DIR --why` records it";
    let LossCause::Ring(cause) = loss.cause else { return format!(", and {missing}") };
    // Where the ring was full, its consumers have not released; else a producer was in the way.
    let role = if cause == Cause::Full { Role::Consumer } else { Role::Producer };
    let is_concerned = |seat: &&SeatNow| match role {
        Role::Producer => seat.role == role && (seat.holds_up || cause == Cause::Lapped),
        Role::Consumer => seat.role == role,
    };
    let seats: Vec<&SeatNow> = loss.present.iter().filter(is_concerned).collect();
    let said: Vec<String> = seats.iter().take(3).map(|seat| is_now(seat)).collect();
    match (seats.len(), loss.present.is_empty()) {
        (0, true) => format!(", and {missing}"),
        (0, false) if cause == Cause::Full => {
            format!("; its consumer's seat has no process now; {missing}")
        }
        (0, false) => format!("; no producer holds the others up now; {missing}"),
        (1..=3, _) => format!("; {}; {missing}", said.join(", ")),
        (more, _) => {
            format!("; {}, and {} others have seats now; {missing}", said.join(", "), more - 3)
        }
    }
}

/// Says how the holder of a seat is now.
fn is_now(seat: &SeatNow) -> String {
    let role = if seat.role == Role::Producer { "producer" } else { "consumer" };
    let who = named(Some(seat));
    let holds_up = if seat.holds_up {
        ", and the other producers wait for its reservation or lock"
    } else {
        ""
    };
    let how = match seat.holder {
        Holder::Alive => "is running now",
        Holder::Stopped => "is stopped now, by a signal or a debugger",
        Holder::DumpingCore => "dumps core now",
        Holder::Dead => "is dead now: it was killed or has crashed",
        Holder::Gone if seat.pid == 0 => {
            return format!("the seat of its {role} has no process now");
        }
        Holder::Gone => "has given its seat up, and no process has it now",
    };
    format!("its {role} {who} {how}{holds_up}")
}

fn no_task(_: &Case<'_>) -> Option<Thread> {
    None
}

/// Returns a consumer that is in this state, where the ring was full.
fn consumer<'a>(case: &'a Case<'_>, holder: Holder) -> Option<&'a SeatNow> {
    case.loss(Cause::Full)?.consumer(holder)
}

/// Returns the producer for which others waited, where records were refused by this cause.
fn holder<'a>(case: &'a Case<'_>, cause: Cause) -> Option<&'a SeatNow> {
    case.loss(cause)?.holder()
}

fn of_seat(seat: &SeatNow) -> Thread {
    Thread { pid: seat.pid, tid: seat.pid }
}

/// Describes the holder of a seat.
pub(crate) fn named(seat: Option<&SeatNow>) -> String {
    match seat {
        Some(seat) if seat.name.is_empty() => format!("process {}", seat.pid),
        Some(seat) => format!("{} ({})", seat.name, seat.pid),
        None => String::new(),
    }
}

fn is_how(seat: Option<&SeatNow>) -> &'static str {
    match seat.map(|seat| seat.holder) {
        Some(Holder::Stopped) => ", which was stopped by a signal or a debugger",
        Some(Holder::Dead) => ", which had been killed or had crashed",
        Some(Holder::DumpingCore) => ", which dumped core",
        _ => "",
    }
}

fn is(case: &Case<'_>) -> &'static str {
    if case.is_over() { "was" } else { "is" }
}

/// Says for how long looks at the seat found it so.
fn how_long(case: &Case<'_>) -> String {
    match (case.length, case.is_over()) {
        (0, _) => String::new(),
        (length, true) => format!(" for about {}", span(length)),
        (length, false) => format!(" for {} so far", span(length)),
    }
}

fn holds_up(case: &Case<'_>, holder: Holder) -> &'static str {
    match case.owner(holder).is_some_and(|seat| seat.holds_up) {
        true if case.is_over() => ", and the other producers waited for its reservation or lock",
        true => ", and the other producers wait for its reservation or lock",
        false => "",
    }
}

/// Returns the tasks that ran in a thread's place, with their names: the longest first.
pub(crate) fn preempted_by(case: &Case<'_>) -> Vec<(Thread, String, u64)> {
    let by = case.watched().map_or(&[][..], |parts| &parts.preempted);
    let mut by: Vec<_> = by.iter().map(|(task, ns)| (*task, case.task(*task), *ns)).collect();
    by.sort_by_key(|(task, _, ns)| (std::cmp::Reverse(*ns), *task));
    by
}

/// Names the tasks that ran in a thread's place: the one that explains most of it, or the first three.
fn culprits(case: &Case<'_>) -> String {
    let all = case.watched().map_or(0, Parts::preempted_in_all);
    match &preempted_by(case)[..] {
        [] => format!("a task that is not known, for {}", span(all)),
        [(_, task, ns)] if *ns == all => format!("{task} for {}", span(*ns)),
        [(_, task, ns), ..] if *ns > all / 2 => {
            format!("{task} for {}, and by others for {}", span(*ns), span(all.saturating_sub(*ns)))
        }
        by => {
            let some = by.iter().take(3);
            let some: Vec<String> =
                some.map(|(_, task, ns)| format!("{task} for {}", span(*ns))).collect();
            format!("several tasks for {}: {}", span(all), some.join(", "))
        }
    }
}

fn waits(case: &Case<'_>) -> String {
    let (waits, waited) = case.watched().map_or((0, 0), |parts| (parts.waits, parts.waited));
    match waits {
        1 => format!("once, for {}", span(waited)),
        _ => format!("{waits} times, for {}", span(waited)),
    }
}

/// Adds up the parts of a gap.
fn rest(case: &Case<'_>) -> String {
    let Some(parts) = case.watched() else { return String::new() };
    let times = [
        ("ran", parts.ran),
        ("preempted", parts.preempted_in_all()),
        ("kept from an idle CPU", parts.kept),
        ("waited", parts.waited),
    ];
    let times = times.iter().filter(|(_, ns)| *ns > 0);
    let mut said: Vec<String> = times.map(|(what, ns)| format!("{what} {}", span(*ns))).collect();
    let counts = [("page fault", parts.faults), ("move to another CPU", parts.migrations)];
    for (what, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
        said.push(match (number, what) {
            (1, _) => format!("1 {what}"),
            (_, "page fault") => format!("{number} page faults"),
            _ => format!("{number} moves to other CPUs"),
        });
    }
    format!(" ({})", said.join(", "))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
