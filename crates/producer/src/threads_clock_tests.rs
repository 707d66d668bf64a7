//! Readers beside who draws, and what a thread sees.

use super::*;
use std::sync::atomic::AtomicBool;

/// A counter that its test sets, and a clock that is behind it.
#[derive(Clone, Copy)]
struct Fixed<'a> {
    counter: &'a AtomicU64,
}

/// How far the clock is behind the counter.
const BEHIND: u64 = 5000;

impl Clocks for Fixed<'_> {
    fn counts(&self) -> bool {
        true
    }
    fn counter(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }
    fn clock_ns(&self) -> u64 {
        self.counter() - BEHIND
    }
    fn realtime_ns(&self) -> u64 {
        0
    }
    fn boot(&self) -> u64 {
        0
    }
}

/// A line by which the time is the counter.
fn line(base: u64) -> Line {
    Line { base, base_ns: base, mult: 1, shift: 0, span: 1 << 40 }
}

#[test]
fn a_line_is_read_whole_beside_who_draws_it() {
    const COUNTER: u64 = 1 << 39;
    let counter = AtomicU64::new(COUNTER);
    let clock = ThreadsClock::new(Fixed { counter: &counter });
    clock.share(line(0));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut read = 0;
                    while !over.load(Ordering::Relaxed) || read == 0 {
                        if let Some(now) = clock.by_line() {
                            assert_eq!(now, COUNTER, "parts of two lines");
                            read += 1;
                        }
                    }
                })
            })
            .collect();
        (0..if cfg!(miri) { 100 } else { 100_000 }).for_each(|base| clock.share(line(base)));
        over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn a_thread_that_comes_from_the_line_to_the_clock_does_not_go_back() {
    let counter = AtomicU64::new(1_000_000);
    let clock = ThreadsClock::new(Fixed { counter: &counter });
    clock.share(line(0));
    assert_eq!(clock.now(), 1_000_000);
    // Another thread draws, and is off its core.
    let drawer = clock.drawer.lock().unwrap();
    clock.share(Line { span: 1, ..line(0) });
    assert_eq!((clock.by_clock(), clock.now()), (1_000_000 - BEHIND, 1_000_001));
    assert_eq!(clock.read().scale, None);
    drop(drawer);
    assert_eq!(clock.now(), 1_000_002);
    counter.store(2_000_000, Ordering::Relaxed);
    assert_eq!(clock.now(), 2_000_000 - BEHIND);
}

#[test]
fn what_a_ring_has_raised_a_timestamp_to_is_before_the_next_one() {
    let counter = AtomicU64::new(1_000_000);
    let clock = ThreadsClock::new(Fixed { counter: &counter });
    clock.share(line(0));
    let now = clock.now();
    clock.stored(now + 12_000);
    assert_eq!(clock.now(), now + 12_001);
    // What no producer has stored.
    for damaged in [0, now, now + FUTURE, u64::MAX] {
        clock.stored(damaged);
    }
    assert_eq!(clock.now(), now + 12_002);
    // Nor is it raised by as much again and again.
    for _ in 0..3 {
        clock.stored(clock.now() + FUTURE - 20_000);
    }
    assert!(clock.now() < now + FUTURE);
}
