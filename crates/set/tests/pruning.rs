//! What is pruned is dead and read to its end, and a producer that comes back loses nothing.

use perfring_consumer::{AttachError, Consumer, Item};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{
    Options, Policy, RecordType, SharedProducer,
    files::create,
    metrics::{MetricKind, Metrics},
};
use perfring_set::{
    Change, Fate, Follower, Kept, PruneRule, Pruner, RingSet, SetOptions, Verdict, list,
};
use perfring_testkit::wait::Watchdog;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const AT_ONCE: PruneRule =
    PruneRule { dead_for: Duration::ZERO, keep: 0, max_bytes: None, flight_recorders: false };

fn small() -> Options {
    Options { size: 4096, types_size: 0, ..SetOptions::default().ring }
}

struct Fixture {
    _temp: tempfile::TempDir,
    set: RingSet,
}

impl Fixture {
    fn new() -> Self {
        let temp = tempfile::tempdir_in("/dev/shm").unwrap();
        let options = SetOptions { ring: small(), ..SetOptions::default() };
        let set = RingSet::open_with(temp.path().join("rings"), &options).unwrap();
        Fixture { _temp: temp, set }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.set.dir().join(name)
    }

    fn plan(&self, rule: PruneRule) -> Vec<Verdict> {
        Pruner::new(self.set.dir(), rule).plan().unwrap()
    }

    /// The names of those that are removed.
    fn pruned(&self, rule: PruneRule) -> Vec<String> {
        let planned = removed(self.plan(rule));
        let names = removed(Pruner::new(self.set.dir(), rule).prune().unwrap());
        assert_eq!(names, planned, "a plan is what happens");
        assert!(names.iter().all(|name| !self.path(name).exists()));
        names
    }

    fn kept(&self, rule: PruneRule) -> Kept {
        match self.plan(rule).remove(0).fate {
            Fate::Kept(kept) => kept,
            fate => panic!("{fate:?}"),
        }
    }
}

fn removed(verdicts: Vec<Verdict>) -> Vec<String> {
    let gone = verdicts.into_iter().filter(|it| matches!(it.fate, Fate::Removed { .. }));
    gone.map(|verdict| verdict.ring.name).collect()
}

fn drain(path: &Path) -> u64 {
    let mut consumer = Consumer::attach(path).unwrap();
    let mut read = 0;
    while let Some(item) = consumer.read().unwrap() {
        read += u64::from(matches!(item, Item::Record(_)));
    }
    read
}

#[test]
fn a_ring_in_use_or_unread_stays() {
    let fixture = Fixture::new();
    let mut producer = fixture.set.producer("a").unwrap();
    assert!(
        matches!(fixture.kept(AT_ONCE), Kept::Producer(owner) if owner.pid == std::process::id())
    );
    // Full, and reported in the stream: the loss, too, is to be read.
    while producer.publish(&[7; 100]).is_ok() {}
    drop(producer);
    let Kept::Unread(there) = fixture.kept(AT_ONCE) else { panic!() };
    assert_eq!(drain(&fixture.path("a")), there.records);
    drop(fixture.set.producer("a").unwrap()); // reports the loss now that there is room
    assert!(matches!(fixture.kept(AT_ONCE), Kept::Unread(none) if none.records == 0));
    drain(&fixture.path("a"));
    let consumer = Consumer::attach(fixture.path("a")).unwrap();
    assert!(matches!(fixture.kept(AT_ONCE), Kept::Consumer(_)));
    drop(consumer);
    // What is no ring is never touched.
    fs::write(fixture.path("text"), "mine").unwrap();
    assert_eq!(fixture.pruned(AT_ONCE), ["a"]);
    assert!(fixture.path("text").exists());
}

#[test]
fn a_hole_at_the_end_is_nothing_to_read() {
    let fixture = Fixture::new();
    let mut producer = fixture.set.producer("a").unwrap();
    producer.publish(b"x").unwrap();
    producer.reserve(RecordType::BYTES, 100).unwrap().discard();
    drop(producer);
    drain(&fixture.path("a"));
    assert_eq!(fixture.pruned(AT_ONCE), ["a"]);
}

#[test]
fn a_flight_recorder_keeps_its_last_records_by_default() {
    let fixture = Fixture::new();
    let options = Options { policy: Policy::Overwrite, ..small() };
    let mut producer = fixture.set.producer_with("a", &options).unwrap();
    producer.publish(b"last words").unwrap();
    drop(producer);
    drain(&fixture.path("a")); // a consumer copies: they are still present
    assert!(matches!(fixture.kept(AT_ONCE), Kept::LastRecords(count) if count.records == 1));
    assert_eq!(fixture.pruned(PruneRule { flight_recorders: true, ..AT_ONCE }), ["a"]);
}

#[test]
fn values_of_instruments_stay_as_last_records_do() {
    let fixture = Fixture::new();
    let options = Options { metrics_size: 4096, ..Options::many() };
    let metrics = Metrics::open_or_create(fixture.path("a"), &options).unwrap();
    let schema = Schema::new("orders", Encoding::Tagged).with_hashed_id();
    assert!(matches!(fixture.kept(AT_ONCE), Kept::Producer(_)));
    metrics.register(&schema, MetricKind::CounterU64, 1).unwrap().add(1);
    drop(metrics);
    assert_eq!(fixture.kept(AT_ONCE), Kept::LastValues(1));
    assert_eq!(fixture.kept(AT_ONCE).to_string(), "the values of 1 instrument");
    assert_eq!(fixture.pruned(PruneRule { flight_recorders: true, ..AT_ONCE }), ["a"]);
    drop(Metrics::open_or_create(fixture.path("b"), &options).unwrap());
    assert_eq!(fixture.pruned(AT_ONCE), ["b"], "nothing was measured");
}

#[test]
fn what_dead_producers_left_open_hides_nothing() {
    let fixture = Fixture::new();
    let (mut one, two) = (spawn("leave-open", &fixture), fixture.set.shared_producer("a").unwrap());
    assert_eq!(one.line(), "open");
    two.publish(b"behind it").unwrap();
    drop(two);
    one.child.kill().unwrap();
    one.child.wait().unwrap();
    assert!(matches!(fixture.kept(AT_ONCE), Kept::Stranded(count) if count.records == 1));
    perfring_consumer::files::recover(fixture.path("a")).unwrap();
    assert!(matches!(fixture.kept(AT_ONCE), Kept::Unread(count) if count.records == 1));
    drain(&fixture.path("a"));
    assert_eq!(fixture.pruned(AT_ONCE), ["a"]);
}

#[test]
fn damaged_books_are_left_for_people() {
    let fixture = Fixture::new();
    drop(fixture.set.producer("a").unwrap());
    let file = OpenOptions::new().write(true).open(fixture.path("a")).unwrap();
    file.write_all_at(&u64::MAX.to_ne_bytes(), 1024).unwrap(); // data_head
    assert_eq!(fixture.kept(AT_ONCE), Kept::Damaged);
}

/// Makes a ring that was made, attached to, and left at this time.
fn aged(fixture: &Fixture, name: &str, hours: u64) {
    create(fixture.path(name), &Options { time: false, ..small() }).unwrap();
    set_age(&fixture.path(name), hours);
}

/// Sets the age of a ring, of another boot: one of this boot is no older than that.
fn set_age(path: &Path, hours: u64) {
    set_times(path, hours);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[7; 16], 1272).unwrap(); // boot_id
}

fn set_times(path: &Path, hours: u64) {
    let layout = *list(path.parent().unwrap())
        .unwrap()
        .0
        .iter()
        .find(|ring| ring.path == path)
        .map(|ring| &ring.layout)
        .unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let then = (now - Duration::from_secs(3600 * hours)).as_nanos() as u64;
    let file = OpenOptions::new().write(true).open(path).unwrap();
    // created_ns, and when the producer attached last.
    file.write_all_at(&then.to_ne_bytes(), 1240).unwrap();
    file.write_all_at(&then.to_ne_bytes(), layout.areas().control.start + 8).unwrap();
}

#[test]
fn age_number_and_bytes_decide_in_this_order() {
    let fixture = Fixture::new();
    for (name, hours) in [("a", 5), ("b", 2), ("c", 9), ("d", 0)] {
        aged(&fixture, name, hours);
    }
    let hour = PruneRule::default();
    assert_eq!(removed(fixture.plan(hour)), ["a", "b", "c"]);
    assert_eq!(
        removed(fixture.plan(PruneRule { dead_for: 4 * hour.dead_for, ..hour })),
        ["a", "c"]
    );
    // The newest stay: `d`, which is not removable anyway, is one of them.
    assert_eq!(removed(fixture.plan(PruneRule { keep: 2, ..hour })), ["a", "c"]);
    assert_eq!(removed(fixture.plan(PruneRule { keep: 9, ..hour })), [""; 0]);
    let each = fixture.plan(hour)[0].bytes;
    assert_eq!(each, fs::metadata(fixture.path("a")).unwrap().len());
    // Too many bytes: the oldest are removed, then the young ones, and no more than needed.
    let bytes = |rings: u64| PruneRule { keep: 9, max_bytes: Some(rings * each), ..hour };
    assert_eq!(removed(fixture.plan(bytes(4))), [""; 0]);
    assert_eq!(removed(fixture.plan(bytes(3))), ["c"]);
    assert_eq!(removed(fixture.plan(bytes(2))), ["a", "c"]);
    assert_eq!(removed(fixture.plan(bytes(0))), ["a", "b", "c", "d"]);
    // What is in use counts, and stays.
    let _producer = fixture.set.producer_with("e", &small()).unwrap();
    assert_eq!(removed(fixture.plan(bytes(4))), ["c"]);
    assert_eq!(fixture.pruned(bytes(0)), ["a", "b", "c", "d"]);
}

#[test]
fn a_timestamp_is_a_sign_of_life_and_so_is_a_lock_that_was_seen() {
    let fixture = Fixture::new();
    let hour = PruneRule::default();
    let mut producer = fixture.set.producer("a").unwrap();
    set_age(&fixture.path("a"), 2);
    let mut pruner = Pruner::new(fixture.set.dir(), hour);
    assert!(removed(pruner.plan().unwrap()).is_empty());
    drop(producer);
    assert_eq!(removed(fixture.plan(hour)), ["a"], "nothing in the file is younger");
    // This one has seen it alive a moment ago.
    let verdict = pruner.plan().unwrap().remove(0);
    assert!(matches!(verdict.fate, Fate::Kept(Kept::Young(_))), "{verdict:?}");
    producer = fixture.set.producer("a").unwrap();
    producer.publish(b"x").unwrap();
    drop(producer);
    drain(&fixture.path("a"));
    set_age(&fixture.path("a"), 2);
    let file = OpenOptions::new().write(true).open(fixture.path("a")).unwrap();
    file.write_all_at(&[0; 8], 2440).unwrap(); // when the consumer attached
    assert!(matches!(fixture.kept(hour), Kept::Young(_)), "its record has a timestamp");
}

#[test]
fn attaching_meanwhile_keeps_the_ring_or_is_refused() {
    let fixture = Fixture::new();
    drop(fixture.set.producer("a").unwrap());
    let idle = perfring_consumer::files::Idle::hold(fixture.path("a")).unwrap();
    // All of these have the file open by then, and wait.
    let attached = std::thread::scope(|scope| {
        let path = fixture.path("a");
        let waits = [
            scope.spawn({
                let path = path.clone();
                move || Consumer::attach(path).map(drop)
            }),
            scope.spawn(move || perfring_producer::Producer::attach(path).map(drop)),
            scope.spawn(|| {
                let error = match fixture.set.producer("a") {
                    Ok(_) => return Ok(()),
                    Err(error) => error,
                };
                match error {
                    perfring_set::SetError::Attach(error) => Err(error),
                    error => panic!("{error}"),
                }
            }),
        ];
        // Whether they wait, or come too late, cannot be seen, and makes no difference.
        std::thread::yield_now();
        idle.remove().unwrap();
        waits.map(|waits| waits.join().unwrap())
    });
    for reported in &attached[..2] {
        match reported {
            // The ring that the third has made.
            Ok(()) => {}
            Err(
                AttachError::Removed { .. }
                | AttachError::NotFound { .. }
                | AttachError::Busy { .. },
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn drain_all(dir: &Path) -> u64 {
    let (rings, _) = list(dir).unwrap();
    rings.into_iter().map(|ring| drain(&ring.path)).sum()
}

/// Producers that come and go, on their own and by SIGKILL, under one name; processes that
/// prune at once all that is removable; and one that reads. Nothing that was published is lost.
#[test]
fn producers_that_come_back_while_others_prune_lose_nothing() {
    const KILLS: u64 = 20;
    const PRUNED: u64 = 10;
    let fixture = Fixture::new();
    let mut pruners = [spawn("prune", &fixture), spawn("prune", &fixture)];
    let whats = ["produce", "produce-shared"];
    let mut producers = whats.map(|what| Some(spawn(what, &fixture)));
    let (mut published, mut read, mut rings, mut kills) = (0u64, 0u64, 0u64, 0);
    let mut follower = Follower::new(fixture.set.dir()).unwrap();
    let dog = Watchdog::default();
    while producers.iter().any(Option::is_some) {
        while let Some(change) = follower.next() {
            rings += u64::from(matches!(change, Change::Appeared(_) | Change::Replaced { .. }));
        }
        for ring in list(fixture.set.dir()).unwrap().0 {
            match Consumer::attach(&ring.path) {
                Ok(mut consumer) => {
                    while let Some(item) = consumer.read().unwrap() {
                        match item {
                            Item::Record(_) => read += 1,
                            Item::Lost(lost) => panic!("{lost:?}"),
                        }
                    }
                }
                Err(AttachError::NotFound { .. } | AttachError::Removed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        // One step of each producer: it says how many records are published for good.
        for (slot, what) in producers.iter_mut().zip(whats) {
            let Some(producer) = slot else { continue };
            let line = producer.line();
            let (said, number) = line.split_once(' ').unwrap();
            published += number.parse::<u64>().unwrap();
            if said == "attached" {
                // It dies while it is attached.
                producer.child.kill().unwrap();
                producer.child.wait().unwrap();
                kills += 1;
                // Each ring that appears again was pruned before.
                let again = kills < KILLS || rings < 2 + PRUNED;
                dog.check(format_args!("{PRUNED} rings that come back: {rings} rings"));
                *slot = again.then(|| spawn(what, &fixture));
            }
        }
    }
    let mut pruned = 0;
    for pruner in &mut pruners {
        pruner.child.stdin.take(); // the end
        pruned += pruner.line().parse::<u64>().unwrap();
    }
    read += drain_all(fixture.set.dir());
    println!(
        "{published} published, {read} read, {rings} rings seen, {pruned} pruned, {kills} kills"
    );
    assert_eq!(published, read);
    assert!(pruned >= PRUNED, "{pruned} were pruned");
}

struct Helper {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Helper {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        // What the test harness prints before the child is skipped.
        line.trim_end().rsplit("@ ").next().unwrap().to_owned()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again, as another process.
fn spawn(what: &str, fixture: &Fixture) -> Helper {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pruning::helper", "--nocapture", "--quiet"])
        .env("PERFRING_TEST_HELPER", what)
        .env("PERFRING_TEST_DIR", fixture.set.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut helper = Helper { child, out };
    while helper.line() != "ready" {}
    helper
}

/// The other process; nothing where it is run as a test.
#[test]
fn helper() {
    let Ok(what) = std::env::var("PERFRING_TEST_HELPER") else { return };
    let dir = std::env::var_os("PERFRING_TEST_DIR").unwrap();
    let set = RingSet::open_with(dir, &SetOptions { ring: small(), ..Default::default() }).unwrap();
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "@ {line}").unwrap();
        out.flush().unwrap();
    };
    say("ready".to_owned());
    match &what[..] {
        "leave-open" => {
            let producer = set.shared_producer("a").unwrap();
            let open = producer.reserve(RecordType::BYTES, 8).unwrap();
            say("open".to_owned());
            std::io::stdin().read_line(&mut String::new()).unwrap();
            drop(open);
        }
        "prune" => {
            let ended = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
            let mut pruner = Pruner::new(set.dir(), AT_ONCE);
            let mut pruned = 0;
            while !ended.is_finished() {
                pruned += removed(pruner.prune().unwrap()).len();
            }
            say(pruned.to_string());
        }
        "produce" => {
            for round in 0..=50 {
                let mut producer = set.producer("one").unwrap();
                producer.publish(b"x").unwrap();
                if round == 50 {
                    say("attached 1".to_owned());
                    std::io::stdin().read_line(&mut String::new()).unwrap();
                }
                drop(producer);
                say("published 1".to_owned());
            }
        }
        "produce-shared" => {
            for round in 0..=50 {
                let producer: SharedProducer = set.shared_producer("many").unwrap();
                producer.publish(b"x").unwrap();
                if round == 50 {
                    say("attached 1".to_owned());
                    std::io::stdin().read_line(&mut String::new()).unwrap();
                }
                drop(producer);
                say("published 1".to_owned());
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_ring_of_this_boot_has_not_been_dead_for_longer_than_that_whatever_its_clock_said() {
    let fixture = Fixture::new();
    let path = fixture.path("made before the clock was set");
    create(&path, &Options { time: false, ..small() }).unwrap();
    set_times(&path, 24 * 365 * 20);
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    let longer = Duration::from_secs_f64(uptime) + Duration::from_secs(3600);
    assert!(removed(fixture.plan(PruneRule { dead_for: longer, ..AT_ONCE })).is_empty());
    assert_eq!(removed(fixture.plan(AT_ONCE)).len(), 1);
}
