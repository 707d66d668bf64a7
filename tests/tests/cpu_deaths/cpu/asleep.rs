//! A producer that is stopped or killed after its commit, before it looks whether somebody sleeps.

use super::others::{VICTIM, cpus, go_to};
use super::stage::with_cpus;
use super::traced::*;
use nix::unistd::Pid;
use perfring_producer::{CpuProducer, Options};
use perfring_testkit::wait::{Watchdog, until};
use perfring_tests::ring_dir;
use perfring_tests::shared::{Driven, Raw};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const LEN: u64 = 40;
/// The cap on a sleep: all that sleeps wakes at each full second of the clock.
const CAP: Duration = Duration::from_secs(1);
/// How far the clocks of two processors may be apart, ns. Sleepers wake at nothing else within half a second of a full one.
const CLOCKS_APART: i64 = 2_000_000;

struct Reader {
    driven: Driven,
    pid: Pid,
}

impl Reader {
    fn start(ring: &Path) -> Self {
        let (driven, line) = Driven::start(env!("CARGO_BIN_EXE_cpuer"), &["reads"], ring);
        assert_eq!(line, "attached");
        let pid = Pid::from_raw(driven.child.id() as i32);
        Reader { driven, pid }
    }

    /// Returns the limit of its sleep, if it has announced that and sleeps on a futex.
    fn sleeps(&self, ring: &Path) -> Option<Duration> {
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid)).unwrap();
        let mut words = call.split(' ');
        if words.next()? != nix::libc::SYS_futex.to_string()
            || Raw::read(ring).field("wait_armed") as u32 != 1
        {
            return None;
        }
        // The fourth argument is the address of the limit.
        let address = u64::from_str_radix(words.nth(3)?.strip_prefix("0x")?, 16).ok()?;
        let memory = File::open(format!("/proc/{}/mem", self.pid)).unwrap();
        let word = |at| {
            let mut bytes = [0; 8];
            memory.read_exact_at(&mut bytes, at).ok().map(|()| u64::from_ne_bytes(bytes))
        };
        Some(Duration::new(word(address)?, word(address + 8)? as u32))
    }

    /// Returns when it has read this record, the next one.
    fn reads(&mut self, seq: u64) -> Timespec {
        let line = self.driven.line();
        let words: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [who, read, tv_sec, tv_nsec] = words[..] else { panic!("{line}") };
        assert_eq!((who as u64, read as u64), (VICTIM, seq));
        Timespec { tv_sec, tv_nsec }
    }
}

fn now() -> Timespec {
    clock_gettime(ClockId::Monotonic)
}

/// All sleepers wake at each full second of the clock, and at nothing else here.
pub(crate) fn after_the_commit() {
    with_cpus(|all| {
        let dir = ring_dir();
        let set = dir.path().join("set");
        let cpu = cpus()[0];
        assert_eq!(cpu, all[0]);
        go_to(cpu);
        let options = Options { size: 64 << 10, slots: 8, ..Options::per_cpu() };
        let producer = CpuProducer::create(&set, &options).unwrap();
        let ring = set.join(format!("cpu{cpu}"));
        let mut reader = Reader::start(&ring);
        let (mut seq, mut missed, mut plays, mut dog) = (0, 0, 0, Watchdog::default());
        let mut victim: Option<(Traced, Point)> = None;
        while plays < 4 {
            if victim.is_none() {
                let mut started = Traced::start(&["traced", "victim"], &set, cpu);
                reader.reads(0);
                // Room before the ring's limit: one sequence.
                let (points, answer) = loop {
                    seq += 1;
                    let walked = started.walk(&format!("publish {VICTIM} {seq} {LEN}"));
                    reader.reads(seq);
                    if walked.0.iter().all(|point| point.visit == 0) {
                        break walked;
                    }
                };
                assert_eq!(answer, "ok");
                let last = *points.last().unwrap();
                assert!(last.stored);
                victim = Some((started, last));
            }
            let (mut stopped, place) = victim.take().unwrap();
            until("the first half of a second, and a sleeping consumer", || {
                now().tv_nsec < 500_000_000 && reader.sleeps(&ring).is_some()
            });
            seq += 1;
            let head = Raw::read(&ring).head();
            let before = now();
            let there = stopped.reach(&format!("publish {VICTIM} {seq} {LEN}"), place);
            let committed = Raw::read(&ring).head() > head;
            let asleep = reader.sleeps(&ring);
            let (Some(limit), true, true) = (asleep, there, now().tv_sec == before.tv_sec) else {
                // Preempted on the way, or at the turn of a second.
                let answer = if there { stopped.finish() } else { stopped.answer() };
                assert_eq!(answer, "ok");
                reader.reads(seq);
                victim = Some((stopped, place));
                missed += 1;
                dog.check("the victim in its place before the second is over");
                continue;
            };
            dog = Watchdog::default();
            assert!(limit <= CAP, "{limit:?}");
            assert!(committed, "it stands behind the store of data_head");
            // It stands there, and the next time it dies there.
            plays += 1;
            let killed = plays % 2 == 0;
            let stopped = if killed {
                stopped.kill();
                None
            } else {
                Some(stopped)
            };
            let woke = reader.reads(seq);
            // Two processors of a virtual machine may have clocks that differ: one said 0.18 ms before the second.
            let woke_ns = woke.tv_sec * 1_000_000_000 + woke.tv_nsec;
            let due_ns = (before.tv_sec + 1) * 1_000_000_000;
            assert!(
                woke_ns >= due_ns - CLOCKS_APART,
                "at {woke:?}, after {before:?}: not by the cap on a sleep"
            );
            println!("killed: {killed}; committed at {before:?}, read at {woke:?}");
            victim = stopped.map(|mut stopped| {
                assert_eq!(stopped.finish(), "ok");
                (stopped, place)
            });
        }
        drop(producer);
        println!("{missed} missed");
    });
}
