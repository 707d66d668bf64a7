//! Registration with `membarrier(2)`: at the attach of a process with one thread, and not on the way of the first record
//! in one with more.

use nix::libc;
use perfring_consumer::{Consumer, Item};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::{number_of, ring_dir};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

struct Registrar {
    child: Child,
    ask: ChildStdin,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Registrar {
    fn start(threads: u32, ring: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_registrar"))
            .args([&threads.to_string(), ring.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        Registrar { ask: child.stdin.take().unwrap(), child, lines: Box::new(lines) }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap()
    }

    fn step(&mut self, what: &str) -> String {
        writeln!(self.ask, "{what}").unwrap();
        self.line()
    }
}

/// Returns whether this kernel reports the registrations of a process.
fn kernel_says() -> bool {
    // SAFETY: a call that takes numbers and returns one.
    unsafe { libc::syscall(libc::SYS_membarrier, 1 << 9, 0, 0) >= 0 }
}

#[test]
fn only_a_process_with_one_thread_registers_when_it_attaches() {
    if !kernel_says() {
        println!("SKIPPED: whether a process is registered: the kernel says it since Linux 6.3");
        return;
    }
    for (threads, at_attach) in [(1, "true"), (2, "false"), (8, "false")] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let mut registrar = Registrar::start(threads, &ring);
        assert_eq!(registrar.line(), at_attach, "{threads} threads");
        println!("{threads} threads: from create to the first record {} us", registrar.line());
        assert_eq!(registrar.step("publish"), at_attach);
        assert_eq!(registrar.step("register"), "true");
        assert_eq!(registrar.step("publish"), "true");
        drop(registrar.ask);
        assert!(registrar.child.wait().unwrap().success());
    }
}

#[test]
fn a_sleeper_is_woken_by_a_process_before_and_after_it_registers() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut registrar = Registrar::start(3, &ring);
    let _ = (registrar.line(), registrar.line());
    let mut consumer = Consumer::attach(&ring).unwrap();
    let mut next = || loop {
        if let Some(item) = consumer.read().unwrap() {
            let Item::Record(record) = item else { panic!("{item:?}") };
            return number_of(record.bytes);
        }
        assert!(consumer.wait(WATCHDOG), "not woken");
    };
    assert_eq!(next(), 1);
    for number in 2..2000 {
        if number == 1000 {
            assert_eq!(registrar.step("register"), "true");
            continue;
        }
        // Asked for while this thread may be on its way to sleep.
        writeln!(registrar.ask, "publish").unwrap();
        assert_eq!(next(), number);
        let _ = registrar.line();
    }
}
