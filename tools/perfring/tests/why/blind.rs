//! The blind trial: causes are injected at random into processes, and `perfring why` is asked what they were.

use super::shop::Shop;
use super::{Recorded, is_forbidden};
use crate::command::{Live, Place, json_lines, run};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, advanced::MachineClock, stat::Stat};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{Watchdog, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A cgroup with a quota of CPU time, where this user may make one: 10 ms of 100 ms.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let name = format!("perfring-why-{}", std::process::id());
        let (second, first) =
            (PathBuf::from("/sys/fs/cgroup"), PathBuf::from("/sys/fs/cgroup/cpu"));
        let quotas = [(second, "cpu.max", "10000 100000"), (first, "cpu.cfs_quota_us", "10000")];
        quotas.into_iter().find_map(|(root, file, quota)| {
            let group = Group(root.join(&name));
            fs::create_dir(&group.0).ok()?;
            // Where cgroups are not mounted, it is a plain directory.
            group.0.join(file).exists().then(|| fs::write(group.0.join(file), quota).ok())??;
            Some(group)
        })
    }

    /// Returns for how long it was throttled so far, ns, as its file says.
    fn throttled(&self) -> u64 {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let value = |name| {
            stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        value("throttled_usec ").map_or_else(|| value("throttled_time ").unwrap(), |us| us * 1_000)
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A cause that was injected, between these two times of this process, or into this ring.
struct Case {
    cause: &'static str,
    pid: u32,
    ring: String,
    times: (u64, u64),
    /// For how long the cause was there, ns, by a clock that `perfring why` does not see.
    lasted: u64,
}

impl Case {
    fn new(cause: &'static str, pid: u32, answer: &Value, lasted: Option<u64>) -> Self {
        let at = |name: &str, nth: usize| answer[name][nth].as_u64().unwrap();
        let times = (at("times", 0), at("times", 1));
        let cpu = 1_000 * (at("cpu", 1) - at("cpu", 0));
        let lasted = lasted.unwrap_or(match cause {
            "preempted" => (times.1 - times.0).saturating_sub(cpu),
            _ => cpu,
        });
        Case { cause, pid, ring: String::new(), times, lasted }
    }

    /// One that is no time between two records.
    fn moment(cause: &'static str, pid: u32, ring: &str, times: (u64, u64)) -> Self {
        Case { cause, pid, ring: ring.to_owned(), times, lasted: times.1 - times.0 }
    }

    /// Returns whether the cause was most of what happened: something else may have disturbed it.
    fn is_undisturbed(&self) -> bool {
        self.lasted > (self.times.1 - self.times.0) * 6 / 10
    }

    /// Returns the cause that was found.
    fn found<'a>(&self, lines: &'a [Value]) -> &'a Value {
        static NONE: Value = Value::Null;
        if self.cause == "reader stopped" {
            let of = |line: &&Value| {
                let time = line["time_ns"].as_u64();
                line["what"] == "late read"
                    && line["attributes"]["process.pid"] == self.pid
                    && time.is_some_and(|time| time >= self.times.0 && time <= self.times.1)
            };
            return lines.iter().find(of).unwrap_or(&NONE);
        }
        if self.cause == "owner dead" {
            let of = |line: &&Value| {
                line["what"] == "owner" && line["attributes"]["process.pid"] == self.pid
            };
            return lines.iter().find(of).unwrap_or(&NONE);
        }
        if !self.ring.is_empty() {
            let of = |line: &&Value| line["what"] == "loss" && line["ring"] == *self.ring;
            return lines.iter().find(of).unwrap_or(&NONE);
        }
        let of = |line: &&Value| {
            let (time, length) = (line["time_ns"].as_u64(), line["duration_ns"].as_u64());
            line["what"] == "gap"
                && line["attributes"]["process.pid"] == self.pid
                && time.zip(length).is_some_and(|(time, length)| {
                    let end = time + length;
                    time <= self.times.0 && end > self.times.0 && end <= self.times.1
                })
        };
        lines.iter().find(of).unwrap_or(&NONE)
    }
}

/// Waits for so long.
fn pause(ms: u64) {
    let (begun, dog) = (Instant::now(), Watchdog::default());
    while begun.elapsed() < Duration::from_millis(ms) {
        dog.pause("the time is over");
    }
}

/// Prints the confusion table. `PERFRING_WHY_CASES` is the number of cases.
#[test]
#[ignore = "needs minutes, and a machine with little else to do: a stage of tools/test release"]
fn of_many_blind_cases_nearly_all_are_named_rightly() {
    if is_forbidden() {
        return;
    }
    let cases = std::env::var("PERFRING_WHY_CASES").map_or(200, |cases| cases.parse().unwrap());
    let mut rng = Rng::from_env();
    let place = Place::new();
    let dir = place.path("rings");
    fs::create_dir(&dir).unwrap();
    let start = |name: &str| {
        let ring = dir.join(name).to_str().unwrap().to_owned();
        let drops = name == "till" || name.starts_with("drops-");
        let policy = if drops { "drop" } else { "overwrite" };
        let made = run(&["create", &ring, "--time", "--size", "64K", "--policy", policy], b"");
        assert_eq!(made.code(), 0, "{}", made.err());
        Shop::start(&ring)
    };
    let (mut shop, mut low, mut limited) = (start("shop"), start("low"), start("limited"));
    let cpu = std::thread::available_parallelism().unwrap().get() - 1;
    let hog = Shop::hog(cpu);
    hog.0.signal(Signal::SIGSTOP);
    low.ask(&format!("pin={cpu} nice=19"));
    let group = Group::new();
    // Its records are read by a consumer.
    let mut till = start("till");
    let reader = Live::start(&["consume", dir.join("till").to_str().unwrap(), "--follow"]);
    let clock = MachineClock::find().unwrap();
    let mut causes = vec!["blocked", "own code", "page faults", "preempted", "stopped"];
    causes.extend(["system call", "reader stopped", "owner dead"]);
    causes.extend(["slow consumer", "no consumer", "consumer stopped"]);
    if let Some(group) = &group {
        group.take(limited.pid());
        causes.push("throttled");
    }
    let mut recorded = Recorded::begin(place, dir.to_str().unwrap());
    let mut injected = Vec::new();
    let (mut losses, mut nth) = (0, 0);
    while injected.len() < cases {
        nth += 1;
        let cause = causes[rng.index(causes.len())];
        let us = 1_000 + rng.below(30_000);
        let (pid, answer, lasted) = match cause {
            "blocked" => {
                (shop.pid(), shop.ask(&format!("write sleep={us} write")), Some(us * 1_000))
            }
            // Longer than the time between two looks.
            "system call" => {
                let us = 100_000 + us * 4;
                (shop.pid(), shop.ask(&format!("write sleep={us} write")), Some(us * 1_000))
            }
            "reader stopped" => {
                let begun = clock.now_ns();
                reader.signal(Signal::SIGSTOP);
                till.ask("write");
                pause(250 + rng.below(200));
                reader.signal(Signal::SIGCONT);
                // So that a look finds what it has read.
                pause(250);
                let (pid, times) = (reader.child.id(), (begun, clock.now_ns()));
                injected.push(Case::moment("reader stopped", pid, "", times));
                continue;
            }
            // Each has a ring of its own, because losses of one ring that follow each other are one finding. Not too many: each
            // look reads all rings.
            "slow consumer" | "no consumer" | "consumer stopped" if losses >= 24 => continue,
            "owner dead" | "slow consumer" | "no consumer" | "consumer stopped" => {
                let begun = clock.now_ns();
                let name = format!("drops-{nth}");
                let (mut owner, ring) = (start(&name), dir.join(&name));
                let ring = ring.to_str().unwrap();
                owner.ask("write");
                let mut held = None;
                let mut follower = None;
                match cause {
                    "slow consumer" => held = Some(Consumer::attach(ring).unwrap()),
                    "consumer stopped" => {
                        let live = Live::start(&["consume", ring, "--follow"]);
                        until("it has its seat", || {
                            let stat = Stat::read(ring).unwrap();
                            stat.consumer.owner.pid == live.child.id()
                        });
                        live.signal(Signal::SIGSTOP);
                        follower = Some(live);
                    }
                    _ => {}
                }
                // So that a look finds them.
                pause(250 + rng.below(100));
                match cause {
                    "owner dead" => owner.0.child.kill().unwrap(),
                    _ => assert_eq!(owner.ask("fill=40")["refused"], 40),
                }
                pause(250);
                let times = (begun, clock.now_ns());
                injected.push(Case::moment(cause, owner.pid(), &name, times));
                match cause {
                    "owner dead" => fs::remove_file(ring).unwrap(),
                    _ => losses += 1,
                }
                drop(held);
                if let Some(live) = follower {
                    live.signal(Signal::SIGKILL);
                }
                continue;
            }
            "own code" => (shop.pid(), shop.ask(&format!("write spin={us} write")), None),
            "page faults" => {
                let pages = 512 + rng.below(2_048);
                (shop.pid(), shop.ask(&format!("write fault={pages} write")), None)
            }
            "preempted" => {
                hog.0.signal(Signal::SIGCONT);
                let answer = low.ask("write spin=10000 write");
                hog.0.signal(Signal::SIGSTOP);
                (low.pid(), answer, None)
            }
            "stopped" => {
                shop.say("write await write");
                shop.answer();
                let begun = Instant::now();
                shop.0.signal(Signal::SIGSTOP);
                pause(40 + rng.below(200));
                let lasted = begun.elapsed().as_nanos() as u64;
                shop.0.signal(Signal::SIGCONT);
                shop.say("");
                (shop.pid(), shop.answer(), Some(lasted))
            }
            _ => {
                let group = group.as_ref().unwrap();
                let before = group.throttled();
                let answer = limited.ask("write spin=25000 write");
                (limited.pid(), answer, Some(group.throttled() - before))
            }
        };
        injected.push(Case::new(cause, pid, &answer, lasted));
    }
    pause(200);
    reader.signal(Signal::SIGINT);
    reader.end();
    let lines = json_lines(&recorded.end().out());
    let mut table: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let (mut right, mut wrong, mut unknown, mut disturbed) = (0, 0, 0, 0);
    for case in &injected {
        let finding = case.found(&lines);
        let named = finding["cause"].as_str().unwrap_or("not found").to_owned();
        let is_right = match case.cause {
            "stopped" => ["stopped", "stopped briefly"].contains(&&*named),
            // A look may find the call of a short wait, too.
            "blocked" => ["blocked", "system call"].contains(&&*named),
            cause => named == cause,
        };
        let counted = match named.as_str() {
            _ if is_right => &mut right,
            _ if !case.is_undisturbed() => &mut disturbed,
            // Where several threads of a process run, its records name none of them.
            "unknown" | "not found" => &mut unknown,
            // It says that one of the two was the cause, and that nothing tells which.
            "own code or page faults" if ["own code", "page faults"].contains(&case.cause) => {
                &mut unknown
            }
            _ => &mut wrong,
        };
        *counted += 1;
        if !is_right {
            let (ns, whole) = (case.lasted, case.times.1 - case.times.0);
            println!("{} for {ns} of {whole} ns: {}", case.cause, finding["sentence"]);
        }
        let named = if is_right || case.is_undisturbed() { named } else { format!("({named})") };
        *table.entry((case.cause, named)).or_default() += 1;
    }
    println!("{:<18}{:<28}{:>6}", "injected", "named", "cases");
    for ((injected, named), cases) in &table {
        println!("{injected:<18}{named:<28}{cases:>6}");
    }
    let all = injected.len();
    println!("{right} right, {wrong} wrong, {unknown} unknown, {disturbed} disturbed, of {all}");
    let counted = all - disturbed;
    assert!(disturbed * 5 < all, "something else keeps this machine busy");
    assert!(right * 100 >= counted * 95 && wrong * 100 <= counted);
}
