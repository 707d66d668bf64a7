//! What publishing costs in rings per CPU, beside an exclusive and a shared ring: overwrite rings
//! of 1 MiB that nobody reads, real processes on one core and on two. What the rings hold in the
//! end is checked, every byte.
//!
//! Contestants take turns within each repetition; figures are medians, with the lowest and the
//! highest, and ratios are formed within a repetition. `cargo bench -p perfring-bench --bench
//! per_cpu`; `cargo test` runs it briefly, to see that it works. With a reader: the comparison,
//! `--only producers`.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use perfring_bench::cores::{Pinned, two_cores};
use perfring_bench::program::{Args, Other, Spread};
use perfring_consumer::{Item, Snapshot};
use perfring_producer::{
    CpuProducer, Options, Policy, Producer, Producers, ReserveError, SharedProducer, files::create,
};
use std::hint::black_box;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const KINDS: [&str; 3] = ["exclusive", "per CPU", "shared"];
/// Records between two looks at the clock.
const ROUND: u64 = 256;
const WORDS: usize = 8;

fn main() {
    let args = Args::here();
    if let ["child", path, kind, len, core, ms, nap] =
        args.all.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        let nap = Duration::from_micros(nap.parse().unwrap());
        let ms = Duration::from_millis(ms.parse().unwrap());
        return child(path, kind, len.parse().unwrap(), core.parse().unwrap(), ms, nap);
    }
    let long = args.real;
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    if let Err(error) = CpuProducer::create(dir.path().join("first"), &options("per CPU", false)) {
        return println!("SKIPPED: {error}");
    }
    if two_cores().unwrap().is_none() {
        return println!("SKIPPED: one core");
    }
    let mut bench = Bench { dir: dir.path().into(), made: 0, ms: if long { 100 } else { 5 } };
    let times = if long { 5 } else { 1 };
    bench.costs(times);
    bench.beside(if long { 2000 } else { 20 });
    bench.begins(times);
    bench.memory();
}

fn options(kind: &str, time: bool) -> Options {
    let producers = match kind {
        "exclusive" => Producers::One,
        "shared" => Producers::Many,
        _ => Producers::Cpu,
    };
    Options { size: 1 << 20, policy: Policy::Overwrite, producers, time, ..Options::default() }
}

fn cores() -> [usize; 2] {
    two_cores().unwrap().unwrap()
}

/// A producer process: says that it is ready, waits for a line, publishes for so long, and says how
/// many records that were, how long it took, and how many were refused, as contended and otherwise.
fn child(path: &str, kind: &str, len: usize, core: usize, time: Duration, nap: Duration) {
    let _pinned = Pinned::to(core).unwrap();
    match kind {
        "exclusive" => {
            let mut producer = Producer::attach(path).unwrap();
            produce(len, time, nap, |bytes| producer.publish(bytes));
        }
        "shared" => {
            let producer = SharedProducer::attach(path).unwrap();
            produce(len, time, nap, |bytes| producer.publish(bytes));
        }
        _ => {
            let producer = CpuProducer::attach(path).unwrap();
            produce(len, time, nap, |bytes| producer.publish(bytes));
        }
    }
}

#[inline(always)]
fn produce(
    len: usize,
    time: Duration,
    nap: Duration,
    mut publish: impl FnMut(&[u8]) -> Result<(), ReserveError>,
) {
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let since = Instant::now();
    let (mut number, mut contended, mut other) = (0u64, 0u64, 0u64);
    while since.elapsed() < time {
        for _ in 0..if nap.is_zero() { ROUND } else { 1 } {
            let words = [number; WORDS];
            match publish(black_box(&bytemuck::bytes_of(&words)[..len])) {
                Ok(()) => {}
                Err(ReserveError::Contended { .. }) => contended += 1,
                Err(_) => other += 1,
            }
            number += 1;
        }
        if !nap.is_zero() {
            std::thread::sleep(nap);
        }
    }
    println!("{number} {} {contended} {other}", since.elapsed().as_nanos());
}

/// What a process reported.
#[derive(Clone, Copy, Default)]
struct Did {
    records: f64,
    ns: f64,
    contended: f64,
    other: f64,
}

struct Bench {
    dir: PathBuf,
    made: u32,
    ms: u64,
}

/// A process to be started: the core, and how long it naps after each record, us.
type Who = (usize, u64);

impl Bench {
    fn make(&mut self, kind: &str, time: bool) -> PathBuf {
        self.made += 1;
        let path = self.dir.join(self.made.to_string());
        match kind {
            "per CPU" => drop(CpuProducer::create(&path, &options(kind, time)).unwrap()),
            _ => create(&path, &options(kind, time)).unwrap(),
        }
        path
    }

    /// Lets processes publish at once into one new ring, or one new set, and checks what it holds
    /// then.
    fn run(&mut self, kind: &str, time: bool, len: usize, ms: u64, who: &[Who]) -> Vec<Did> {
        let path = self.make(kind, time);
        let start = |&(core, nap): &Who| {
            let path = path.to_str().unwrap();
            let [len, core, ms, nap] =
                [len as u64, core as u64, ms, nap].map(|number| number.to_string());
            Other::start(&["child", path, kind, &len, &core, &ms, &nap]).unwrap()
        };
        let mut others: Vec<Other> = who.iter().map(start).collect();
        others.iter_mut().for_each(|other| drop(other.line().unwrap()));
        others.iter_mut().for_each(|other| other.say("go").unwrap());
        let mut all = Vec::new();
        for mut other in others {
            let line = other.line().unwrap();
            let said: Vec<f64> =
                line.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let [records, ns, contended, refused] = said[..] else { panic!("{line:?}") };
            all.push(Did { records, ns, contended, other: refused });
            assert!(other.end().unwrap());
        }
        let files: Vec<PathBuf> = match kind {
            "per CPU" => {
                std::fs::read_dir(&path).unwrap().map(|ring| ring.unwrap().path()).collect()
            }
            _ => vec![path.clone()],
        };
        assert!(
            files.iter().map(|ring| check(ring, len)).sum::<u64>() > 0,
            "nothing was published"
        );
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir_all(&path);
        all
    }

    /// Publishing without a pause: by one process, by four on one core, by two on two.
    fn costs(&mut self, times: usize) {
        let [one, two] = cores();
        for len in [8, 64] {
            let mut rows: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
            for _ in 0..times {
                let mut base = Vec::new();
                let mut nth = 0;
                let mut row = |name: String, rate: f64, of: f64| {
                    if rows.len() == nth {
                        rows.push((name, Vec::new(), Vec::new()));
                    }
                    rows[nth].1.push(rate * 1e3);
                    rows[nth].2.push(rate / of);
                    nth += 1;
                };
                let rate = |did: &[Did]| did.iter().map(|did| did.records / did.ns).sum::<f64>();
                for time in [false, true] {
                    for kind in KINDS {
                        let ms = self.ms;
                        let mut alone = rate(&self.run(kind, time, len, ms, &[(one, 0)]));
                        base.push(alone);
                        let timed = if time { ", timed" } else { "" };
                        row(format!("{kind}{timed}, 1 process"), alone, base[0]);
                        if kind != "exclusive" {
                            let four = rate(&self.run(kind, time, len, ms, &[(one, 0); 4]));
                            row(format!("{kind}{timed}, 4 on one core"), four, alone);
                            let both = [(one, 0), (two, 0)];
                            let both = rate(&self.run(kind, time, len, ms, &both));
                            // Measured again: the cores of a virtual machine change their speed.
                            alone =
                                (alone + rate(&self.run(kind, time, len, ms, &[(one, 0)]))) / 2.0;
                            row(format!("{kind}{timed}, 2 on two cores"), both, alone);
                        }
                    }
                }
            }
            println!(
                "{len} bytes, million records/s     (of 1 process: exclusive untimed; else: of its 1 process)"
            );
            for (name, rates, ratios) in rows {
                println!(
                    "{name:32} {}   ratio {}",
                    Spread::of(rates).text(1),
                    Spread::of(ratios).text(2)
                );
            }
            println!();
        }
    }

    /// A producer that naps beside one that never does.
    fn beside(&mut self, ms: u64) {
        let [one, two] = cores();
        println!("64 bytes, one process without pause and one that naps 20 us after each record");
        for kind in ["per CPU", "shared"] {
            for (place, other) in [("one core", one), ("two cores", two)] {
                let did = self.run(kind, false, 64, ms, &[(one, 0), (other, 20)]);
                let show = |did: &Did| {
                    format!(
                        "{} records, {} contended, {} else",
                        did.records, did.contended, did.other
                    )
                };
                println!(
                    "{kind:8} on {place:9}  hot: {}; napping: {}",
                    show(&did[0]),
                    show(&did[1])
                );
            }
        }
        println!();
    }

    /// From nothing to the first record.
    fn begins(&mut self, times: usize) {
        println!("create to first record, us");
        let dir = self.dir.join("begins");
        std::fs::create_dir(&dir).unwrap();
        for kind in KINDS {
            let samples = (0..4 * times).map(|nth| {
                let path = dir.join(format!("{kind}{nth}"));
                let options = Options { policy: Policy::Drop, ..options(kind, false) };
                let since = Instant::now();
                match kind {
                    "exclusive" => Producer::create(&path, &options).unwrap().publish(b"first"),
                    "shared" => SharedProducer::create(&path, &options).unwrap().publish(b"first"),
                    _ => CpuProducer::create(&path, &options).unwrap().publish(b"first"),
                }
                .unwrap();
                since.elapsed().as_secs_f64() * 1e6
            });
            println!("{kind:10} {}", Spread::of(samples.collect::<Vec<f64>>()).text(0));
        }
        println!();
    }

    /// What a set takes: of this machine's CPUs, and of 256 that are made up.
    fn memory(&mut self) {
        println!(
            "memory of a set whose rings have 1 MiB of data, and of one process attached to all of them"
        );
        for cpus in [2u32, 256] {
            let path = self.dir.join(format!("memory-{cpus}"));
            let before = resident();
            let producer = CpuProducer::create(&path, &options("per CPU", false)).unwrap();
            let mut at = 0;
            while (producer.cpus().count() as u32) < cpus {
                producer.attach_to(at).unwrap();
                at += 1;
            }
            let files: u64 =
                std::fs::read_dir(&path).unwrap().map(|ring| blocks(&ring.unwrap().path())).sum();
            let own = resident().saturating_sub(before);
            println!("{cpus:3} CPUs: files {} KiB, the process {own} KiB more", files / 2);
            drop(producer);
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}

fn blocks(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap())
}

/// This process's resident memory, KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Checks every byte of what a ring holds. Returns how many records that are.
fn check(ring: &Path, len: usize) -> u64 {
    let mut right = 0;
    for item in Snapshot::take(ring).unwrap().iter() {
        let Item::Record(record) = item.unwrap() else { continue };
        assert_eq!(record.bytes.len(), len);
        let (first, rest) = record.bytes.split_at(8);
        assert!(rest.chunks(8).all(|word| word == first), "torn at {}", record.pos);
        right += 1;
    }
    right
}
