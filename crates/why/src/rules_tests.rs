//! A case for each rule, as evidence: lines of a time in µs, a word, and what it is about. Each case fails without its rule.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use super::*;
use crate::analysis::Analysis;
use crate::evidence::{Events, Evidence, Fact, Role, SeatNow, Switch, Writer};
use crate::finding::{Finding, Kind, Report, UNKNOWN};
use crate::options::Options;
use perfring_events::LossCause;

/// The thread of the cases; its process has a ring, number 0.
const SHOP: Thread = Thread { pid: 17, tid: 17 };

/// Reads a line of a case: `TIME write`, `TIME elsewhere`, `TIME other`, `TIME in CPU`, `TIME out CPU NEXT`, `TIME preempt CPU NEXT`, `TIME run CPU TASK`,
/// `TIME fault`, `TIME stop BEFORE`, `TIME continue BEFORE`, `TIME throttled BEFORE TIME`, `TIME delayed BEFORE TIME`, `TIME watch`, `TIME faults`, `TIME unwatch`, `TIME missing`, `TIME missing-faults`,
/// `TIME holder`, `TIME call NAME`, `TIME steal BEFORE TIME`, `TIME stall BEFORE TIME`, `TIME suspend BEFORE TIME`, `TIME clock BEFORE BY`, `TIME held SINCE`, `TIME read POSITION`,
/// `TIME drops`, `TIME lost NUMBER CAUSE`, `TIME seat ROLE STATE [held] [contained]`, `TIME now ROLE STATE [held]`.
fn evidence(line: &str) -> Evidence {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    let us = |at| u64::from(number(at)) * 1_000;
    let pos = us(0);
    let task = |at: usize| match words[at] {
        "-" => None,
        _ => Some(Thread { pid: number(at), tid: number(at) }),
    };
    let switched =
        |thread, how, next| Fact::Switched { source: 9, thread, cpu: number(2), how, next };
    let fact = match words[1] {
        "write" => Fact::Record { ring: 0, pos, writer: Writer::Thread(SHOP) },
        "elsewhere" => Fact::Record { ring: 1, pos, writer: Writer::Thread(SHOP) },
        "other" => Fact::Record { ring: 0, pos, writer: Writer::Unknown },
        "holder" => {
            let thread = Thread { pid: 20, tid: 20 };
            Fact::Record { ring: 0, pos, writer: Writer::Thread(thread) }
        }
        "call" => Fact::InCall { thread: SHOP, look: pos, name: words[2].to_owned() },
        "steal" => Fact::Stolen { cpu: 0, before: us(2), added: us(3) },
        "stall" => Fact::Stalled { pid: SHOP.pid, before: us(2), added: us(3) },
        "suspend" => Fact::Suspended { before: us(2), added: us(3) },
        "clock" => Fact::ClockSet { before: us(2), by: words[3].parse::<i64>().unwrap() * 1_000 },
        "held" => Fact::Held { ring: 0, pid: 20, from: us(2), until: pos },
        // The position of a record is its time.
        "read" => Fact::Read { ring: 0, number: 0, pid: 20, pos: us(2), look: pos },
        "stop-reader" => Fact::Stopped { pid: 20, stopped: true, before: us(2), look: pos },
        "go-reader" => Fact::Stopped { pid: 20, stopped: false, before: pos, look: pos },
        "in-reader" => switched(Thread { pid: 20, tid: 20 }, Switch::In, None),
        "out-reader" => switched(Thread { pid: 20, tid: 20 }, Switch::Out, task(3)),
        "preempt-reader" => switched(Thread { pid: 20, tid: 20 }, Switch::Preempted, task(3)),
        "in" => switched(SHOP, Switch::In, None),
        "out" => switched(SHOP, Switch::Out, task(3)),
        "preempt" => switched(SHOP, Switch::Preempted, task(3)),
        "run" => switched(task(3).unwrap(), Switch::In, None),
        "drops" => Fact::Ring { ring: 0, name: "orders".to_owned(), drops: true },
        "fault" => Fact::Fault { source: 9, thread: SHOP },
        "stop" | "continue" => {
            let (stopped, before) = (words[1] == "stop", u64::from(number(2)) * 1_000);
            Fact::Stopped { pid: SHOP.pid, stopped, before, look: u64::from(number(0)) * 1_000 }
        }
        "delayed" => Fact::Delayed { thread: SHOP, before: us(2), added: us(3) },
        "throttled" => Fact::Throttled { pid: SHOP.pid, before: us(2), added: us(3) },
        "watch" => Fact::Watched { of: Events::Switches, pid: 0 },
        "faults" => Fact::Watched { of: Events::Faults, pid: SHOP.pid },
        "unwatch" => Fact::Unwatched { of: Events::Switches, pid: 0 },
        "missing" => Fact::Missing { of: Events::Switches, pid: 0, source: 9, records: 5 },
        "missing-faults" => Fact::Missing { of: Events::Faults, pid: 17, source: 8, records: 5 },
        "lost" => {
            let causes = Cause::REFUSED.into_iter().chain([Cause::Lapped, Cause::Foreign]);
            let cause = causes.into_iter().find(|cause| cause.name() == words[3]).unwrap();
            Fact::Lost { ring: 0, records: number(2).into(), cause: LossCause::Ring(cause) }
        }
        "seat" | "now" => {
            let role = if words[2] == "producer" { Role::Producer } else { Role::Consumer };
            let holder = match words[3] {
                "alive" => Holder::Alive,
                "stopped" => Holder::Stopped,
                "dumping" => Holder::DumpingCore,
                "dead" => Holder::Dead,
                _ => Holder::Gone,
            };
            let (holds_up, here) = (words.contains(&"held"), !words.contains(&"contained"));
            let name = "till".to_owned();
            let seat = SeatNow { role, number: 0, pid: 20, name, holder, holds_up, here };
            match words[1] {
                "seat" => Fact::Seat { ring: 0, seat },
                _ => Fact::Present { ring: 0, seat },
            }
        }
        word => panic!("{word}"),
    };
    Evidence { time: words[0].parse::<u64>().unwrap() * 1_000, fact }
}

/// Analyzes a case.
fn report(case: &str) -> Report {
    let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
    let named = |tid, name: &str| {
        let fact =
            Fact::Named { source: None, thread: Thread { pid: tid, tid }, name: name.to_owned() };
        Evidence { time: 0, fact }
    };
    for (tid, name) in [(17, "shop"), (20, "till"), (99, "hog"), (98, "cron")] {
        analysis.add(named(tid, name));
    }
    analysis.add(Evidence {
        time: 0,
        fact: Fact::Ring { ring: 0, name: "orders".to_owned(), drops: false },
    });
    for line in case.lines().filter(|line| !line.trim().is_empty()) {
        analysis.add(evidence(line));
    }
    analysis.finish()
}

/// A rule's cause, a case that it names, and what its sentence says.
const CASES: [(&str, &str, &str); 34] = [
    (
        "suspended",
        "0 watch
         1 write
         10 out 0 0
         89990 in 0
         90000 write
         95000 suspend 5000 85000",
        "shop (17) wrote nothing for 90.0 ms: the machine was suspended for 80.0 ms at least (ran 19.0 µs, waited 90.0 ms)",
    ),
    (
        "stopped",
        "0 watch
         1 write
         10 out 0 0
         3000 stop 5
         80000 stop 60000
         91000 continue 80000
         90010 in 0
         90020 write",
        "shop (17) wrote nothing for 90.0 ms: a signal or a debugger had stopped the process for 77.0 ms at least",
    ),
    (
        "stopped briefly",
        "0 watch
         1 write
         10 out 0 0
         20000 stop 5
         30010 in 0
         30020 write
         40000 continue 20000",
        "shop (17) wrote nothing for 30.0 ms: the process was found stopped by a signal or a debugger, for 30.0 ms at most",
    ),
    (
        "held up",
        "0 watch
         1 write
         10 out 0 0
         2990 in 0
         3000 out 0 0
         4000 held 200
         5990 in 0
         6000 out 0 0
         8000 held 200
         8990 in 0
         9000 write",
        "the producers of the ring waited for an older reservation or the lock of till (20) for 7.80 ms at least (ran",
    ),
    (
        "throttled",
        "0 watch
         1 write
         10 preempt 0 99
         900 run 0 98
         89990 in 0
         90000 write
         95000 throttled 75000 89000",
        "was throttled for 84.0 ms in the sum of its CPUs; its CPU meanwhile ran cron (98) for 89.1 ms",
    ),
    (
        "memory.high",
        "0 watch
         1 write
         10 out 0 0
         89990 in 0
         90000 write
         75000 stall 0 70000
         95000 stall 75000 17000",
        "its cgroup went over memory.high, and its tasks waited for memory for 82.0 ms at least (ran",
    ),
    (
        "preempted",
        "0 watch
         1 write
         101 preempt 0 99
         3001 in 0
         3101 write",
        "shop (17) wrote nothing for 3.10 ms: it was preempted by hog (99) for 2.90 ms (ran 200 µs, preempted 2.90 ms)",
    ),
    (
        "kept waiting",
        "0 watch
         1 write
         10 preempt 0 0
         2990 in 1
         3000 write",
        "it could run, and got no CPU for 2.98 ms, while the CPU that it had left was idle",
    ),
    (
        "run delay",
        "0 watch
         1 write
         10 out 0 99
         29990 in 0
         30000 write
         40000 delayed 20000 28000",
        "it was woken and waited for a CPU, for 18.0 ms at least by its run delay in /proc (ran 19.0 µs, waited 30.0 ms)",
    ),
    (
        "system call",
        "0 watch
         1 write
         10 out 0 99
         20000 call futex
         29990 in 0
         30000 write",
        "it was blocked in the system call futex, and may have waited for a CPU after that, once, for 30.0 ms (ran",
    ),
    (
        "blocked",
        "0 watch
         1 write
         10 out 0 99
         1000 in 0
         1010 out 0 99
         2990 in 0
         3000 write",
        "it slept or waited, and may have waited for a CPU after that, 2 times, for 2.97 ms (ran 29.0 µs, waited 2.97 ms)",
    ),
    (
        "stolen",
        "0 watch
         1 write
         2 preempt 0 99
         3 in 0
         30000 write
         20000 steal 1 15000
         40000 steal 20000 19000",
        "it had a CPU, and the hypervisor gave that to others for 24.0 ms at least, by steal in /proc/stat (ran",
    ),
    (
        "page faults",
        "0 watch
         1 write
         2 fault
         10 fault
         18 fault
         26 fault
         34 fault
         42 fault
         50 fault
         58 fault
         66 fault
         74 fault
         82 fault
         101 write",
        "it had a CPU, and 11 page faults followed each other for 80.0 µs",
    ),
    (
        "own code",
        "0 watch
         0 faults
         1 write
         500 fault
         3001 write",
        "it had a CPU for 3.00 ms, so its own code, or the kernel on its behalf, took that long (ran 3.00 ms, 1 page fault)",
    ),
    (
        "own code or page faults",
        "0 watch
         0 faults
         1 write
         500 fault
         2000 missing-faults
         3001 write",
        "its own code took that long, or page faults did, which are not all recorded (ran 3.00 ms, 1 page fault)",
    ),
    (
        "several",
        "0 watch
         1 write
         1001 preempt 0 99
         2001 in 0
         2001 out 0 0
         3001 in 1
         3001 write",
        "no single cause explains half of it (ran 1.00 ms, preempted 1.00 ms, waited 1.00 ms, 1 move to another CPU)",
    ),
    (
        "consumer stopped",
        "0 seat consumer stopped
         5 lost 40 full",
        "40 records were lost in ring orders: the ring was full, and its consumer till (20) was stopped",
    ),
    (
        "consumer dead",
        "0 seat consumer dead
         5 lost 40 full",
        "its consumer till (20) had been killed or had crashed",
    ),
    (
        "slow consumer",
        "0 seat consumer alive
         5 lost 1 full",
        "1 record was lost in ring orders: the ring was full: its consumer till (20) was alive, and released less",
    ),
    (
        "no consumer",
        "0 seat consumer gone
         5 lost 40 full",
        "no process had the seat of its consumer",
    ),
    (
        "released",
        "0 drops
         5 lost 40 lapped",
        "40 records were not read in ring orders: the ring's consumer had read and released them",
    ),
    ("lapped", "5 lost 40 lapped", "the reader came too late"),
    ("too large", "5 lost 40 too_large", "larger than the ring takes"),
    (
        "reservation",
        "0 seat producer stopped held
         5 lost 40 pending",
        "an older reservation was open, of producer till (20), which was stopped",
    ),
    (
        "lock",
        "0 seat producer dead held
         5 lost 40 contended",
        "the ring's lock was held by producer till (20), which had been killed or had crashed",
    ),
    (
        "owner stopped",
        "0 seat producer stopped held
         5 seat producer alive",
        "producer till (20) of ring orders was stopped by a signal or a debugger for about 5.00 µs, and the other producers waited",
    ),
    (
        "owner dead",
        "0 seat producer dead",
        "producer till (20) of ring orders was killed or has crashed",
    ),
    ("owner dumps core", "0 seat consumer dumping", "consumer till (20) of ring orders dumps core"),
    (
        "owner holds up",
        "0 seat producer alive held",
        "producer till (20) of ring orders is alive, and the other producers wait for its reservation or lock",
    ),
    (
        "reader stopped",
        "0 read 0
         1000 other
         20000 stop-reader 10000
         40000 stop-reader 20000
         95000 stop-reader 40000
         100000 read 0
         200000 read 150000",
        "consumer process 20 of ring orders read records 99.0 ms late at least: a signal or a debugger had stopped it for 75.0 ms at least",
    ),
    (
        "reader preempted",
        "0 watch
         0 in-reader 0
         0 read 0
         500 read 0
         1000 other
         2000 preempt-reader 0 99
         100000 read 0
         200000 read 150000",
        "of ring orders read records 99.0 ms late at least: it was preempted by hog (99) for 98.0 ms",
    ),
    (
        "reader waited",
        "0 watch
         0 in-reader 0
         0 read 0
         500 read 0
         1000 other
         2000 out-reader 0 99
         100000 read 0
         200000 read 150000",
        "it slept or waited for 98.0 ms: for its watermark or its time to look, for an output, or for a CPU after that",
    ),
    (
        "slow reader",
        "0 watch
         0 in-reader 0
         0 read 0
         500 read 0
         1000 other
         100000 read 0
         200000 read 150000",
        "it had a CPU for 99.5 ms, and took that long",
    ),
    (
        "clock set",
        "20000 clock 0 -3200000",
        "the wall clock was set back by 3.20 s, within 20.0 ms: times of CLOCK_REALTIME jumped, and those of rings did not",
    ),
];

/// Returns the finding of this kind of a report, of which there is one.
fn only(report: &Report, kind: Kind) -> &Finding {
    let mut of_kind = report.findings.iter().filter(|finding| finding.kind == kind);
    let first = of_kind.next().unwrap_or_else(|| panic!("no {kind:?}: {report:#?}"));
    assert_eq!(of_kind.next(), None);
    first
}

/// Returns the kind of a rule's cases.
fn kind_of(rule: usize) -> Kind {
    match rule {
        0..16 => Kind::Gap,
        16..25 => Kind::Loss,
        25..29 => Kind::Owner,
        29..33 => Kind::Read,
        _ => Kind::Machine,
    }
}

#[test]
fn each_rule_names_the_cause_of_its_case() {
    for (nth, (rule, (cause, case, says))) in RULES.iter().zip(CASES).enumerate() {
        assert_eq!(rule.cause, cause, "the cases are in the order of the rules");
        let report = report(case);
        let finding = only(&report, kind_of(nth));
        println!("{}: {}", finding.cause, finding.sentence);
        assert_eq!((finding.cause, finding.certainty), (cause, rule.certainty), "{finding:?}");
        assert!(finding.sentence.contains(says), "{}", finding.sentence);
    }
}

/// Judged by the other rules alone, no case has the cause of the rule that is left out.
#[test]
fn no_case_is_named_without_its_rule() {
    assert_eq!(RULES.len(), CASES.len());
    for (nth, (cause, case, _)) in CASES.into_iter().enumerate() {
        let rest = RULES.iter().enumerate().filter(|(other, _)| *other != nth);
        let rest: Vec<&'static Rule> = rest.map(|(_, rule)| rule).collect();
        let mut analysis = Analysis::with_rules(Options { slower_than: 100_000, since: 0 }, rest);
        case.lines().for_each(|line| analysis.add(evidence(line)));
        let report = analysis.finish();
        let found: Vec<_> = report.findings.iter().map(|finding| finding.cause).collect();
        assert!(!found.contains(&cause), "{cause}: {found:?}");
    }
}

/// Returns the cause and the sentence of the only gap.
fn gap(case: &str) -> (&'static str, String) {
    let report = report(case);
    let finding = only(&report, Kind::Gap);
    (finding.cause, finding.sentence.clone())
}

#[test]
fn a_gap_that_the_kernels_events_do_not_cover_is_unknown_and_says_what_is_missing() {
    let preempted = "1 write\n101 preempt 0 99\n3001 in 0\n3101 write\n";
    let cases = [
        (
            preempted.to_owned(),
            "no kernel events of that time; `perfring record DIR --why` records them",
        ),
        (format!("{preempted}3102 watch"), "no kernel events"),
        (preempted.replace("101 preempt", "2 watch\n101 preempt"), "no kernel events"),
        (
            format!("0 watch\n{}", preempted.replace("3001 in", "3000 unwatch\n3001 in")),
            "no kernel events",
        ),
        (format!("0 watch\n1 missing\n{preempted}"), "the kernel had no room for 5 of its events"),
        (
            format!("0 watch\n{}", preempted.replace("3001 in", "2000 missing\n3001 in")),
            "no room for 5",
        ),
        (format!("0 watch\n{preempted}3150 missing\n9000 run 0 98"), "no room for 5"),
        (format!("0 watch\n{preempted}3001 run 0 98"), "came too late"),
    ];
    for (case, says) in cases {
        let (cause, sentence) = gap(&case);
        assert_eq!(cause, UNKNOWN, "{case}\n{sentence}");
        assert!(sentence.contains(says), "{case}\n{sentence}");
    }
    let known = gap(&format!("0 watch\n{preempted}4000 run 0 98\n90000 missing\n90001 run 0 98"));
    assert_eq!(known.0, "preempted", "what is missing later is no matter: {}", known.1);
}

/// What is known from before a time that was not watched is forgotten.
#[test]
fn a_watch_that_begins_again_knows_nothing_of_the_time_between() {
    let report = report(
        "0 watch\n1 write\n10 out 0 99\n20 unwatch\n1000 watch\n1100 write\n1200 preempt 0 99\n3000 in 0\n3100 write",
    );
    let causes: Vec<_> = report.findings.iter().map(|finding| finding.cause).collect();
    assert_eq!(causes, ["preempted", UNKNOWN], "{report:#?}");
}

/// The kernel's switches say that the thread had no CPU when it wrote: something is missing, whatever the parts add up to.
#[test]
fn switches_that_contradict_a_record_name_no_cause() {
    for case in [
        // No switch back, ever; or much too late.
        "0 watch\n1 write\n10 out 0 99\n3000 write",
        "0 watch\n1 write\n10 out 0 99\n3000 write\n3500 in 0",
        "0 watch\n1 write\n10 preempt 0 99\n3000 write\n3500 in 0",
        // It left twice, or came twice.
        "0 watch\n1 write\n10 out 0 99\n20 out 0 99\n2999 in 0\n3000 write",
        "0 watch\n1 write\n10 in 0\n3000 write",
    ] {
        let (cause, sentence) = gap(case);
        assert_eq!(cause, UNKNOWN, "{case}: {sentence}");
        assert!(sentence.contains("contradict each other"), "{sentence}");
    }
    // The two clocks differ by some µs.
    for case in [
        "0 watch\n1 write\n10 out 0 99\n3000 write\n3010 in 0\n3020 out 0 99",
        "0 watch\n1 write\n10 out 0 99\n11 write\n3000 in 0\n3000 write",
    ] {
        assert_eq!(gap(case).0, "blocked", "{case}");
    }
}

#[test]
fn a_preempted_thread_names_the_task_that_ran_longest_on_the_cpu_it_left() {
    let several =
        "0 watch\n1 write\n1 preempt 0 99\n1101 run 0 98\n2001 run 0 97\n3001 in 0\n3001 write";
    let (cause, sentence) = gap(several);
    assert_eq!(cause, "preempted");
    let says = "by several tasks for 3.00 ms: hog (99) for 1.10 ms, process 97 for 1.00 ms, cron (98) for 900 µs";
    assert!(sentence.contains(says), "{sentence}");
    let most = "0 watch\n1 write\n1 preempt 0 99\n2601 run 0 98\n3001 in 1\n3001 write";
    let (_, sentence) = gap(most);
    let says = "by hog (99) for 2.60 ms, and by others for 400 µs (preempted 3.00 ms, 1 move to another CPU)";
    assert!(sentence.contains(says), "{sentence}");
    // A watch of one process does not say which task came next.
    let (_, sentence) = gap("0 watch\n1 write\n1 preempt 0 -\n3001 in 0\n3001 write");
    assert!(sentence.contains("by a task that is not known, for 3.00 ms"), "{sentence}");
}

#[test]
fn a_thread_is_not_among_the_tasks_that_ran_in_its_place() {
    // A task leaves for the thread, and the thread comes a little later.
    let case =
        "0 watch\n1000 write\n1001 preempt 0 20\n4001 out-reader 0 17\n4011 in 0\n4012 write";
    let report = report(case);
    let finding = only(&report, Kind::Gap);
    let by: Vec<_> = finding.preempted_by.iter().map(|(task, _, ns)| (task.tid, *ns)).collect();
    assert_eq!(by, [(20, 3_000_000)]);
    assert_eq!(finding.parts.as_ref().unwrap().ran, 12_000);
}

#[test]
fn a_stop_explains_only_the_time_for_which_it_was_seen() {
    // It slept for most of the time, and was stopped at the end.
    let slept = "0 watch\n1 write\n10 out 0 0\n60000 stop 50000\n90000 stop 80000\n90010 in 0\n90020 write\n91000 continue 90000";
    assert_eq!(gap(slept).0, "blocked");
    // Without the kernel's events, the witness alone says it.
    let (cause, sentence) =
        gap("1 write\n3000 stop 5\n80000 stop 60000\n90020 write\n91000 continue 80000");
    assert_eq!(cause, "stopped", "{sentence}");
    // It has continued; a look that finds that comes later.
    let after = "0 watch\n0 stop 0\n80000 write\n80010 out 0 0\n80900 in 0\n81000 write\n90000 continue 70000";
    assert_eq!(gap(after).0, "blocked");
    // It was stopped, ran, waited and was stopped again, all between two looks.
    let twice = report(
        "0 watch\n5 write\n10 out 0 0\n10000 stop 5\n19000 in 0\n20000 write\n20010 out 0 0\n35900 in 0\n36000 write\n36010 out 0 0\n40000 stop 10000\n60000 stop 40000\n70000 in 0\n70010 write\n80000 continue 60000",
    );
    let causes: Vec<_> =
        twice.findings.iter().map(|finding| (finding.time / 1_000, finding.cause)).collect();
    assert_eq!(
        causes,
        [(36_000, "stopped"), (5, "stopped briefly"), (20_000, "blocked")],
        "{twice:#?}"
    );
    // That look comes late.
    let late = "0 watch\n0 stop 0\n80000 write\n80010 out 0 0\n80900 in 0\n81000 write\n900000 in 0\n910000 continue 70000";
    assert_eq!(gap(late).0, "blocked");
}

#[test]
fn losses_of_a_burst_are_one_finding_and_of_several_consumers_none_is_blamed() {
    let report =
        report("0 seat consumer alive\n5 lost 40 full\n900 lost 2 full\n2000000 lost 7 full");
    let records: Vec<u64> = report.findings.iter().map(|finding| finding.records).collect();
    assert_eq!(records, [42, 7]);
    assert_eq!((report.count(), report.unknown()), (2, 0));
    let mut analysis = Analysis::new(Options { slower_than: 1, since: 0 });
    analysis.add(evidence("0 seat consumer stopped"));
    let Fact::Seat { ring, mut seat } = evidence("0 seat consumer alive").fact else { panic!() };
    seat.number = 1;
    analysis.add(Evidence { time: 0, fact: Fact::Seat { ring, seat } });
    analysis.add(evidence("5 lost 40 full"));
    let report = analysis.finish();
    assert_eq!(only(&report, Kind::Loss).cause, UNKNOWN);
}

#[test]
fn a_consumer_that_looks_found_stopped_was_stopped_though_its_seat_is_seen_later() {
    let cause = |looks: &str| {
        let report = report(&format!("0 seat consumer alive\n{looks}"));
        only(&report, Kind::Loss).cause
    };
    assert_eq!(cause("10 stop-reader 5\n20 lost 40 full\n30 stop-reader 10"), "consumer stopped");
    assert_eq!(cause("10 stop-reader 5\n20 lost 40 full"), "consumer stopped");
    assert_eq!(cause("20 lost 40 full\n30 stop-reader 10"), "slow consumer", "stopped later");
    let ended = "10 stop-reader 5\n15 go-reader\n20 lost 40 full\n30 stop-reader 25";
    assert_eq!(cause(ended), "slow consumer", "it ran at that time");
}

/// A live ring says how its processes are now, which is not how they were: the cause stays unknown.
#[test]
fn a_loss_in_a_live_ring_says_how_its_processes_are_now() {
    let how = "how its processes were at that time is not recorded; `perfring record DIR --why` records it";
    for (seats, cause, says) in [
        (
            "9 now consumer stopped",
            "full",
            "its consumer till (20) is stopped now, by a signal or a debugger",
        ),
        (
            "9 now consumer dead",
            "full",
            "its consumer till (20) is dead now: it was killed or has crashed",
        ),
        ("9 now consumer alive", "full", "its consumer till (20) is running now"),
        (
            "9 now consumer gone",
            "full",
            "its consumer till (20) has given its seat up, and no process has it now",
        ),
        ("9 now producer stopped held", "full", "its consumer's seat has no process now"),
        (
            "9 now producer stopped held",
            "pending",
            "its producer till (20) is stopped now, by a signal or a debugger, and the other producers wait for its \
             reservation or lock",
        ),
        ("9 now producer alive", "contended", "no producer holds the others up now"),
    ] {
        // Also one before the last burst.
        let report = report(&format!("5 lost 40 {cause}\n2000000 lost 7 {cause}\n{seats}"));
        let losses = report.findings.iter().filter(|finding| finding.kind == Kind::Loss);
        let losses: Vec<_> = losses.map(|loss| (loss.cause, &*loss.sentence)).collect();
        assert_eq!(losses.len(), 2);
        for (found, sentence) in losses {
            assert_eq!(found, UNKNOWN, "{sentence}");
            assert!(
                sentence.ends_with(&format!(": the ring says \"{cause}\"; {says}; {how}")),
                "{sentence}"
            );
        }
    }
    // Where a witness saw them, what is now is no matter.
    let report =
        super::tests::report("0 seat consumer alive\n5 lost 40 full\n9 now consumer stopped");
    assert_eq!(only(&report, Kind::Loss).cause, "slow consumer");
}

/// The last record of a thread may be its last word, unless something kept the thread from running.
#[test]
fn a_stop_up_to_the_end_is_a_gap_and_silence_is_none() {
    let stopped = "0 watch\n1 write\n10 out 0 0\n3000 stop 5\n80000 stop 60000\n90000 unwatch\n95000 run 0 98";
    let whole = report(stopped);
    let finding = only(&whole, Kind::Gap);
    assert_eq!((finding.cause, finding.time, finding.length), ("stopped", 1_000, 89_999_000));
    let says = "shop (17) wrote nothing for 90.0 ms, up to the end: a signal or a debugger had stopped the process for 77.0 ms";
    assert!(finding.sentence.starts_with(says), "{}", finding.sentence);
    for (case, cause) in [
        // Without the kernel's events.
        ("1 write\n3000 stop 5\n80000 stop 60000", Some("stopped")),
        ("0 watch\n1 write\n10 preempt 0 99\n9000 unwatch", Some("preempted")),
        ("0 watch\n1 write\n10 out 0 0\n9000 unwatch", None),
        ("0 watch\n0 faults\n1 write\n9000 unwatch", None),
        ("1 write\n9000 other", None),
        // Its records may be among those that were lost.
        ("1 write\n3000 stop 5\n79000 lost 5 full\n80000 stop 60000", None),
    ] {
        let found = report(case);
        let gaps: Vec<_> =
            found.findings.iter().filter(|finding| finding.kind == Kind::Gap).collect();
        assert_eq!(gaps.first().map(|gap| gap.cause), cause, "{case}: {gaps:?}");
    }
}

#[test]
fn the_holder_of_a_lock_is_named_with_what_kept_it() {
    let waits = |more: &str| in_order(&format!("{NAPS}4000 held 200\n8000 held 200\n{more}"));
    let says = "the producers of the ring waited for an older reservation or the lock of till (20) for 7.80 ms at least";
    for (more, why) in [
        ("", " (ran"),
        (
            "0 holder\n200 preempt-reader 1 99\n8200 in-reader 1\n8210 holder",
            ", which was itself preempted by hog (99) (ran",
        ),
        (
            "0 holder\n1000 stop-reader 500\n5000 stop-reader 3000\n7900 stop-reader 5000\n8200 holder",
            ", which was itself stopped by a signal or a debugger (ran",
        ),
    ] {
        let report = report(&waits(more));
        let of = |finding: &&Finding| finding.thread == Some(SHOP);
        let gap = report.findings.iter().find(of).unwrap();
        assert_eq!(
            (gap.cause, gap.by.as_ref().map(|by| by.0.pid)),
            ("held up", Some(20)),
            "{gap:?}"
        );
        assert!(gap.sentence.contains(&format!("{says}{why}")), "{}", gap.sentence);
    }
    // On a busy machine it waits for a CPU after each nap.
    let busy = "0 watch\n1 write\n10 out 0 0\n8990 in 0\n9000 write\n4000 held 200\n8000 held 200\n8995 delayed 1 8000";
    assert_eq!(gap(&in_order(busy)).0, "held up");
    // It waited for its input, in a call in which no producer waits.
    assert_eq!(gap(&waits("2000 call read\n5000 call read\n8500 call read")).0, "system call");
    // It slept by itself, or computed: a producer that waits for the ring naps.
    let held = "40000 held 200\n80000 held 200\n";
    let slept = format!("0 watch\n1 write\n10 out 0 0\n{held}89990 in 0\n90000 write");
    assert_eq!(gap(&slept).0, "blocked");
    assert_eq!(gap(&format!("0 watch\n0 faults\n1 write\n{held}90000 write")).0, "own code");
}

/// A thread that waits for the lock of its ring, from 1 to 9000 µs.
const NAPS: &str = "0 watch\n1 write\n10 out 0 0\n2990 in 0\n3000 out 0 0\n5990 in 0\n6000 out 0 0\n8990 in 0\n9000 write\n";

/// Returns the lines of a case in the order of time.
fn in_order(case: &str) -> String {
    let mut lines: Vec<&str> = case.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap());
    lines.join("\n")
}

/// The kernel adds a steal to its figure when the CPU is back: it may have been before a gap that begins before the next look.
#[test]
fn a_steal_that_may_have_ended_before_a_gap_is_not_its_cause() {
    let own = "0 watch\n0 faults\n31000 write\n31001 preempt 0 99\n31002 in 0\n41000 write\n";
    assert_eq!(gap(&format!("{own}40000 steal 20000 30000")).0, "own code");
    assert_eq!(gap(&format!("{own}40000 steal 31000 9000")).0, "stolen");
}

/// A holder that was preempted for a moment was kept by something else.
#[test]
fn a_holder_is_called_preempted_only_for_most_of_the_time() {
    for (naps, holder) in [
        (
            NAPS.to_owned(),
            "8000 held 200\n0 holder\n200 preempt-reader 1 99\n1000 in-reader 1\n1010 holder\n7900 holder",
        ),
        // It was preempted before it had the lock.
        (
            NAPS.replace("1 write\n10 out 0 0\n2990 in 0", "2995 write"),
            "8000 held 4500\n0 holder\n200 preempt-reader 1 99\n4400 in-reader 1\n8210 holder",
        ),
    ] {
        let report = report(&in_order(&format!("{naps}{holder}")));
        let of = |finding: &&Finding| finding.thread == Some(SHOP);
        let gap = report.findings.iter().find(of).unwrap();
        assert_eq!(gap.cause, "held up");
        assert!(!gap.sentence.contains("itself"), "{}", gap.sentence);
    }
}

/// Without the kernel's events, the thread may have slept.
#[test]
fn a_ring_that_is_held_up_says_nothing_of_a_thread_that_is_not_watched() {
    let (cause, _) = gap("1 write\n80000 held 200\n90000 write");
    assert_eq!(cause, UNKNOWN);
}

/// The figure of a cgroup may be another task's: a thread that ran, or waited in a system call, is not blamed for it.
#[test]
fn a_cgroup_that_waits_for_memory_explains_only_waits_outside_of_system_calls() {
    let stalled = "20000 stall 1 19000\n80000 stall 20000 60000";
    assert_eq!(gap(&format!("0 watch\n0 faults\n1 write\n{stalled}\n90000 write")).0, "own code");
    let waited = "0 watch\n1 write\n10 out 0 0\n";
    let called = format!("{waited}10000 call epoll_wait\n{stalled}\n89990 in 0\n90000 write");
    assert_eq!(gap(&called).0, "system call");
    // The kernel waits at the end of a call that took memory.
    assert_eq!(gap(&called.replace("epoll_wait", "read")).0, "memory.high");
}

/// What a thread with a CPU did between two page faults, the kernel does not say.
#[test]
fn a_long_fault_among_many_is_told_from_its_own_code_only_where_that_can_be_known() {
    let faults = |from: u32, every: u32, number: u32| {
        let lines = (0..number).map(|nth| format!("{} fault\n", from + nth * every));
        lines.collect::<String>()
    };
    let of =
        |faults: &str, end: u32| gap(&format!("0 watch\n0 faults\n1 write\n{faults}{end} write")).0;
    // Some take 100 µs, most take a few.
    let slow = format!("{}{}", faults(2, 5, 100), faults(600, 100, 3));
    assert_eq!(of(&slow, 1000), "page faults");
    // Its code takes the time between them, or each fault does: a host may have to provide each page.
    assert_eq!(of(&faults(2, 60, 100), 6_100), "own code or page faults");
    assert_eq!(of(&faults(2, 500, 20), 10_100), "own code or page faults");
    // A few are too few for that.
    assert_eq!(of(&faults(2, 500, 10), 10_100), "own code");
    // One of very many takes milliseconds, or its code does.
    let long = format!("{}{}", faults(2, 5, 100), faults(9_000, 5, 100));
    let (cause, sentence) = gap(&format!("0 watch\n0 faults\n1 write\n{long}9600 write"));
    assert_eq!(cause, "own code or page faults");
    assert!(
        sentence.contains("page faults did, because single ones of many may take"),
        "{sentence}"
    );
    // The own code after the last fault is that.
    assert_eq!(of(&faults(2, 5, 100), 9_600), "own code");
}

/// A thread of a consumer that has a CPU at a look need not be the one that reads.
#[test]
fn a_consumer_of_two_threads_is_late_for_an_unknown_cause() {
    let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
    let busy = Thread { pid: 20, tid: 21 };
    let named = Fact::Named { source: None, thread: busy, name: "busy".to_owned() };
    analysis.add(Evidence { time: 0, fact: named });
    for line in ["0 watch", "0 read 0", "10 out-reader 0 0"] {
        analysis.add(evidence(line));
    }
    let fact = Fact::Switched { source: 9, thread: busy, cpu: 1, how: Switch::In, next: None };
    analysis.add(Evidence { time: 20_000, fact });
    for line in ["500 read 0", "1000 other", "100000 read 0", "150000 read 0", "200000 read 150000"]
    {
        analysis.add(evidence(line));
    }
    let report = analysis.finish();
    assert_eq!(only(&report, Kind::Read).cause, UNKNOWN, "{report:#?}");
}

/// The next record reports a loss: until then the consumer may have continued, or another one may have come.
#[test]
fn a_loss_is_of_the_seats_of_its_time_and_not_of_its_report() {
    let judged = |first: &str, then: &str, refused: &str| {
        let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
        let lines = first.split(", ").chain(["10 write"]).chain(then.split(", "));
        for line in lines.filter(|line| !line.is_empty()) {
            analysis.add(evidence(line));
        }
        // Its time is that of the record before.
        let Evidence { fact, .. } = evidence(&format!("0 lost 40 {refused}"));
        analysis.add(Evidence { time: 10_000, fact });
        let report = analysis.finish();
        let finding = only(&report, Kind::Loss);
        (finding.cause, finding.certainty)
    };
    let cause = |first, then| judged(first, then, "full");
    let late = "3000000 seat consumer alive";
    assert_eq!(cause("0 seat consumer gone", late), ("no consumer", Certain));
    assert_eq!(cause("0 seat consumer dead", late), ("consumer dead", Certain));
    // It changed about that time. A look that finds another one soon after does not hide the one that had died.
    let dead = "100000 seat consumer dead";
    assert_eq!(cause("0 seat consumer alive", dead), ("consumer dead", Likely));
    let another = format!("{dead}, 150000 seat consumer alive");
    assert_eq!(cause("0 seat consumer alive", &another), ("consumer dead", Likely));
    assert_eq!(cause("0 seat consumer dead", "100000 seat consumer alive").0, "consumer dead");
    // What concerns only others changes nothing.
    let others = "100000 seat producer alive";
    assert_eq!(cause("0 seat consumer gone", others), ("no consumer", Certain));
    // Nothing else is known. One look found all seats, which come one after the other.
    assert_eq!(cause("", late), ("slow consumer", Likely));
    assert_eq!(
        cause("", "3000000 seat producer alive, 3000010 seat consumer dead"),
        ("consumer dead", Likely)
    );
    // The holder of the lock may be another one by then, and one that a look found may have ended soon after.
    assert_eq!(
        judged("", "3000000 seat producer alive held", "contended"),
        (UNKNOWN, Certainty::Unknown)
    );
    let held = ("0 seat producer alive held", "100000 seat producer alive");
    assert_eq!(judged(held.0, held.1, "contended"), ("lock", Likely));
    assert_eq!(
        judged("0 seat producer alive", "100000 seat producer alive held", "contended"),
        ("lock", Likely)
    );
}

/// The number of a process in a container is another process's here.
#[test]
fn a_seat_in_a_container_gives_no_process_its_name_here() {
    let case = "0 seat producer stopped contained\n0 watch\n1 write\n10 preempt 0 20\n9000 in 0\n9010 write";
    let found = report(case);
    let gap = found.findings.iter().find(|finding| finding.kind == Kind::Gap).unwrap();
    assert!(gap.sentence.contains("preempted by till (20)"), "{}", gap.sentence);
}

/// A witness repeats what it said for each file of a recording.
#[test]
fn a_seat_that_is_said_again_is_one_finding() {
    let report = report(
        "0 seat producer alive held\n5000000 seat producer alive held\n9000000 seat producer alive",
    );
    let finding = only(&report, Kind::Owner);
    assert_eq!((finding.time, finding.length), (0, 9_000_000_000), "{finding:?}");
}

/// Lost records may be the thread's own: it may have written all the time.
#[test]
fn a_time_between_two_records_with_a_loss_within_is_no_gap() {
    let report = report(
        "0 watch\n1 write\n3000 lost 5 lapped\n9000 write\n9001 out 0 0\n20000 in 0\n20001 write",
    );
    let gaps: Vec<_> = report.findings.iter().filter(|finding| finding.kind == Kind::Gap).collect();
    assert_eq!((gaps.len(), report.hidden), (1, 1), "{report:#?}");
    assert_eq!((gaps[0].time, gaps[0].cause), (9_000_000, "blocked"));
}

/// A thread that moved to another ring may have been refused by the one before, whose next record says so.
#[test]
fn a_time_before_a_record_in_another_ring_is_a_gap_once_the_ring_before_has_refused_nothing() {
    let moved = "0 watch\n1 write\n10 out 0 0\n2999 in 0\n3000 elsewhere\n";
    for (then, gaps, hidden) in [
        ("", 1, 0),
        ("9000000 other", 1, 0),
        ("9000000 lost 5 full\n9000000 other", 0, 1),
        ("9000000 other\n9000001 lost 5 full", 1, 0),
    ] {
        let report = report(&format!("{moved}{then}"));
        let found = report.findings.iter().filter(|finding| finding.kind == Kind::Gap).count();
        assert_eq!((found, report.hidden), (gaps, hidden), "{then}: {report:#?}");
    }
}

#[test]
fn the_report_says_how_much_is_covered_and_counts_what_it_cannot_place() {
    let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 2_000_000 });
    for line in "0 write\n1000 watch\n1500 write\n4000 missing\n6000 in 0\n9000 write\n9000 unwatch\n11000 write".lines() {
        analysis.add(evidence(line));
    }
    let anonymous = Fact::Record { ring: 0, pos: 0, writer: Writer::Unknown };
    analysis.add(Evidence { time: 11_000_000, fact: anonymous });
    let report = analysis.finish();
    assert_eq!((report.length, report.covered, report.missing), (9_000_000, 5_000_000, 5));
    assert_eq!((report.records, report.anonymous), (5, 1));
    // The first gap ended before the time that counts.
    let found: Vec<_> = report.findings.iter().map(|finding| finding.time).collect();
    assert_eq!(found, [1_500_000, 9_000_000], "{report:#?}");
}

#[test]
fn a_process_of_one_thread_is_that_thread_and_of_several_the_one_that_has_a_cpu() {
    let (one, two) = (Thread { pid: 5, tid: 5 }, Thread { pid: 5, tid: 6 });
    let of = |more: &[Fact]| {
        let mut analysis = Analysis::new(Options { slower_than: 1, since: 0 });
        let record = Fact::Record { ring: 0, pos: 0, writer: Writer::Process(5) };
        let named = Fact::Named { source: None, thread: one, name: "five".to_owned() };
        let all = [Fact::Watched { of: Events::Switches, pid: 0 }, named]
            .into_iter()
            .chain(more.iter().cloned());
        for (time, fact) in all.chain([record.clone(), record]).enumerate() {
            analysis.add(Evidence { time: time as u64, fact });
        }
        let report = analysis.finish();
        (report.findings.first().and_then(|finding| finding.thread), report.anonymous)
    };
    let came = |thread, cpu| Fact::Switched { source: 9, thread, cpu, how: Switch::In, next: None };
    assert_eq!(of(&[]), (Some(one), 0));
    assert_eq!(of(&[came(two, 0)]), (Some(two), 0));
    assert_eq!(of(&[came(two, 0), came(one, 1)]), (None, 2));
    assert_eq!(of(&[came(two, 0), Fact::Ended { source: 9, thread: two }]), (Some(one), 0));
}

/// The recorder waits for late records for a time only.
#[test]
fn a_record_that_came_after_later_switches_leaves_no_cause_to_the_gaps_beside_it() {
    let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
    for line in [
        "0 watch",
        "1 write",
        "10 preempt 0 99",
        "232000 in 0",
        "5 write", // late
        "250000 write",
        "251000 write",
        "260000 write", // two milliseconds before, another one was written
        "258000 write",
        "500000 other",
    ] {
        analysis.add(evidence(line));
    }
    let report = analysis.finish();
    let mut gaps: Vec<_> =
        report.findings.iter().map(|gap| (gap.time, gap.length, gap.cause)).collect();
    gaps.sort_unstable();
    let expected = [
        (5_000, 249_995_000),
        (250_000_000, 1_000_000),
        (251_000_000, 7_000_000),
        (258_000_000, 2_000_000),
    ];
    assert!(gaps.iter().map(|(time, length, _)| (*time, *length)).eq(expected), "{gaps:?}");
    assert_eq!((gaps[0].2, gaps[2].2, gaps[3].2), (UNKNOWN, UNKNOWN, UNKNOWN), "{gaps:?}");
}

/// Without a permission, only the user's own processes are watched.
#[test]
fn a_report_on_some_processes_says_so_and_names_what_is_unknown_of_them() {
    let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
    let watched = Fact::Watched { of: Events::Switches, pid: SHOP.pid };
    analysis.add(Evidence { time: 0, fact: watched });
    for line in ["1 write", "10 out 0 0", "8990 in 0", "9000 write", "9001 missing", "9002 in 0"] {
        analysis.add(evidence(line));
    }
    let lines: Vec<String> = analysis
        .finish()
        .lines(&crate::facts::Facts::default(), 20)
        .map(|line| line.to_string())
        .collect();
    assert!(
        lines[0].contains("shop") || lines[0].contains("process 17 wrote nothing"),
        "{lines:?}"
    );
    let says = "; only the context switches of some processes were recorded: those of all need CAP_PERFMON";
    assert!(lines[1].contains(says) && !lines[1].contains("--why"), "{lines:?}");
}
