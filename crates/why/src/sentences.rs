//! The words of the rules.

use crate::case::{Case, Coverage, LossCase, What};
use crate::evidence::{Holder, Role, SeatNow, Thread};
use crate::gap::Parts;
use crate::names::span;
use perfring_consumer::Cause;
use perfring_events::LossCause;

/// Says why the cause of a case is unknown.
pub(crate) fn unknown(case: &Case<'_>) -> String {
    let Some(gap) = case.gap() else {
        return match &case.what {
            What::Loss(loss) => format!("the ring says \"{}\"{}", loss.cause.name(), present(loss)),
            What::Read(_) => {
                "unknown: what its thread did is not known, or it has several".to_owned()
            }
            _ => "is held up".to_owned(),
        };
    };
    match gap.coverage {
        Coverage::None => "unknown: no kernel events of that time; `perfring record DIR --why` records them".to_owned(),
        Coverage::Lost(records) => {
            format!("unknown: the kernel had no room for {records} of its events in that time")
        }
        Coverage::Late => "unknown: events of that time came too late to be put in order".to_owned(),
        Coverage::Whole => {
            "unknown: the kernel's events and the records contradict each other: something is missing, or came too late".to_owned()
        }
    }
}

pub(crate) fn lapped(case: &Case<'_>) -> &'static str {
    match case.loss(Cause::Lapped).is_some_and(|loss| !loss.present.is_empty()) {
        true => {
            "producers overwrote the records while this command read the ring. The ring lost nothing to its own readers by that"
        }
        false => "the reader came too late: producers had overwritten the records before that",
    }
}

/// Says how the processes are now, where nothing says how they were then.
pub(crate) fn present(loss: &LossCase) -> String {
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
pub(crate) fn is_now(seat: &SeatNow) -> String {
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

pub(crate) fn no_task(_: &Case<'_>) -> Option<Thread> {
    None
}

/// Returns a consumer that is in this state, where the ring was full.
pub(crate) fn consumer<'a>(case: &'a Case<'_>, holder: Holder) -> Option<&'a SeatNow> {
    case.loss(Cause::Full)?.consumer(holder)
}

/// Returns the producer for which others waited, where records were refused by this cause.
pub(crate) fn holder<'a>(case: &'a Case<'_>, cause: Cause) -> Option<&'a SeatNow> {
    case.loss(cause)?.holder()
}

pub(crate) fn of_seat(seat: &SeatNow) -> Thread {
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

pub(crate) fn is_how(seat: Option<&SeatNow>) -> &'static str {
    match seat.map(|seat| seat.holder) {
        Some(Holder::Stopped) => ", which was stopped by a signal or a debugger",
        Some(Holder::Dead) => ", which had been killed or had crashed",
        Some(Holder::DumpingCore) => ", which dumped core",
        _ => "",
    }
}

pub(crate) fn is(case: &Case<'_>) -> &'static str {
    if case.is_over() { "was" } else { "is" }
}

/// Says for how long looks at the seat found it so.
pub(crate) fn how_long(case: &Case<'_>) -> String {
    match (case.length, case.is_over()) {
        (0, _) => String::new(),
        (length, true) => format!(" for about {}", span(length)),
        (length, false) => format!(" for {} so far", span(length)),
    }
}

pub(crate) fn holds_up(case: &Case<'_>, holder: Holder) -> &'static str {
    match case.owner(holder).is_some_and(|seat| seat.holds_up) {
        true if case.is_over() => ", and the other producers waited for its reservation or lock",
        true => ", and the other producers wait for its reservation or lock",
        false => "",
    }
}

/// Returns the tasks that ran in a thread's place, with their names: the longest first.
pub(crate) fn preempted_by(case: &Case<'_>, parts: &Parts) -> Vec<(Thread, String, u64)> {
    let by = parts.preempted.iter();
    let mut by: Vec<_> = by.map(|(task, ns)| (*task, case.task(*task), *ns)).collect();
    by.sort_by_key(|(task, _, ns)| (std::cmp::Reverse(*ns), *task));
    by
}

/// Names the tasks that ran in a thread's place: the one that explains most of it, or the first three.
pub(crate) fn culprits(case: &Case<'_>) -> String {
    case.watched().map_or(String::new(), |parts| culprits_of(case, parts))
}

pub(crate) fn culprits_of(case: &Case<'_>, parts: &Parts) -> String {
    let all = parts.preempted_in_all();
    match &preempted_by(case, parts)[..] {
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

/// Names the tasks that had a thread's CPU for most of a gap, where another cause explains that, too.
pub(crate) fn meanwhile(case: &Case<'_>) -> String {
    let is_most = |parts: &&Parts| parts.preempted_in_all() > case.length / 2;
    let said = |parts| format!("; its CPU meanwhile ran {}", culprits_of(case, parts));
    case.watched().filter(is_most).map_or(String::new(), said)
}

/// Names the process for which the producers of a ring waited.
pub(crate) fn hold(case: &Case<'_>) -> String {
    let Some(held) = case.gap().and_then(|gap| gap.held.as_ref()) else { return String::new() };
    let task = case.task(Thread { pid: held.pid, tid: held.pid });
    let why = held.why.as_ref().map_or(String::new(), |why| format!(", which was itself {why}"));
    format!("for an older reservation or the lock of {task} for {} at least{why}", span(held.least))
}

pub(crate) fn waits(case: &Case<'_>) -> String {
    let (waits, waited) = case.watched().map_or((0, 0), |parts| (parts.waits, parts.waited));
    match waits {
        1 => format!("once, for {}", span(waited)),
        _ => format!("{waits} times, for {}", span(waited)),
    }
}

/// Says why page faults may have taken the time of a gap.
pub(crate) fn faults(case: &Case<'_>) -> String {
    match case.gap().filter(|gap| gap.has_faults) {
        Some(_) => "because single ones of many may take milliseconds".to_owned(),
        None => "which are not all recorded".to_owned(),
    }
}

/// Adds up the parts of a gap.
pub(crate) fn rest(case: &Case<'_>) -> String {
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
