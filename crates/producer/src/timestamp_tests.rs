//! The clock against a world that is made up: counters that drift, NTP, suspends, preemption.
#![allow(clippy::unwrap_used)]

use super::*;
use perfring_shm::MachineClock;
use proptest::prelude::*;
use std::cell::Cell;

const MS: u64 = 1_000_000;

/// What happens to a machine.
#[derive(Clone, Debug)]
enum Event {
    /// Time passes.
    Wait(u64),
    /// This many timestamps are taken, with this much time between them.
    Timestamp(u32, u64),
    /// NTP gives the kernel's clock another rate, in ppm.
    Slew(i32),
    /// The counter's crystal warms up, in ppb.
    Drift(i32),
    /// The machine sleeps, and its counter stops, or begins anew.
    Suspend(u64, bool),
    /// A virtual machine moves to one whose counter has another rate, in percent.
    Move(u32),
    /// Each of so many readings from here on is interrupted for so long.
    Disturb(u32, u64),
}

/// How long machines sleep: no less than a tenth of a second.
fn sleep() -> impl Strategy<Value = u64> {
    prop_oneof![100 * MS..400 * MS, 100 * MS..1_000_000 * MS]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..40 * MS).prop_map(Event::Wait),
        1 => (0..200_000 * MS).prop_map(Event::Wait),
        8 => (1..40u32, 0..200_000u64).prop_map(|(times, gap)| Event::Timestamp(times, gap)),
        4 => (1..40u32, 0..3 * MS).prop_map(|(times, gap)| Event::Timestamp(times, gap)),
        2 => (-500..=500i32).prop_map(Event::Slew),
        1 => prop_oneof![Just(-500), Just(500)].prop_map(Event::Slew),
        1 => (-20_000..20_000i32).prop_map(Event::Drift),
        1 => (sleep(), any::<bool>()).prop_map(|(ns, anew)| Event::Suspend(ns, anew)),
        1 => prop_oneof![75..=98u32, 102..=133u32].prop_map(Event::Move),
        2 => (1..20u32, 500..20 * MS).prop_map(|(times, ns)| Event::Disturb(times, ns)),
    ]
}

/// A machine: its counter, its clock, and what was done to them.
#[derive(Debug)]
struct World {
    counter: Cell<f64>,
    clock: Cell<f64>,
    wall_ahead: Cell<u64>,
    ticks_a_ns: Cell<f64>,
    slew: Cell<f64>,
    disturbed: Cell<(u32, u64)>,
    /// Time that was not slept through.
    ran: Cell<u64>,
}

impl World {
    fn new(ghz: f64) -> Self {
        World {
            counter: Cell::new(1e13),
            clock: Cell::new(5e12),
            wall_ahead: Cell::new(1_700_000_000_000_000_000),
            ticks_a_ns: Cell::new(ghz),
            slew: Cell::new(0.0),
            disturbed: Cell::new((0, 0)),
            ran: Cell::new(0),
        }
    }

    fn pass(&self, ns: u64) {
        self.ran.set(self.ran.get() + ns);
        self.counter.set(self.counter.get() + ns as f64 * self.ticks_a_ns.get());
        self.clock.set(self.clock.get() + ns as f64 * (1.0 + self.slew.get()));
    }

    /// What any reading costs.
    fn read(&self) {
        self.pass(12);
        if let (times @ 1.., ns) = self.disturbed.get() {
            self.disturbed.set((times - 1, ns));
            self.pass(ns);
        }
    }

    fn true_ns(&self) -> u64 {
        self.clock.get() as u64
    }
}

impl Clocks for &World {
    fn counts(&self) -> bool {
        true
    }
    fn counter(&self) -> u64 {
        self.read();
        let counter = self.counter.get() as u64;
        self.pass(8);
        counter
    }
    fn clock_ns(&self) -> u64 {
        self.read();
        let ns = self.true_ns();
        self.pass(9);
        ns
    }
    fn realtime_ns(&self) -> u64 {
        self.clock_ns() + self.wall_ahead.get()
    }
    fn boot(&self) -> u64 {
        1
    }
}

fn timestamp<S: Clocks>(clock: &mut Clock<S>) -> u64 {
    match clock.by_line() {
        Some(now) => now,
        None => clock.by_clock(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn timestamps_are_within_their_bound_of_the_clock(
        ghz in prop_oneof![Just(0.025), Just(1.0), Just(2.445), Just(3.7), Just(5.8)],
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let world = World::new(ghz);
        let mut clock = Clock::new(&world);
        // A counter that stopped is believed for at most one line: until then, and by so much.
        let (mut stale_until, mut stale) = (0, 0);
        // So is one that has moved, which is up to twice as fast, or half.
        let (mut moved_until, mut nominal) = (0, ghz);
        let check = |world: &World, clock: &mut Clock<&World>, (until, stale), moved_until| {
            let (before, ran) = (world.true_ns(), world.ran.get());
            let now = timestamp(clock);
            let after = world.true_ns();
            let early = if ran < until { stale } else { 0 };
            let moved = if ran < moved_until { 2 * LONGEST_NS } else { 0 };
            prop_assert!(now + ERROR_NS + early + moved >= before, "{} ns early", before - now);
            prop_assert!(now <= after + ERROR_NS + moved, "{} ns late", now - after);
            Ok(())
        };
        for event in events {
            match event {
                Event::Wait(ns) => world.pass(ns),
                Event::Timestamp(times, gap) => {
                    for _ in 0..times {
                        check(&world, &mut clock, (stale_until, stale), moved_until)?;
                        world.pass(gap);
                    }
                }
                Event::Slew(ppm) => world.slew.set(f64::from(ppm) * 1e-6),
                Event::Drift(ppb) => {
                    world.ticks_a_ns.set(nominal * (1.0 + f64::from(ppb) * 1e-9));
                }
                Event::Move(percent) => {
                    nominal = ghz * f64::from(percent) / 100.0;
                    world.ticks_a_ns.set(nominal);
                    moved_until = world.ran.get() + LONG_NS + 2 * LONGEST_NS + MS;
                }
                Event::Suspend(ns, anew) => {
                    world.clock.set(world.clock.get() + ns as f64);
                    // Twice from 0 it would, after a while, be where it was before: that it is
                    // read just then is believed, for as long as a line goes.
                    match (anew, world.counter.get()) {
                        (true, 1e13..) => world.counter.set(0.0),
                        (true, counter) => world.counter.set(counter + 1e12),
                        (false, _) => {}
                    }
                    stale = if world.ran.get() < stale_until { stale + ns } else { ns };
                    stale_until = world.ran.get() + 2 * LONGEST_NS + ERROR_NS;
                }
                Event::Disturb(times, ns) => world.disturbed.set((times, ns)),
            }
        }
    }
}

#[test]
fn a_line_is_drawn_after_a_millisecond_and_grows_to_eight() {
    let world = World::new(3.0);
    let mut clock = Clock::new(&world);
    let mut by_line = 0;
    for _ in 0..1_000_000 {
        by_line += u32::from(clock.by_line().is_some());
        timestamp(&mut clock);
        world.pass(1000);
    }
    // A second of timestamps, a microsecond apart.
    assert!(by_line > 998_000, "{by_line} of a million by the line");
    let span_ns = clock.line.span as f64 / 3.0;
    assert!((7.9e6..8.1e6).contains(&span_ns), "{span_ns}");
}

/// One line may be wrong after a move, and no other is made of it.
#[test]
fn a_counter_of_another_rate_is_noticed_at_the_end_of_the_line() {
    for percent in [60, 99, 101, 180] {
        let world = World::new(3.0);
        let mut clock = Clock::new(&world);
        let mut by_line = 0;
        for step in 0..10_000 {
            if step == 4_321 {
                world.ticks_a_ns.set(0.03 * f64::from(percent));
            }
            let settled = !(4_321..4_321 + 1_500).contains(&step);
            by_line += u32::from(settled && clock.by_line().is_some());
            let before = world.true_ns();
            let now = timestamp(&mut clock);
            let off = before.saturating_sub(now).max(now.saturating_sub(world.true_ns()));
            assert!(!settled || off < ERROR_NS, "{off} ns off at step {step}, {percent} %");
            world.pass(10_000);
        }
        assert!(by_line > 7_500, "{by_line} of 8,500 by the line");
    }
}

/// perf's readers get the timestamps' clock from the header's fields.
#[test]
fn the_scale_gives_the_clock() {
    let world = World::new(2.445);
    let mut clock = Clock::new(&world);
    assert_eq!(clock.read().scale, None);
    for _ in 0..100 {
        timestamp(&mut clock);
        world.pass(MS / 5);
    }
    let scale = clock.read().scale.unwrap();
    for _ in 0..100 {
        let counter = (&world).counter();
        let by_scale = scale.zero.wrapping_add(scale.scaled(counter));
        assert!(by_scale.abs_diff(world.true_ns()) < ERROR_NS);
        world.pass(MS / 20);
    }
}

/// What stands in the page of a ring in use, as perf's readers take it.
#[test]
fn a_ring_says_how_the_counter_becomes_the_clock() {
    use crate::{Options, Policy, Producer};
    use perfring_abi::Header;
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt;
    let machine = MachineClock::find().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let options = Options { time: true, policy: Policy::Overwrite, ..Options::default() };
    let mut producer = Producer::create(path.as_path(), &options).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let word = |offset: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, offset as u64).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let cap = perfring_abi::PERF_CAP_TIME_ZERO;
    let mut has_scale = || {
        producer.publish(b"x").unwrap();
        word(offset_of!(Header, perf_time.capabilities)) & cap != 0
    };
    if !machine.has_counter() {
        assert!((0..10_000).all(|_| !has_scale()), "a scale, and no counter");
        println!("this machine's counter is not to be trusted: the fields stay zero");
        return;
    }
    let dog = perfring_testkit::wait::Watchdog::default();
    let mut published = machine.now_ns();
    while !has_scale() {
        dog.check("a scale, where there is a counter");
        published = machine.now_ns();
    }
    let drawn = published - 100_000_000;
    let bytes = word(offset_of!(Header, perf_time.scale)).to_ne_bytes();
    let shift = u16::from_ne_bytes([bytes[2], bytes[3]]);
    let mult = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let scale = Scale { shift, mult, zero: word(offset_of!(Header, perf_time.zero)) };
    for _ in 0..1000 {
        let before = machine.now_ns();
        let by_scale = scale.zero.wrapping_add(scale.scaled(machine.counter()));
        let after = machine.now_ns();
        // The scale is of the last 100 ms before the record. Since then the clock's rate may have changed by 1,000 ppm.
        let bound = (after - drawn) / 1000 + ERROR_NS;
        assert!(by_scale + bound >= before && by_scale <= after + bound, "{before} {by_scale}");
    }
}

/// The machine that this runs on.
#[test]
fn timestamps_are_the_boot_clock() {
    let machine = MachineClock::find().unwrap();
    let mut clock = Clock::new(machine);
    let (mut by_line, mut most, mut last) = (0, 0, 0);
    let mut worst = Vec::new();
    for _ in 0..200_000 {
        let before = machine.now_ns();
        by_line += u32::from(clock.by_line().is_some());
        let now = timestamp(&mut clock);
        let after = machine.now_ns();
        let off = before.saturating_sub(now).max(now.saturating_sub(after));
        assert!(off <= ERROR_NS, "{off} ns off");
        most = off.max(most);
        worst.push(off);
        last = now.max(last);
    }
    worst.sort_unstable();
    println!(
        "counter: {}; {by_line} of 200000 by the line; off by at most {most} ns, 99.9% within {} ns",
        machine.has_counter(),
        worst[worst.len() * 999 / 1000]
    );
    assert_eq!(by_line > 0, machine.has_counter());
}
