//! A process that publishes into a ring, and does between two records what it is asked for.

use crate::command::Live;
use nix::sys::resource::{UsageWho, getrusage};
use perfring_consumer::advanced::MachineClock;
use perfring_producer::Producer;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The environment variable with the ring of [`a_process_that_is_asked`].
const RING: &str = "PERFRING_TEST_WHY_RING";

/// Not a test of its own: the process that [`Shop::start`] starts from this very program. Each line has words, which it does
/// one after the other. It answers with a line.
#[test]
fn a_process_that_is_asked() {
    let Ok(path) = std::env::var(RING) else { return };
    // Nothing to do with a ring: a process that is in the way.
    if path == "hog" {
        println!("\nattached");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        pin(line.trim());
        println!("runs");
        loop {
            std::hint::spin_loop();
        }
    }
    let clock = MachineClock::find().unwrap();
    let mut producer = Producer::attach_as(path, "shop").unwrap();
    println!("\nattached");
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        let (mut refused, mut times, mut cpu) = (0, Vec::new(), Vec::new());
        let before = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        for word in line.split_whitespace() {
            let (word, amount) = word.split_once('=').unwrap_or((word, "0"));
            let number = || amount.parse::<u64>().unwrap();
            match word {
                "write" => {
                    producer.publish(&[b'x'; 100]).unwrap();
                    times.push(clock.now_ns());
                    cpu.push(own_us());
                }
                "spin" => spin(number()),
                "sleep" => std::thread::sleep(Duration::from_micros(number())),
                "fault" => fault(number()),
                "fill" => {
                    while refused < number() {
                        refused += u64::from(producer.publish(&[b'x'; 100]).is_err());
                    }
                }
                "pin" => pin(amount),
                "nice" => {
                    rustix::process::setpriority_process(None, number() as i32).unwrap();
                }
                "await" => {
                    println!("{}", json!({ "awaits": true }));
                    std::io::stdin().read_line(&mut String::new()).unwrap();
                }
                word => panic!("{word}"),
            }
        }
        let after = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        println!(
            "{}",
            json!({
                "times": times,
                "cpu": cpu,
                "refused": refused,
                "waits": after.voluntary_context_switches() - before.voluntary_context_switches(),
                "preemptions": after.involuntary_context_switches() - before.involuntary_context_switches(),
                "faults": after.minor_page_faults() - before.minor_page_faults(),
            })
        );
        line.clear();
    }
}

/// Runs for so many µs of its own time, whatever else runs.
fn spin(us: u64) {
    let end = own_us() + us;
    while own_us() < end {
        std::hint::spin_loop();
    }
}

/// Returns for how long this thread has had a CPU, µs.
fn own_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Touches so many fresh pages.
fn fault(pages: u64) {
    let page = rustix::param::page_size();
    // Small enough for pages of the usual size.
    let blocks: Vec<Vec<u8>> = (0..pages.div_ceil(256))
        .map(|_| {
            let mut block = vec![0u8; 256 * page];
            block.iter_mut().step_by(page).for_each(|byte| *byte = 1);
            block
        })
        .collect();
    assert!(std::hint::black_box(blocks).iter().all(|block| block[0] == 1));
}

fn pin(cpu: &str) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu.parse().unwrap());
    sched_setaffinity(None, &cpus).unwrap();
}

/// The process, driven by lines.
pub(super) struct Shop(pub(super) Live);

impl Shop {
    pub(super) fn start(ring: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "why::shop::a_process_that_is_asked", "--nocapture"])
            .env(RING, ring)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut live = Live::of(command);
        while live.line_or_end().expect("it has attached") != "attached" {}
        Shop(live)
    }

    /// Starts a process that runs on this CPU until it is dropped.
    pub(super) fn hog(cpu: usize) -> Self {
        let mut hog = Self::start("hog");
        hog.say(&cpu.to_string());
        assert_eq!(hog.0.line(), "runs");
        hog
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.child.id()
    }

    pub(super) fn say(&mut self, line: &str) {
        writeln!(self.0.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(super) fn answer(&mut self) -> Value {
        loop {
            // The test program says other things, too.
            if let Ok(answer) = serde_json::from_str(&self.0.line()) {
                return answer;
            }
        }
    }

    pub(super) fn ask(&mut self, line: &str) -> Value {
        self.say(line);
        self.answer()
    }
}
