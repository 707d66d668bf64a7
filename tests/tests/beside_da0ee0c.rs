//! Layout version 1 is frozen, and so is its use: programs of commit da0ee0c and today's programs do
//! the same, byte for byte, and work on one ring at the same time.
//!
//! `tests/da0ee0c/transcript.txt` has the answers of that commit's programs to a long script, and a
//! hash of the ring after each step. The ignored tests run the programs themselves beside today's:
//! `PERFRING_OLD` names the directory with `actor`, `sharer` and `peer`. `tools/test release` builds
//! these from the history. With `PERFRING_NEW_TRANSCRIPT=1` as well, the transcript is written again,
//! from those programs alone.

use perfring_abi::FIELDS;
use perfring_consumer::{Consumer, Policy, Producers, stat::Stat};
use perfring_producer::{Options, files::create};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::until;
use perfring_tests::shared::{Driven, Raw, Reported, balance};
use perfring_tests::{actor, ring_dir, workspace};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The programs of today, or of da0ee0c.
struct Programs {
    actor: PathBuf,
    sharer: PathBuf,
    peer: PathBuf,
}

fn new() -> Programs {
    let [actor, sharer, peer] =
        [env!("CARGO_BIN_EXE_actor"), env!("CARGO_BIN_EXE_sharer"), env!("CARGO_BIN_EXE_peer")]
            .map(PathBuf::from);
    Programs { actor, sharer, peer }
}

fn old() -> Programs {
    let folder = std::env::var_os("PERFRING_OLD").map(PathBuf::from);
    let folder = folder.expect("PERFRING_OLD names the directory with the programs of da0ee0c");
    let [actor, sharer, peer] = ["actor", "sharer", "peer"].map(|name| folder.join(name));
    Programs { actor, sharer, peer }
}

/// Starts a driven program. Its stderr is discarded: the answers contain the same.
fn drive(exe: &Path, args: &[&str], ring: &Path) -> (Driven, String) {
    Driven::of(actor(&exe.to_string_lossy(), args, ring).stderr(Stdio::null()))
}

/// Returns a hash of a ring file's bytes, without the bytes that differ from run to run: its creator and
/// holders.
fn digest(ring: &Path) -> u64 {
    const OF_THE_RUN: [&str; 9] = [
        "created_ns",
        "creator_pid",
        "creator_uid",
        "uuid",
        "boot_id",
        "consumer_attached_ns",
        "consumer_pid",
        "consumer_uid",
        "stuck_since_ns",
    ];
    let mut raw = Raw::read(ring);
    let slots = raw.field("control_offset") as usize;
    let count = u32::from_ne_bytes(
        raw.bytes[FIELDS.iter().find(|field| field.name == "slot_count").unwrap().offset..][..4]
            .try_into()
            .unwrap(),
    );
    for field in FIELDS.iter().filter(|field| OF_THE_RUN.contains(&field.name)) {
        raw.bytes[field.offset..field.offset + field.size].fill(0);
    }
    for slot in 0..count as usize {
        // The time of the attach, pid and uid: after the epoch.
        raw.bytes[slots + 1024 * slot + 8..][..16].fill(0);
    }
    // FNV-1a.
    raw.bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The programs' answers, and a digest of the ring after each step.
struct Transcript<'a> {
    text: String,
    ring: PathBuf,
    /// The steps are done by them in turn.
    programs: &'a [&'a Programs],
    turn: usize,
}

impl<'a> Transcript<'a> {
    fn new(ring: &Path, programs: &'a [&'a Programs]) -> Self {
        Transcript { text: String::new(), ring: ring.to_owned(), programs, turn: 0 }
    }

    fn next(&mut self) -> &'a Programs {
        self.turn += 1;
        self.programs[self.turn % self.programs.len()]
    }

    fn step(&mut self, who: usize, said: &str, answer: &str) {
        writeln!(self.text, "{who} {said}: {answer} {:016x}", digest(&self.ring)).unwrap();
    }

    /// Notes the items that an observer reads.
    fn observe(&mut self) {
        let mut observer = actor(&self.next().actor.to_string_lossy(), &["observe"], &self.ring);
        let seen = observer.stderr(Stdio::null()).output().unwrap().stdout;
        let seen = String::from_utf8(seen).unwrap().replace('\n', " ");
        self.step(0, "observe", &seen);
    }

    /// A consumer reads everything, except for `leave` records.
    fn consume(&mut self, leave: u64) {
        let present = Stat::read(&self.ring).unwrap().totals.unwrap().present.records;
        let (mut consumer, _) = drive(&self.next().actor, &["hold", "consumer"], &self.ring);
        let count = present.saturating_sub(leave);
        consumer.send(&count.to_string());
        let mut answer = String::new();
        loop {
            let line = consumer.line();
            if line == "done" || line.is_empty() {
                break;
            }
            answer += &format!("{line} ");
        }
        // Half of them die with the seat, after they have released.
        if count.is_multiple_of(2) {
            consumer.kill()
        } else {
            consumer.end()
        }
        drop(consumer);
        self.step(0, &format!("consume {count}"), &answer);
    }
}

const PRODUCERS: usize = 3;

/// Runs a ring of many producers: each step is one producer's, which is killed and restarted now
/// and then.
fn many(programs: &[&Programs], policy: Policy, seed: u64, steps: u32) -> String {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { size: 4096, policy, slots: 4, ..Options::many() }).unwrap();
    let (mut random, mut seq, mut id) = (Rng::new(seed), 0, 0);
    let mut script = Transcript::new(&ring, programs);
    let start = |script: &mut Transcript<'_>, who: usize| {
        drive(&script.next().sharer, &["drive", &format!("p{who}")], &ring).0
    };
    let mut producers: Vec<Driven> = (0..PRODUCERS).map(|who| start(&mut script, who)).collect();
    let mut open: Vec<Vec<u64>> = vec![Vec::new(); PRODUCERS];
    for _ in 0..steps {
        let who = random.below(PRODUCERS as u64) as usize;
        let most = 1 + random.below(400);
        let len = 8 + random.below(most);
        seq += 1;
        let said = match random.below(20) {
            0..7 => format!("publish {who} {seq} {len}"),
            7..10 => {
                id += 1;
                format!("reserve {id} {who} {seq} {len}")
            }
            10..12 => {
                let count = 1 + random.below(5);
                let said = format!("batch {count} {who} {seq} {}", 8 + len % 100);
                seq += count;
                said
            }
            12..15 if !open[who].is_empty() => {
                let at = random.below(open[who].len() as u64) as usize;
                let id = open[who].remove(at);
                let how = ["commit", "short", "discard"][random.below(3) as usize];
                format!("{how} {id} {}", 8 + random.below(len))
            }
            15 => {
                producers[who].kill();
                open[who].clear();
                script.step(who, "kill", "");
                producers[who] = start(&mut script, who);
                script.step(who, "attach", "");
                continue;
            }
            16..18 if policy == Policy::Drop => {
                script.consume(random.below(4));
                continue;
            }
            _ => {
                script.observe();
                continue;
            }
        };
        let answer = producers[who].ask(&said);
        if answer == "ok" && said.starts_with("reserve") {
            open[who].push(id);
        }
        script.step(who, &said, &answer);
    }
    script.text
}

/// Runs a ring of one producer at a time, which ends, is killed and is refused.
fn one(programs: &[&Programs], policy: Policy, seed: u64, steps: u32) -> String {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { size: 4096, policy, ..Options::default() }).unwrap();
    let mut random = Rng::new(seed);
    let mut script = Transcript::new(&ring, programs);
    let start =
        |script: &mut Transcript<'_>| drive(&script.next().actor, &["hold", "producer"], &ring).0;
    let mut producer = start(&mut script);
    for number in 0..steps {
        match random.below(24) {
            0 => {
                producer.kill();
                producer = start(&mut script);
                script.step(0, "kill and attach", "");
            }
            1 | 2 if policy == Policy::Drop => script.consume(random.below(20)),
            3 => script.observe(),
            _ => {
                let said = number.to_string();
                let answer = producer.ask(&said);
                // A refused producer ends.
                let gone = answer.is_empty();
                if gone {
                    producer.child.wait().unwrap();
                }
                script.step(0, &said, &answer);
                if gone {
                    producer = start(&mut script);
                }
            }
        }
    }
    script.text
}

fn transcript(programs: &[&Programs]) -> String {
    let mut text = String::new();
    for (policy, seed) in [(Policy::Drop, 1), (Policy::Overwrite, 2)] {
        for producers in [Producers::One, Producers::Many] {
            writeln!(text, "# {} {}", policy.name(), producers.name()).unwrap();
            text += &match producers {
                Producers::One => one(programs, policy, seed, 300),
                Producers::Many | Producers::Cpu => many(programs, policy, seed, 400),
            };
        }
    }
    text
}

fn kept() -> PathBuf {
    workspace().join("tests/da0ee0c/transcript.txt")
}

/// Compares line by line, for the first difference.
fn compare(found: &str, kept: &str) {
    for (number, (found, kept)) in (1..).zip(found.lines().zip(kept.lines())) {
        assert_eq!(found, kept, "line {number} of tests/da0ee0c/transcript.txt");
    }
    assert_eq!(found.lines().count(), kept.lines().count());
}

#[test]
fn todays_programs_do_byte_for_byte_what_da0ee0c_did() {
    let kept = std::fs::read_to_string(kept()).unwrap();
    compare(&transcript(&[&new()]), &kept);
    println!("{} steps", kept.lines().count());
}

#[test]
#[ignore = "needs the programs of da0ee0c: a stage of tools/test release"]
fn the_transcript_is_da0ee0cs_own() {
    let old = old();
    let found = transcript(&[&old]);
    if std::env::var_os("PERFRING_NEW_TRANSCRIPT").is_some() {
        std::fs::write(kept(), &found).unwrap();
    }
    compare(&found, &std::fs::read_to_string(kept()).unwrap());
}

#[test]
#[ignore = "needs the programs of da0ee0c: a stage of tools/test release"]
fn programs_of_both_take_turns_on_one_ring_and_do_the_same() {
    let (old, new) = (old(), new());
    let kept = std::fs::read_to_string(kept()).unwrap();
    compare(&transcript(&[&old, &new, &new, &old]), &kept);
}

#[test]
#[ignore = "needs the programs of da0ee0c: a stage of tools/test release"]
fn records_go_from_the_old_to_the_new_and_back() {
    let old = old();
    let records = 50_000u64;
    for (writer, reader, direction) in
        [(&old.peer, &new().peer, "old to new"), (&new().peer, &old.peer, "new to old")]
    {
        for (policy, kind) in [("drop", "plain"), ("drop", "pod"), ("overwrite", "plain")] {
            let dir = ring_dir();
            let ring = dir.path().join("ring");
            let count = records.to_string();
            let (mut from, ready) = drive(writer, &["write", policy, kind, &count], &ring);
            assert_eq!(ready, "ready");
            let (mut to, ready) = drive(reader, &["read", policy, kind, &count], &ring);
            assert_eq!(ready, "ready");
            from.send("");
            if policy == "overwrite" {
                assert_eq!(from.line(), "half");
                from.send("");
            }
            assert_eq!(from.line(), format!("written {records}"));
            let said = to.line();
            println!("{direction}, {policy}, {kind}: {said}");
            let words: Vec<&str> = said.split(' ').collect();
            let [read, lost] = [words[1], words[3]].map(|word| word.parse::<u64>().unwrap());
            assert_eq!(read + lost, records);
            assert!(policy == "overwrite" || lost == 0);
            from.end();
            to.end();
        }
    }
}

/// A ring per CPU came after da0ee0c, with a separate feature bit. Programs of da0ee0c name the bit in every refusal,
/// and change nothing.
#[test]
#[ignore = "needs the programs of da0ee0c: a stage of tools/test release"]
fn the_old_programs_refuse_a_ring_per_cpu_and_name_the_feature_that_they_do_not_know() {
    let old = old();
    let dir = ring_dir();
    let ring = dir.path().join("cpu0");
    create(&ring, &Options { size: 4096, ..Options::per_cpu() }).unwrap();
    let before = digest(&ring);
    let (_, said) = drive(&old.sharer, &["drive", "p0"], &ring);
    let sentence = "the ring needs features that this perfring does not know (bits 0x4)";
    assert!(said.contains(sentence), "{said}");
    for args in [&["observe"][..], &["hold", "consumer"], &["hold", "producer"]] {
        let mut program = actor(&old.actor.to_string_lossy(), args, &ring);
        let ended = program.stdin(Stdio::null()).output().unwrap();
        // This program prints an error's fields.
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("Features { unknown: 4 }"), "{args:?}: {said}");
        assert!(ended.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(digest(&ring), before, "nothing has changed");
}

/// A producer that publishes by every method until it gets the command to end, and notes how many it has
/// committed.
struct Stormer {
    process: std::process::Child,
    log: PathBuf,
}

impl Stormer {
    fn start(exe: &Path, dir: &Path, ring: &Path, who: u64) -> Self {
        let log = dir.join(format!("log-{who}"));
        std::fs::write(&log, [0; 16]).unwrap();
        let process = Command::new(exe)
            .args(["storm", &who.to_string(), &(who * 77).to_string()])
            .args([&log, ring])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Stormer { process, log }
    }

    fn noted(&self) -> u64 {
        let log = std::fs::read(&self.log).unwrap();
        u64::from_ne_bytes(log[..8].try_into().unwrap())
    }
}

impl Drop for Stormer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs the programs of da0ee0c: a stage of tools/test release"]
fn old_and_new_producers_publish_die_and_are_swept_in_one_ring() {
    let old = old();
    let (new, dir) = (new(), ring_dir());
    let ring = dir.path().join("ring");
    create(&ring, &Options { size: 64 << 10, ..Options::many() }).unwrap();
    let mut consumer = Consumer::attach(&ring).unwrap();
    let (mut reported, mut noted, mut next) = (Reported::default(), BTreeMap::new(), 0);
    let mut start = |is_old: bool| {
        next += 1;
        let exe = if is_old { &old.sharer } else { &new.sharer };
        (next, is_old, Stormer::start(exe, dir.path(), &ring, next))
    };
    let mut producers: Vec<_> = [true, false, true, false].map(&mut start).into();
    for death in 0..150usize {
        // Killed once it has committed something more, at any point.
        let (_, _, one) = &producers[death % 4];
        let before = one.noted();
        until("a producer to publish", || {
            reported.drain(&mut consumer);
            one.noted() > before + 20
        });
        let (who, is_old, mut dead) = producers.remove(death % 4);
        dead.process.kill().unwrap();
        dead.process.wait().unwrap();
        noted.insert(who, dead.noted());
        producers.insert(death % 4, start(is_old));
    }
    for (_, _, one) in &producers {
        let log = std::fs::File::options().write(true).open(&one.log).unwrap();
        log.write_all_at(&1u64.to_ne_bytes(), 8).unwrap();
    }
    for (who, _, one) in &mut producers {
        let mut status = None;
        until("a producer to end", || {
            reported.drain(&mut consumer);
            status = one.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
        noted.insert(*who, one.noted());
    }
    perfring_consumer::files::recover(&ring).unwrap();
    consumer.wait(Duration::ZERO);
    reported.drain(&mut consumer);
    drop(consumer);
    let totals = balance(&ring, false).totals.unwrap();
    println!(
        "{} records of {} incarnations, {} reclaimed",
        reported.records,
        noted.len(),
        totals.producer.reclaimed.records
    );
    assert_eq!(reported.records, totals.producer.written.records);
    for (who, noted) in noted {
        let seen = reported.by(who);
        assert!(seen.is_sorted_by(|a, b| a < b), "{who}: out of order");
        let among = seen.iter().filter(|seq| **seq < noted).count() as u64;
        assert_eq!(among, noted, "{who}: a committed record is missing");
    }
}
