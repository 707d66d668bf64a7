//! Foreign readers read a live ring of ours: libbcc's `perf_reader`, and
//! `bpf_perf_event_read_simple` of libbpf 0.8, both made for the kernel's perf rings. They follow
//! `data_head`, wrap, skip unknown records, and move `data_tail`.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use perfring_consumer::{Item, Observer, Start, stat::Stat};
use perfring_producer::{
    CpuProducer, Options, Producer, RecordType, Reservation, ReserveError, SharedProducer,
};
use perfring_testkit::wait::{WATCHDOG, until};
use perfring_tests::shared::{Driven, Raw, balance};
use perfring_tests::{numbered, ring_dir, skip, workspace};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const RECORDS: u64 = 1_100_000; // some are lost: a million and more arrive

/// Returns libbcc, if it is installed.
fn libbcc() -> Option<PathBuf> {
    let output = Command::new("sh").args(["-c", "ldconfig -p || /sbin/ldconfig -p"]).output();
    let listing = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    let line = listing.lines().find(|line| line.trim_start().starts_with("libbcc.so.0 "))?;
    Some(line.split(" => ").nth(1)?.into())
}

fn compile(library: &Path, to: &Path) {
    let source = workspace().join("tests/foreign/bcc_reader.c");
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([to, &source, library])
        .status()
        .expect("a C compiler: install gcc");
    assert!(status.success());
}

/// Returns the sources of libbpf 0.8, from the crate that contains them, or the reason why they are
/// not available.
fn libbpf() -> Result<PathBuf, String> {
    let manifest = workspace().join("tests/foreign/libbpf/Cargo.toml");
    let cargo = |args: &[&str]| {
        Command::new(env!("CARGO"))
            .args(args)
            .args(["--locked", "--manifest-path"])
            .arg(&manifest)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())
    };
    let fetched = cargo(&["fetch"])?;
    if !fetched.status.success() {
        return Err(format!("cargo fetch: {}", String::from_utf8_lossy(&fetched.stderr)));
    }
    let about = cargo(&["metadata", "--format-version", "1", "--offline"])?;
    let about: serde_json::Value = serde_json::from_slice(&about.stdout).unwrap();
    let packages = about["packages"].as_array().unwrap();
    let found = packages.iter().find(|package| package["name"] == "libbpf-sys").unwrap();
    let manifest = Path::new(found["manifest_path"].as_str().unwrap());
    Ok(manifest.with_file_name("libbpf"))
}

/// Extracts the function from `libbpf.c` and compiles it into a reader.
fn compile_libbpf(sources: &Path, to: &Path) {
    let text = std::fs::read_to_string(sources.join("src/libbpf.c")).unwrap();
    let begin = text.find("static enum bpf_perf_event_ret\nperf_event_read_simple(").unwrap();
    let alias = text[begin..].find("bpf_perf_event_read_simple(").unwrap() + begin;
    let end = text[alias..].find(";\n").unwrap() + alias + 2;
    std::fs::write(to.with_file_name("read_simple.inc"), &text[begin..end]).unwrap();
    let status = Command::new("cc")
        .args(["-O2", "-w", "-I"])
        .arg(to.parent().unwrap())
        .arg("-I")
        .arg(sources.join("include"))
        .arg("-I")
        .arg(sources.join("include/uapi"))
        .arg("-I")
        .arg(sources.join("src"))
        .args(["-o".as_ref(), to.as_os_str()])
        .arg(workspace().join("tests/foreign/libbpf_reader.c"))
        .status()
        .expect("a C compiler: install gcc");
    assert!(status.success());
}

/// Returns the form of `PERF_SAMPLE_RAW`: a length of 8n + 4, then as many bytes.
fn sample(number: u64, words: usize) -> Vec<u8> {
    let len = 8 * words + 4;
    let mut payload = (len as u32).to_ne_bytes().to_vec();
    payload.extend(numbered(number, len));
    payload
}

/// A running foreign reader of a ring of 16 pages.
struct Foreign {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Foreign {
    fn start(ring: &Path, reader: &Path, records: u64) -> Self {
        let mut child = Command::new(reader)
            .arg(ring)
            .args(["16", &records.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null()) // it warns of each hole, and continues
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Foreign { child, out }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    }

    /// Returns records, lost, markers, gaps and torn records, once it has read the last one.
    fn figures(mut self) -> [u64; 5] {
        let status = self.child.wait().unwrap();
        let mut line = String::new();
        self.out.read_to_string(&mut line).unwrap();
        assert!(status.success(), "{line}");
        print!("{line}");
        let figures: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        figures.try_into().unwrap_or_else(|_| panic!("{line}"))
    }
}

#[test]
fn libbcc_reads_a_million_records_without_a_gap() {
    let Some(library) = libbcc() else {
        return skip("libbcc.so.0 is not installed (Debian: libbpfcc)");
    };
    let dir = ring_dir();
    let reader = dir.path().join("bcc_reader");
    compile(&library, &reader);
    reads_without_a_gap(&dir.path().join("ring"), &reader, RECORDS);
}

#[test]
fn libbpf_reads_half_a_million_records_without_a_gap() {
    let sources = match libbpf() {
        Ok(sources) => sources,
        Err(why) => return skip(&format!("libbpf 0.8 is not available: {}", why.trim())),
    };
    let dir = ring_dir();
    let reader = dir.path().join("libbpf_reader");
    compile_libbpf(&sources, &reader);
    reads_without_a_gap(&dir.path().join("ring"), &reader, RECORDS / 2);
}

fn reads_without_a_gap(ring: &Path, reader: &Path, count: u64) {
    // 64 KiB: more than a thousand wraps, and full often enough to lose some.
    let mut producer =
        Producer::create(ring, &Options { size: 64 << 10, ..Options::default() }).unwrap();
    let mut observer = Observer::attach(ring, Start::Oldest).unwrap();
    let foreign = Foreign::start(ring, reader, count);

    let mut discarded = 0;
    let mut refused = 0u64;
    let mut observed = 0;
    for number in 0..count {
        let payload = sample(number, 1 + number as usize % 12);
        // The last records must arrive: they wait. A full ring refuses the other records, and reports
        // them.
        let waits = number + 1 == count || number % 64 == 0;
        let published = if waits {
            producer.publish_timeout(RecordType::SAMPLE, &payload, WATCHDOG)
        } else {
            producer.publish_as(RecordType::SAMPLE, &payload)
        };
        match published {
            Ok(()) => {}
            Err(ReserveError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if number % 1000 == 0 {
            // A hole, which a perf reader must skip as an unknown type.
            producer.reserve_timeout(RecordType::SAMPLE, 100, WATCHDOG).unwrap().discard();
            discarded += 1;
        }
        if number % 4096 == 0 {
            // A foreign reader keeps no totals; an observer counts all the same.
            while let Some(item) = observer.read().unwrap() {
                observed += u64::from(matches!(item, Item::Record(_)));
            }
        }
    }
    let [records, lost, markers, gaps, torn] = foreign.figures();
    println!("{discarded} holes; {refused} refused");
    assert_eq!((gaps, torn), (0, 0));
    assert!(markers > 0, "no loss: the test would not see a LOST record");
    assert_eq!(lost, refused);
    assert_eq!(records + lost, count);

    while let Some(item) = observer.read().unwrap() {
        observed += u64::from(matches!(item, Item::Record(_)));
    }
    let totals = Stat::read(ring).unwrap().totals.unwrap();
    assert_eq!(totals.producer.written.records, records);
    assert_eq!(totals.present.records, 0);
    assert_eq!(observed + observer.lapped().records, records);
}

/// Three producers, whose reservations end in another order than they began, and a fourth that dies
/// with one open.
#[test]
fn libbcc_reads_what_many_producers_publish() {
    const RECORDS: u64 = 300_000;
    let Some(library) = libbcc() else {
        return skip("libbcc.so.0 is not installed (Debian: libbpfcc)");
    };
    let dir = ring_dir();
    let (ring, reader) = (dir.path().join("ring"), dir.path().join("bcc_reader"));
    compile(&library, &reader);
    let options = Options { size: 64 << 10, ..Options::many() };
    let one = SharedProducer::create(&ring, &options).unwrap();
    let attach = || SharedProducer::attach(&ring).unwrap();
    let producers = [one, attach(), attach()];
    let exe = env!("CARGO_BIN_EXE_sharer");
    let (mut dies, _) = Driven::start(exe, &["drive", "dies"], &ring);
    let foreign = Foreign::start(&ring, &reader, RECORDS);

    let (mut who, mut refused, mut open) = (0, 0, None::<Reservation<'_, SharedProducer>>);
    for number in 0..RECORDS {
        let payload = sample(number, 1 + number as usize % 12);
        // This causes a loss on a machine where the reader keeps up.
        let stands_still = number > RECORDS / 4 && refused == 0;
        if number == RECORDS / 4 + 1 && stands_still {
            foreign.signal(Signal::SIGSTOP);
        }
        // Now and then the reader can catch up; the last must arrive.
        let waits = (number % 64 == 63 && !stands_still) || number + 1 == RECORDS;
        if (waits || number % 5 == 2 || number == RECORDS / 2)
            && let Some(reservation) = open.take()
        {
            reservation.commit();
        }
        if number == RECORDS / 2 {
            // With space for it: its own loss would be reported where no number is missing.
            until("everything to be read", || {
                let raw = Raw::read(&ring);
                raw.head() == raw.tail()
            });
            assert_eq!(dies.ask("reserve 1 1 0 100"), "ok");
            dies.kill();
        }
        let producer = &producers[who];
        let outcome = if waits {
            producer.publish_timeout(RecordType::SAMPLE, &payload, WATCHDOG)
        } else if number % 5 == 0 {
            producer.reserve(RecordType::SAMPLE, payload.len()).map(|mut record| {
                record.copy_from_slice(&payload);
                open = Some(record); // until others are behind it
            })
        } else {
            producer.publish_as(RecordType::SAMPLE, &payload)
        };
        match outcome {
            Ok(()) => who = (who + 1) % 3,
            // The refused producer publishes next: the loss is reported where the number is
            // missing.
            Err(ReserveError::Full | ReserveError::Pending { .. }) => {
                refused += 1;
                foreign.signal(Signal::SIGCONT);
            }
            Err(error) => panic!("{error}"),
        }
    }
    let [records, lost, markers, gaps, torn] = foreign.figures();
    println!("{refused} refused");
    assert_eq!((gaps, torn), (0, 0));
    assert!(markers > 0, "no loss: the test would not see a LOST record");
    assert_eq!(lost, refused);
    assert_eq!(records + lost, RECORDS);
    drop(open);
    drop(producers);
    let totals = Stat::read(&ring).unwrap().totals.unwrap();
    assert_eq!(totals.producer.written.records, records);
    assert_eq!((totals.present.records, totals.producer.reclaimed.records), (0, 1));
    balance(&ring, true);
}

/// Two producers on one CPU: most records by restartable sequences, some reserved, with others behind them.
#[test]
fn libbcc_reads_a_ring_per_cpu() {
    const RECORDS: u64 = 300_000;
    let Some(library) = libbcc() else {
        return skip("libbcc.so.0 is not installed (Debian: libbpfcc)");
    };
    let dir = ring_dir();
    let (set, reader) = (dir.path().join("set"), dir.path().join("bcc_reader"));
    compile(&library, &reader);
    let options = Options { size: 64 << 10, ..Options::per_cpu() };
    let producers = [
        CpuProducer::create(&set, &options).unwrap(),
        CpuProducer::attach_as(&set, "two").unwrap(),
    ];
    let cpu = producers[0].cpus().next().unwrap();
    producers[1].attach_to(cpu).unwrap();
    let ring = set.join(format!("cpu{cpu}"));
    let foreign = Foreign::start(&ring, &reader, RECORDS);
    let mut only = CpuSet::new();
    only.set(cpu as usize).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();

    let (mut who, mut refused) = (0, 0u64);
    for number in 0..RECORDS {
        let payload = sample(number, 1 + number as usize % 12);
        let producer = &producers[who];
        let last = number + 1 == RECORDS;
        let outcome = if last || (number % 64 == 63 && !(refused == 0 && number > RECORDS / 4)) {
            producer.publish_timeout(RecordType::SAMPLE, &payload, WATCHDOG)
        } else if number % 50 == 0 {
            producer.reserve(RecordType::SAMPLE, payload.len()).map(|mut record| {
                record.copy_from_slice(&payload);
                record.commit();
            })
        } else {
            producer.publish_as(RecordType::SAMPLE, &payload)
        };
        match outcome {
            Ok(()) => who = 1 - who,
            // Publishes next: the loss is reported where the number is missing.
            Err(ReserveError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let [records, lost, markers, gaps, torn] = foreign.figures();
    println!("{refused} refused");
    assert_eq!((gaps, torn), (0, 0));
    assert!(markers > 0, "no loss: the test would not see a LOST record");
    assert_eq!((lost, records + lost), (refused, RECORDS));
    let totals = balance(&ring, false).totals.unwrap();
    assert_eq!((totals.producer.written.records, totals.present.records), (records, 0));
}
