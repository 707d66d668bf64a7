//! Large payloads between two processes, beside `memcpy` of the same bytes on the same core.
//!
//! The producer copies each payload into the AUX area, once; the consumer borrows it there. It
//! reads either 16 words of each (`words`), which leaves the memory to the copy, or every byte
//! (`whole`), which moves each line to the other core and back. `memcpy` copies into an anonymous
//! mapping of the same size, wrapping around. All take turns within a repetition.
//!
//! `cargo bench -p perfring-bench --bench large`; `-- --json` writes one line for each row. `cargo
//! test` runs it with few payloads, to see that it works.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use perfring_bench::cores::{Pinned, two_cores};
use perfring_bench::program::{Args, Other, Spread};
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Options, Producer, RecordType};
use std::path::Path;
use std::time::{Duration, Instant};

const KIND: RecordType = RecordType::new(6000).unwrap();
const MIB: usize = 1 << 20;
/// Words of a payload that hold its number.
const MARKS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(20);

/// What each word of a payload holds, except those that hold its number.
fn pattern(len: usize) -> Vec<u64> {
    (0..len as u64 / 8).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995).collect()
}

fn number(words: &mut [u64], nth: u64) {
    let step = words.len() / MARKS;
    words.iter_mut().step_by(step).for_each(|word| *word = nth);
}

fn as_bytes(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

fn right(bytes: &[u8], pattern: &[u64], nth: u64, whole: bool) -> bool {
    let (first, step) = (nth.to_ne_bytes(), pattern.len() / MARKS);
    bytes.len() == pattern.len() * 8
        && bytes.chunks(step * 8).zip(pattern.chunks(step)).all(|(part, words)| {
            part[..8] == first && (!whole || part[8..] == as_bytes(words)[8..])
        })
}

/// The other process: answers a line when it has seen so many payloads, all of them intact.
fn consume(path: &Path, len: usize, whole: bool, cpu: Option<usize>) {
    let _pinned = cpu.map(|cpu| Pinned::to(cpu).unwrap());
    let mut consumer = Consumer::attach(path).unwrap();
    let pattern = pattern(len);
    let mut nth = 0;
    for line in std::io::stdin().lines() {
        let until: u64 = line.unwrap().parse().unwrap();
        let mut bad = 0;
        while nth < until {
            match consumer.read().unwrap() {
                Some(Item::Record(record)) => {
                    bad += u64::from(!right(record.bytes, &pattern, nth, whole));
                    nth += 1;
                }
                Some(Item::Lost(lost)) => panic!("{lost:?}"),
                None => assert!(consumer.spin(PATIENCE), "nothing arrives"),
            }
        }
        consumer.release();
        println!("{bad}");
    }
}

struct Mode {
    name: &'static str,
    producer: Producer,
    other: Other,
    sent: u64,
    rates: Vec<f64>,
}

impl Mode {
    fn new(dir: &Path, name: &'static str, len: usize, area: usize, cpu: Option<usize>) -> Self {
        let path = dir.join(format!("{name}-{len}"));
        let options = Options { size: 64 << 10, aux_size: area as u64, ..Options::default() };
        let producer = Producer::create(&path, &options).unwrap();
        let (len_arg, cpu) = (len.to_string(), cpu.map(|cpu| cpu.to_string()));
        let mut args = vec!["--consumer", path.to_str().unwrap(), name, &len_arg];
        args.extend(cpu.as_deref());
        let other = Other::start(&args).unwrap();
        let rates = Vec::new();
        let mut mode = Mode { name, producer, other, sent: 0, rates };
        mode.sample(&mut pattern(len), 4); // pages faulted in on both sides
        mode.rates.clear();
        mode
    }

    fn sample(&mut self, words: &mut [u64], count: u64) {
        self.other.say(&(self.sent + count).to_string()).unwrap();
        let start = Instant::now();
        for _ in 0..count {
            number(words, self.sent);
            self.producer.publish_timeout(KIND, as_bytes(words), PATIENCE).unwrap();
            self.sent += 1;
        }
        let bad = self.other.line().unwrap();
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(bad, "0", "payloads differ from what was sent");
        self.rates.push((count as usize * words.len() * 8) as f64 / seconds / 1e9);
    }
}

/// Copies as the producer does, without a consumer.
fn copy(words: &mut [u64], area: &mut [u8], count: u64) -> f64 {
    let len = words.len() * 8;
    let start = Instant::now();
    for (nth, at) in (0..count).zip((0..).step_by(len)) {
        number(words, nth);
        let at = at % (area.len() - len + 1) / 64 * 64;
        area[at..at + len].copy_from_slice(as_bytes(words));
        std::hint::black_box(&mut *area);
    }
    (count as usize * len) as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn main() {
    let Args { all: args, real, json } = Args::here();
    if args.first().is_some_and(|arg| arg == "--consumer") {
        let cpu = args.get(4).map(|cpu| cpu.parse().unwrap());
        let len = args[3].parse().unwrap();
        return consume(Path::new(&args[1]), len, args[2] == "whole", cpu);
    }
    let (repetitions, bytes) = if real { (5, 1 << 30) } else { (1, 4 * MIB) };
    let lens = [64 << 10, 256 << 10, MIB, 4 * MIB, 64 * MIB];
    let lens = if real { &lens[..] } else { &lens[..3] };
    let cores = two_cores().unwrap();
    let _pinned = cores.map(|[first, _]| Pinned::to(first).unwrap());
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    if !json {
        println!("payload    GB/s memcpy       mode    GB/s ring          ring / memcpy");
    }
    for len in lens {
        // The first payload is longer than the data area takes.
        let len = (*len).max(68 << 10);
        let area = (4 * len).next_power_of_two().clamp(16 * MIB, 128 * MIB);
        let count = (bytes / len).max(4) as u64;
        let mut modes = ["words", "whole"]
            .map(|name| Mode::new(dir.path(), name, len, area, cores.map(|[_, second]| second)));
        let (mut words, mut room, mut alone) = (pattern(len), vec![1; area], Vec::new());
        for _ in 0..repetitions {
            alone.push(copy(&mut words, &mut room, count));
            for mode in &mut modes {
                mode.sample(&mut words, count);
            }
        }
        for mode in &modes {
            let (alone, ring) = (Spread::of(alone.clone()), Spread::of(mode.rates.clone()));
            let (copied, rate) = (alone.median, ring.median);
            let ratio = rate / copied;
            if json {
                println!(
                    "{{\"payload\":{len},\"way\":\"{}\",\"gb_per_s\":{rate:.3},\"memcpy_gb_per_s\":\
                     {copied:.3},\"ratio\":{ratio:.3},\"repetitions\":{repetitions}}}",
                    mode.name
                );
            } else {
                println!(
                    "{len:>9} {:>22} {:>9} {:>22} {ratio:>6.2}",
                    alone.text(2),
                    mode.name,
                    ring.text(2)
                );
            }
        }
    }
}
