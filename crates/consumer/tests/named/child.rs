//! A named consumer in a process of its own, driven step by step.

use perfring_consumer::{Cause, Consumer, Item};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The ring and the name, for a process that is to be a consumer.
const ROLE: &str = "PERFRING_NAMED_CHILD";

/// What a consumer says of itself after a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) read: u64,
    pub(crate) lost: u64,
}

pub(crate) struct Reader {
    child: Child,
    steps: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Reader {
    pub(crate) fn start(ring: &Path, name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "named::child_process", "--nocapture", "--ignored"])
            .env(ROLE, format!("{name}:{}", ring.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let steps = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut reader = Reader { child, steps, lines };
        reader.said();
        reader
    }

    /// Has it read so many items, `u64::MAX` for all there are, and release them.
    pub(crate) fn read(&mut self, items: u64) -> Said {
        writeln!(self.steps, "{items}").unwrap();
        self.said()
    }

    /// Has it read one record, and hold it.
    pub(crate) fn hold(&mut self) {
        writeln!(self.steps, "0").unwrap();
        self.said();
    }

    fn said(&mut self) -> Said {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the consumer has ended");
            // What the test harness prints comes before, perhaps on the same line.
            if let Some((_, said)) = line.split_once("said ") {
                let mut numbers = said.split_whitespace().map(|word| word.parse().unwrap());
                return Said { read: numbers.next().unwrap(), lost: numbers.next().unwrap() };
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it, with a detach.
    pub(crate) fn end(self) {
        let Reader { mut child, steps, lines } = self;
        drop(steps);
        lines.lines().for_each(drop);
        child.wait().unwrap();
    }
}

/// What such a process does.
pub(crate) fn run() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (name, ring) = role.split_once(':').unwrap();
    let mut consumer = Consumer::attach_as(ring, name).unwrap();
    println!("said 0 0");
    for step in std::io::stdin().lines() {
        let items: u64 = step.unwrap().parse().unwrap();
        let mut said = Said::default();
        while said.read + said.lost < items.max(1) {
            match consumer.read().unwrap() {
                Some(Item::Record(record)) => {
                    let id = u64::from_ne_bytes(record.bytes[..8].try_into().unwrap());
                    assert!(record.bytes[8..].iter().all(|byte| u64::from(*byte) == id & 255));
                    said.read += 1;
                }
                // What producers were refused is another matter.
                Some(Item::Lost(lost)) if lost.cause != Cause::Lapped => {}
                Some(Item::Lost(lost)) => said.lost += lost.records,
                None => break,
            }
        }
        if items != 0 {
            consumer.release();
        }
        println!("said {} {}", said.read, said.lost);
    }
}
