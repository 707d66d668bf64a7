//! Rules that keep, drop, sample and limit records, against a plain model.

use crate::scripted::{DELAY, Reported, Scripted, ring, until};
use perfring_consumer::{Location, stat::Stat};
use perfring_producer::{Policy, Producer, RecordType};
use perfring_sidecar::config::{Config, Delivery, Input, InputSource};
use perfring_sidecar::{Engine, RecordRule, Turn};
use perfring_telemetry::{Log, Resource, Severity, Sink, SpanId, TraceId, options};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

fn rules(text: &str) -> Vec<RecordRule> {
    Config::parse(text, "test").unwrap().record_rules
}

fn engine(outputs: &[(&str, Delivery, &Scripted)], rules: Vec<RecordRule>) -> Engine {
    let mut engine = Engine::new(DELAY).unwrap();
    engine.set_record_rules(rules);
    for (name, delivery, output) in outputs {
        engine.add_output(name, *delivery, Default::default(), output.boxed()).unwrap();
    }
    engine
}

fn attach(engine: &mut Engine, path: &Path) -> [u8; 16] {
    let location = Location::from(path.to_owned());
    let input = Input::new(InputSource::Ring(location.clone()));
    engine.attach(&location, &input, None, |_| None).unwrap();
    let ring = engine.rings().find(|ring| ring.origin.location == location.to_string());
    ring.unwrap().origin.uuid
}

/// Publishes a record of type 5000 + `kind` with a number.
fn publish(producer: &mut Producer, kind: u64, n: u64) -> bool {
    let kind = RecordType::new(5000 + kind as u32).unwrap();
    producer.publish_as(kind, &n.to_ne_bytes()).is_ok()
}

fn read(engine: &mut Engine, records: u64) {
    until(engine, "all is read", |engine| {
        engine.rings().map(|ring| ring.figures.records).sum::<u64>() == records
    });
}

fn totals(path: &Path) -> (u64, u64) {
    let totals = Stat::read(path.to_owned()).unwrap().totals.unwrap();
    (totals.tail, totals.head)
}

/// The losses of a ring that an output was told, by cause.
fn lost(output: &Scripted, ring: &str) -> BTreeMap<&'static str, u64> {
    let mut lost = BTreeMap::new();
    for reported in output.reported() {
        if let Reported::Lost(of, cause, records, bytes) = reported
            && of == ring
        {
            assert_eq!(bytes, 24 * records, "header, timestamp and payload");
            *lost.entry(cause).or_default() += records;
        }
    }
    lost
}

/// As the guide says: the number of a record.
fn number(uuid: [u8; 16], pos: u64) -> u64 {
    let [one, two] =
        [&uuid[..8], &uuid[8..]].map(|half| u64::from_le_bytes(half.try_into().unwrap()));
    let mut z = one ^ two.rotate_left(32) ^ pos.wrapping_mul(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    (z ^ (z >> 31)) >> 8
}

/// A rule of the model: the types of the records, and their fate.
#[derive(Clone, Debug)]
struct Plain {
    kinds: Vec<u64>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Keep,
    Drop,
    Sample(u32),
    /// So many in an hour: in a test that is over sooner, so many.
    Limit(u32),
}

fn plain() -> impl Strategy<Value = Plain> {
    let fate = prop_oneof![
        Just(Fate::Keep),
        Just(Fate::Drop),
        (1..99u32).prop_map(Fate::Sample),
        (1..60u32).prop_map(Fate::Limit),
    ];
    (prop::collection::vec(0..6u64, 0..3), fate).prop_map(|(kinds, fate)| Plain { kinds, fate })
}

fn written(rules: &[Plain]) -> String {
    let rule = |(nth, rule): (usize, &Plain)| {
        let types: Vec<String> =
            rule.kinds.iter().map(|kind| format!("{:?}", (5000 + kind).to_string())).collect();
        let fate = match rule.fate {
            Fate::Keep => "keep = true".to_owned(),
            Fate::Drop => "drop = true".to_owned(),
            Fate::Sample(percent) => format!("sample = {}", f64::from(percent) / 100.0),
            Fate::Limit(records) => format!("rate = \"{records}/1h\""),
        };
        format!("[[rule]]\nname = \"r{nth}\"\ntypes = [{}]\n{fate}\n", types.join(", "))
    };
    rules.iter().enumerate().map(rule).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn of_each_record_the_first_rule_that_it_meets_decides_and_counts(
        plain in prop::collection::vec(plain(), 0..5),
        kinds in prop::collection::vec(0..6u64, 1..400),
        rooms in prop::collection::vec((0..30usize, 0..40usize), 1..60),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut producer = ring(dir.path(), "one", Policy::Drop);
        let path = dir.path().join("one");
        // The second is always ready, and has no rules of its own.
        let (busy, ready) = (Scripted::ready(), Scripted::ready());
        busy.set(|script| script.prompt = false);
        let outputs = [("busy", Delivery::Required, &busy), ("ready", Delivery::Required, &ready)];
        let mut engine = engine(&outputs, rules(&written(&plain)));
        let uuid = attach(&mut engine, &path);
        let mut rooms = rooms.iter().cycle();
        for (n, kind) in kinds.iter().enumerate() {
            prop_assert!(publish(&mut producer, *kind, n as u64));
            if n % 7 == 0 {
                let (room, done) = rooms.next().unwrap();
                busy.set(|script| {
                    script.room = *room;
                    drop(script.held.drain(..(*done).min(script.held.len())));
                });
                engine.turn();
            }
        }
        busy.set(|script| {
            (script.room, script.prompt) = (usize::MAX, true);
            script.held.clear();
        });
        read(&mut engine, kinds.len() as u64);
        until(&mut engine, "it is level", |engine| engine.outputs().all(|output| !output.is_behind));
        prop_assert!(engine.close(Instant::now()).is_empty());

        let mut left: Vec<u32> = plain.iter().map(|rule| match rule.fate { Fate::Limit(n) => n, _ => 0 }).collect();
        let (mut kept, mut out) = (Vec::new(), vec![0u64; plain.len()]);
        let (mut counts, first) = (vec![(0u64, 0u64); plain.len()], 0u64);
        for (n, kind) in kinds.iter().enumerate() {
            let met = plain.iter().position(|rule| rule.kinds.is_empty() || rule.kinds.contains(kind));
            let keeps = met.is_none_or(|at| match plain[at].fate {
                Fate::Keep => true,
                Fate::Drop => false,
                Fate::Sample(percent) => {
                    let share = f64::from(percent) / 100.0;
                    let least = ((1.0 - share) * (1u64 << 56) as f64).round() as u64;
                    number(uuid, first + 24 * n as u64) >= least
                }
                Fate::Limit(_) => {
                    let keeps = left[at] > 0;
                    left[at] = left[at].saturating_sub(1);
                    keeps
                }
            });
            if keeps {
                kept.push(n as u64);
            }
            if let Some(at) = met {
                if keeps { counts[at].0 += 1 } else { counts[at].1 += 1 }
                out[at] += u64::from(!keeps);
            }
        }
        let expected: BTreeMap<String, u64> = out.iter().enumerate()
            .filter(|(_, records)| **records > 0)
            .map(|(nth, records)| (format!("rule r{nth}"), *records)).collect();
        for (output, status) in [&busy, &ready].into_iter().zip(engine.outputs()) {
            prop_assert_eq!(output.records(), kept.clone());
            let lost: BTreeMap<String, u64> = lost(output, "one").into_iter().map(|(cause, n)| (cause.to_owned(), n)).collect();
            prop_assert_eq!(&lost, &expected);
            let figures: Vec<_> = status.rules.iter().map(|rule| (rule.kept, rule.left_out)).collect();
            prop_assert_eq!(&figures, &counts);
        }
        let (tail, head) = totals(&path);
        prop_assert_eq!(tail, head, "what is left out is released like what is delivered");
    }
}

#[test]
fn what_a_rule_leaves_out_stays_in_its_ring_until_its_loss_is_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let drop_all = || rules("[[rule]]\nname = \"all\"\ndrop = true");
    for n in 0..100 {
        publish(&mut producer, 0, n);
    }
    // The first one dies before the loss is reported, the second before it is delivered.
    for reports in [false, true] {
        let output = Scripted::ready();
        output.set(|script| script.prompt = false);
        let mut engine = engine(&[("output", Delivery::Required, &output)], drop_all());
        attach(&mut engine, &path);
        read(&mut engine, 100);
        if reports {
            until(&mut engine, "the loss is reported", |_| output.lost("rule all") == 100);
        }
        output.set(|script| {
            // All that precedes the loss is delivered.
            let last = if reports { script.held.pop() } else { None };
            script.held = last.into_iter().collect();
        });
        for _ in 0..20 {
            engine.turn();
        }
        assert_eq!(totals(&path).0, 0);
        assert!(!engine.is_settled());
    }
    let output = Scripted::ready();
    let mut engine = engine(&[("output", Delivery::Required, &output)], drop_all());
    attach(&mut engine, &path);
    until(&mut engine, "the loss is delivered", |engine| {
        output.lost("rule all") == 100 && engine.is_settled()
    });
    let (tail, head) = totals(&path);
    assert_eq!((tail, output.records().len()), (head, 0));
}

#[test]
fn a_ring_that_fills_up_has_what_rules_left_out_of_it_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let output = Scripted::ready();
    let all = rules("[[rule]]\nname = \"all\"\ndrop = true");
    let mut engine = engine(&[("output", Delivery::Required, &output)], all);
    attach(&mut engine, &dir.path().join("one"));
    let (mut written, mut full) = (0, 0);
    // A ring of 64 KiB 146 times over. Each time takes a few turns; with the interval of a second alone, a thousand.
    while written < 400_000 {
        if publish(&mut producer, 0, written) {
            written += 1;
        } else {
            full += 1;
            if engine.turn() != Turn::More {
                engine.wait(DELAY);
            }
        }
        assert!(full < 146 * 50, "{full} turns beside a full ring");
    }
    read(&mut engine, written);
    engine.close(Instant::now());
    let reported = output.reported().len();
    eprintln!("full {full} times, {reported} events");
    assert_eq!((output.lost("rule all"), output.lost("full")), (written, full));
    assert_eq!(engine.rings().map(|ring| ring.lag).sum::<u64>(), 0);
}

#[test]
fn the_end_of_a_ring_comes_after_what_rules_left_out_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (required, loose) = (Scripted::ready(), Scripted::ready());
    let all = rules("[[rule]]\nname = \"all\"\ndrop = true");
    let outputs =
        [("required", Delivery::Required, &required), ("loose", Delivery::BestEffort, &loose)];
    let mut engine = engine(&outputs, all);
    let uuid = attach(&mut engine, &path);
    (0..50).for_each(|n| assert!(publish(&mut producer, 0, n)));
    drop(producer);
    std::fs::remove_file(&path).unwrap();
    engine.file_removed(&uuid);
    until(&mut engine, "it is released", |engine| engine.rings().count() == 0);
    for output in [&required, &loose] {
        let bytes = 50 * 24;
        let expected = [
            Reported::Began("one".into()),
            Reported::Lost("one".into(), "rule all", 50, bytes),
            Reported::Ended("one".into()),
        ];
        assert_eq!(output.reported(), expected);
    }
}

#[test]
fn a_reload_goes_on_with_the_figures_of_rules_that_stay_and_reports_those_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let output = Scripted::ready();
    let limit = "[[rule]]\nname = \"limit\"\ntypes = [\"5000\"]\nrate = \"3/1h\"\n";
    let odd = "[[rule]]\nname = \"odd\"\ntypes = [\"5001\"]\ndrop = true\n";
    let mut engine =
        engine(&[("output", Delivery::Required, &output)], rules(&format!("{odd}{limit}")));
    attach(&mut engine, &dir.path().join("one"));
    (0..10).for_each(|n| assert!(publish(&mut producer, n % 2, n)));
    read(&mut engine, 10);
    engine.set_record_rules(rules(limit));
    assert_eq!((output.lost("rule odd"), output.lost("rule limit")), (5, 2));
    (10..20).for_each(|n| assert!(publish(&mut producer, n % 2, n)));
    read(&mut engine, 20);
    engine.close(Instant::now());
    assert_eq!(output.records(), [0, 2, 4, 11, 13, 15, 17, 19]);
    assert_eq!((output.lost("rule odd"), output.lost("rule limit")), (5, 7));
    let status = engine.outputs().next().unwrap().rules;
    assert_eq!((status[0].name, status[0].kept, status[0].left_out), ("limit", 3, 7));
}

#[test]
fn all_records_of_a_trace_are_kept_or_none_whichever_output_and_process_decides() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one");
    let sink = Sink::create(&path, &options(), Resource::here()).unwrap();
    let trace = |n: u64| {
        let mut id = [0; 16];
        let n = n + 1; // all zeros are no trace's
        id[..8].copy_from_slice(&n.to_le_bytes());
        // The last seven bytes decide.
        id[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        TraceId(id)
    };
    for nth in 0..2000u64 {
        let (trace_id, span_id) = (Some(trace(nth % 500)), Some(SpanId([1; 8])));
        let severity = Some(if nth % 100 == 99 { Severity::Error } else { Severity::Debug });
        let log = Log { trace_id, span_id, severity, body: "x".into(), ..Log::default() };
        sink.emit(&log).unwrap();
    }
    let text = "[[rule]]\nname = \"errors\"\nwhere = [\"severity_number>=17\"]\nkeep = true\n\
                [[rule]]\nname = \"traces\"\ntypes = [\"perfring.Log\"]\nsample = 0.2\nby = \"trace_id\"\n";
    let mut all = Vec::new();
    for _ in 0..2 {
        let outputs = [Scripted::ready(), Scripted::ready()];
        let [one, two] = &outputs;
        let outputs_of = [("one", Delivery::Required, one), ("two", Delivery::Required, two)];
        let mut engine = engine(&outputs_of, rules(text));
        attach(&mut engine, &path);
        until(&mut engine, "all is read", |engine| {
            engine.rings().all(|ring| ring.figures.records >= 2001)
        });
        engine.close(Instant::now());
        for (output, status) in outputs.iter().zip(engine.outputs()) {
            assert_eq!((status.rules[0].kept, status.rules[0].left_out), (20, 0));
            assert_eq!(status.rules[1].kept + status.rules[1].left_out, 1980);
            assert_eq!(output.lost("rule traces"), status.rules[1].left_out);
            let places: Vec<u64> = output
                .reported()
                .iter()
                .filter_map(|reported| match reported {
                    Reported::Record(_, pos, _) => Some(*pos),
                    _ => None,
                })
                .collect();
            all.push((places, status.rules[1].kept));
        }
    }
    let least = ((1.0 - 0.2) * (1u64 << 56) as f64).round() as u64;
    let kept = |nth: &u64| {
        let id = u128::from_be_bytes(trace(nth % 500).0);
        nth % 100 != 99 && id as u64 & (u64::MAX >> 8) >= least
    };
    let expected = (0..2000).filter(kept).count() as u64;
    assert!(expected > 200 && expected < 600, "{expected}");
    assert!(
        all.iter().all(|(places, kept)| places == &all[0].0 && *kept == expected),
        "{expected}"
    );
}
