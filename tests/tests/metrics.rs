//! The metrics area between processes: totals are exact after any kill, forks count nothing twice, and impossible requests
//! are errors.

use perfring_consumer::{
    Observer, Start,
    metrics::{MetricKind, MetricSample, MetricSamples, MetricValue, MetricsFill},
};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{
    Options,
    error::TypeError,
    files::create,
    metrics::{Buckets, Metrics, MetricsError},
};
use perfring_testkit::size::cases;
use perfring_tests::ring_dir;
use perfring_tests::stepped::{OneCpu, Stepped};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const METERER: &str = env!("CARGO_BIN_EXE_meterer");

fn options() -> Options {
    Options { size: 4096, slots: 80, metrics_size: 2 << 20, ..Options::many() }
}

fn samples(ring: &Path) -> MetricSamples {
    let metrics = Observer::attach(ring, Start::Latest).unwrap().metrics().unwrap();
    assert_eq!(metrics.fill.damage, None);
    metrics
}

fn schema(name: &'static str) -> Schema<'static> {
    Schema::new(name, Encoding::Tagged).with_hashed_id()
}

fn of<'a>(all: &'a MetricSamples, name: &'static str) -> impl Iterator<Item = &'a MetricSample> {
    let id = schema(name).id;
    all.samples.iter().filter(move |sample| sample.kind == id)
}

/// A process that has counted, and waits.
fn counted(threads: u32, count: u32, ring: &Path) -> Child {
    let args = ["count", &threads.to_string(), &count.to_string(), ring.to_str().unwrap()];
    let command = &mut Command::new(METERER);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn wait_until_done(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
}

#[test]
fn the_totals_of_64_processes_on_one_instrument_are_exact_after_kill_9() {
    const PROCESSES: usize = 64;
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &options()).unwrap();
    let (threads, count) = (3, 1000);
    let mut children: Vec<_> = (0..PROCESSES).map(|_| counted(threads, count, &ring)).collect();
    children.iter_mut().for_each(wait_until_done);
    let alive = samples(&ring);
    assert!(alive.samples.iter().all(|sample| sample.is_alive), "{alive:?}");
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let dead = samples(&ring);
    assert!(!dead.samples.iter().any(|sample| sample.is_alive), "{dead:?}");
    let each = u64::from(threads * count);
    let (mut counters, mut pids) = (0, Vec::new());
    for sample in of(&dead, "demo.count") {
        assert_eq!(sample.value, MetricValue::U64(each));
        counters += 1;
        pids.push(sample.pid);
    }
    for sample in of(&dead, "demo.measured") {
        let MetricValue::Histogram { counts, zeros, sum, range, refused, .. } = &sample.value
        else {
            panic!("{sample:?}")
        };
        assert_eq!((counts.iter().sum::<u64>(), *zeros, *refused), (each, 0, 0));
        assert_eq!(*sum, f64::from(threads) * f64::from(count * (count + 1) / 2));
        assert_eq!(*range, Some((1.0, count.into())));
    }
    pids.sort_unstable();
    let mut expected: Vec<_> = children.iter().map(Child::id).collect();
    expected.sort_unstable();
    assert_eq!((counters, pids, dead.fill.refused), (PROCESSES, expected, 0));
}

#[test]
fn a_forked_child_has_its_own_values_and_nothing_is_counted_twice() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &options()).unwrap();
    let output = Command::new(METERER).args(["fork", ring.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let pids: BTreeMap<&str, u32> = said
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(who, pid)| (who, pid.parse().unwrap()))
        .collect();
    let found: BTreeMap<_, _> = of(&samples(&ring), "demo.count")
        .map(|sample| (sample.pid, sample.value.clone()))
        .collect();
    let expected = [("parent", 5), ("child", 6)];
    let expected: BTreeMap<_, _> =
        expected.map(|(who, count)| (pids[who], MetricValue::U64(count))).into();
    assert_eq!(found, expected, "{said}");
}

/// The values after a death at this point: the counter, the histogram's count and sum, and the gauge.
type Left = (Option<u64>, Option<(u64, f64)>, Option<f64>);

fn left(ring: &Path) -> Left {
    let all = samples(ring);
    assert!(!all.samples.iter().any(|sample| sample.is_alive), "{all:?}");
    let counter = of(&all, "demo.count").next().map(|sample| match sample.value {
        MetricValue::U64(count) => count,
        ref other => panic!("{other:?}"),
    });
    let histogram = of(&all, "demo.measured").next().map(|sample| match &sample.value {
        MetricValue::Histogram { counts, zeros, sum, .. } => {
            (counts.iter().sum::<u64>() + zeros, *sum)
        }
        other => panic!("{other:?}"),
    });
    let gauge = of(&all, "demo.set").next().map(|sample| match sample.value {
        MetricValue::F64(value) => value,
        ref other => panic!("{other:?}"),
    });
    (counter, histogram, gauge)
}

#[test]
fn a_death_at_any_instruction_leaves_an_update_whole_or_not_done() {
    let _cpu = OneCpu::take();
    let dir = ring_dir();
    let template = dir.path().join("template");
    create(&template, &options()).unwrap();
    let ring = dir.path().join("ring");
    let none = Some((0, 0.0));
    let scenes: [(&str, &[Left]); 4] = [
        ("register", &[(None, None, None), (Some(0), None, None)]),
        ("add", &[(Some(0), none, None), (Some(7), none, None)]),
        // The sum comes first: it includes at least the counted measurements.
        (
            "record",
            &[
                (Some(0), none, None),
                (Some(0), Some((0, 2.5)), None),
                (Some(0), Some((1, 2.5)), None),
            ],
        ),
        ("set", &[(Some(0), none, None), (Some(0), none, Some(1.5))]),
    ];
    for (scenario, expected) in scenes {
        let fresh = || assert!(std::fs::copy(&template, &ring).unwrap() > 0);
        fresh();
        let whole = Stepped::start(METERER, &["kill", scenario], &ring);
        let mut steps = 0;
        while !whole.step() {
            steps += 1;
        }
        whole.kill();
        let mut seen = vec![left(&ring)];
        let each = (steps / cases(60, 4000) as usize).max(1);
        for at in (0..steps).step_by(each) {
            fresh();
            let stepped = Stepped::start(METERER, &["kill", scenario], &ring);
            // Maps with random hashes: one process takes some instructions less than another, and is done then.
            let is_done = (0..at).any(|_| stepped.step());
            stepped.kill();
            let now = left(&ring);
            assert!(expected.contains(&now), "{scenario}, {at} of {steps}: {now:?}");
            assert!(
                !is_done || Some(&now) == expected.last(),
                "{scenario}, {at} of {steps}: {now:?}"
            );
            seen.push(now);
            // The next process continues, with its own values.
            let next = Metrics::attach(&ring).unwrap();
            next.register(&schema("demo.count"), MetricKind::CounterU64, 1).unwrap().add(1);
        }
        for wanted in [expected.first(), expected.last()] {
            assert!(seen.contains(wanted.unwrap()), "{scenario}: {wanted:?} was never seen");
        }
        println!("{scenario}: {steps} instructions, every {each}th a death");
    }
}

#[test]
fn a_full_area_is_an_error_once_and_a_count_and_replaces_what_dead_processes_had() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { metrics_size: 4096, ..options() }).unwrap();
    let names: Vec<&'static str> =
        (0..40).map(|number| &*Box::leak(format!("n{number}").into_boxed_str())).collect();
    let fill = |metrics: &Metrics| {
        let mut refused = 0;
        for name in &names {
            match metrics.register(&schema(name), MetricKind::CounterU64, 1) {
                Ok(counter) => counter.add(1),
                Err(MetricsError::Full { needed: 128, left, .. }) => {
                    assert!(left < 128);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        refused
    };
    let first = Metrics::attach(&ring).unwrap();
    let room = (4096 - 64) / 128;
    assert_eq!(fill(&first), 40 - room);
    let used = 64 + 128 * room;
    let full = |refused, replaced| MetricsFill {
        size: 4096,
        used,
        instruments: room,
        refused,
        replaced,
        damage: None,
    };
    assert_eq!(first.fill(), full(40 - room, 0));
    let second = Metrics::attach(&ring).unwrap();
    assert_eq!(fill(&second), 40, "the first one lives");
    drop(first);
    let before = samples(&ring).samples[0].start_time_unix_nano;
    assert_eq!(fill(&second), 40 - room, "its values go");
    let all = samples(&ring);
    assert_eq!(all.fill, full((40 - room) + 40 + (40 - room), room));
    for sample in &all.samples {
        assert_eq!((&sample.value, sample.is_alive), (&MetricValue::U64(1), true), "nothing twice");
        assert!(sample.start_time_unix_nano > before);
    }
}

#[test]
fn an_instrument_that_is_registered_again_is_the_same() {
    const THREADS: usize = 8;
    let dir = ring_dir();
    for round in 0..20 {
        let ring = dir.path().join(format!("ring-{round}"));
        create(&ring, &options()).unwrap();
        let metrics = Metrics::attach(&ring).unwrap();
        let barrier = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..2 {
                        let kind = MetricKind::CounterU64;
                        metrics.register(&schema("demo.count"), kind, 1).unwrap().add(1);
                    }
                });
            }
        });
        let all = samples(&ring);
        let values: Vec<_> = all.samples.iter().map(|sample| &sample.value).collect();
        assert_eq!(values, [&MetricValue::U64(2 * THREADS as u64)]);
    }
}

#[test]
fn what_has_no_area_or_another_type_is_refused_with_a_sentence() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { metrics_size: 0, ..options() }).unwrap();
    let none = Metrics::attach(&ring).unwrap_err().to_string();
    assert!(none.ends_with("(`perfring create --producers many --metrics-size 1M`)"), "{none}");
    let bad = create(dir.path().join("bad"), &Options { types_size: 0, ..options() }).unwrap_err();
    assert!(bad.to_string().contains("a metrics area of 2097152 bytes"), "{bad}");

    let other = dir.path().join("other");
    let metrics = Metrics::open_or_create(&other, &options()).unwrap();
    let wanted = schema("demo.count");
    metrics.register(&wanted, MetricKind::CounterU64, 1).unwrap();
    let taken = Schema { id: wanted.id, ..Schema::new("demo.other", Encoding::Json) };
    let taken = metrics.register(&taken, MetricKind::CounterU64, 1).unwrap_err();
    assert!(matches!(taken, MetricsError::Type(TypeError::Taken { .. })), "{taken}");
    for other in [MetricKind::CounterF64, MetricKind::Histogram(Buckets::default())] {
        let again = metrics.register(&wanted, other, 1).unwrap_err();
        let present = MetricKind::CounterU64;
        assert!(matches!(again, MetricsError::OtherKind { present: its, .. } if its == present));
        assert!(
            again.to_string().ends_with("ask for the same, or give it another name"),
            "{again}"
        );
    }
    assert!(!metrics.is_removed());
    std::fs::remove_file(&other).unwrap();
    assert!(metrics.is_removed());
}
