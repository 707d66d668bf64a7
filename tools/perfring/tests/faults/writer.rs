//! Writers: processes that publish numbered records until they are killed or asked to end.

use crate::command::Live;
use perfring_consumer::stat::Stat;
use perfring_producer::Producer;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const RING: &str = "PERFRING_TEST_RING";
const LIFE: &str = "PERFRING_TEST_LIFE";
const MOST: &str = "PERFRING_TEST_MOST";

/// Records between two pauses: more than a ring holds within an outage, and few enough for all of
/// them to be read back within seconds.
const BURST: u64 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Returns a record's text: its writer, its number among those that were committed, and some more,
/// so that records are of many lengths.
pub(crate) fn text(life: u64, number: u64) -> String {
    format!("{life} {number} {}", "x".repeat(number as usize % 41))
}

/// Parses the two numbers of a writer's record.
pub(crate) fn parse(record: &str) -> (u64, u64) {
    let mut words = record.split(' ').map(|word| word.parse().ok());
    let (Some(Some(life)), Some(Some(number))) = (words.next(), words.next()) else {
        panic!("no writer's: {record:?}")
    };
    assert_eq!(record, text(life, number), "not as it was written");
    (life, number)
}

/// Runs the writer's process.
pub(crate) fn write() {
    let Some(ring) = std::env::var_os(RING) else { return };
    let life: u64 = std::env::var(LIFE).unwrap().parse().unwrap();
    let most: u64 = std::env::var(MOST).unwrap().parse().unwrap();
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let end = AtomicBool::new(false);
    let mut number = 0;
    let mut publish = |number: &mut u64| {
        let done = producer.publish(text(life, *number).as_bytes()).is_ok();
        *number += u64::from(done);
        done
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::io::stdin().lines().for_each(drop);
            end.store(true, Ordering::Relaxed);
        });
        println!("\nbegun");
        while !end.load(Ordering::Relaxed) {
            // Of a ring whose figures change as they are read, none may come.
            let totals = || Stat::read(Path::new(&ring)).unwrap().totals;
            if most == u64::MAX || totals().is_some_and(|of| of.head - of.tail < most) {
                for _ in 0..BURST {
                    publish(&mut number);
                }
            }
            std::thread::sleep(PAUSE);
        }
    });
    // Losses are reported before the last record.
    while !publish(&mut number) {
        std::thread::sleep(PAUSE);
    }
    println!("\ncommitted {number}");
}

/// A writer's process.
pub(crate) struct Writer {
    live: Live,
    stdin: ChildStdin,
    life: u64,
}

impl Writer {
    /// Starts one that pauses while the ring holds `most` bytes or more: on a busy machine it would fill any ring.
    pub(crate) fn start(ring: &Path, life: u64, most: u64) -> Writer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "faults::a_writer_until_its_stdin_ends", "--nocapture"])
            .env(RING, ring)
            .env(LIFE, life.to_string())
            .env(MOST, most.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut live = Live::of(command);
        let stdin = live.child.stdin.take().unwrap();
        while live.line_or_end().unwrap() != "begun" {}
        Writer { live, stdin, life }
    }

    /// Sends SIGKILL. Returns the number of this life.
    pub(crate) fn kill(&mut self) -> u64 {
        self.live.child.kill().unwrap();
        self.live.child.wait().unwrap();
        self.life
    }

    /// Ends it. Returns its life, and how many records it committed.
    pub(crate) fn end(self) -> (u64, u64) {
        let Writer { mut live, stdin, life } = self;
        drop(stdin);
        loop {
            let line = live.line_or_end().expect("a writer says how many it committed");
            if let Some(number) = line.strip_prefix("committed ") {
                return (life, number.parse().unwrap());
            }
        }
    }
}
