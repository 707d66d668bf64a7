//! `perfring_metrics.h` finds the same values in a metrics area as Rust, in every build, and in areas of any words.

use perfring_consumer::{
    Observer, Start,
    metrics::{MetricKind, MetricValue},
};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{
    Options,
    files::create,
    metrics::{Buckets, Metrics},
};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::{cases, workspace};
use perfring_tests::foreign::{Build, c_program};
use perfring_tests::ring_dir;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

fn fill(ring: &Path) {
    let options = Options { size: 4096, metrics_size: 64 << 10, ..Options::many() };
    create(ring, &options).unwrap();
    let metrics = Metrics::attach(ring).unwrap();
    let schema = |name| Schema::new(name, Encoding::Tagged).with_hashed_id();
    let take = |name, kind, stripes| metrics.register(&schema(name), kind, stripes).unwrap();
    take("a", MetricKind::CounterU64, 4).add(7);
    take("b", MetricKind::CounterF64, 1).add_f64(0.5);
    take("c", MetricKind::UpDownI64, 2).add((-3i64).cast_unsigned());
    take("d", MetricKind::UpDownF64, 1).add_f64(-0.25);
    take("e", MetricKind::GaugeI64, 1).set((-1i64).cast_unsigned());
    take("f", MetricKind::GaugeF64, 1).set(1.5f64.to_bits());
    take("g", MetricKind::GaugeF64, 1);
    let buckets = Buckets::new(2, -4, 4).unwrap();
    let histogram = take("h", MetricKind::Histogram(buckets), 2);
    for value in [0.0, 0.25, 1.0, 1.5, 100.0, -1.0] {
        histogram.record(buckets, value);
    }
    let record = metrics.with_description(schema("i"), || b"some bytes".to_vec());
    drop(record.unwrap());
}

/// Returns the expected output of the C program.
fn expected(ring: &Path) -> String {
    let metrics = Observer::attach(ring, Start::Latest).unwrap().metrics().unwrap();
    let mut text = String::new();
    for sample in &metrics.samples {
        let (kind, id, pid) = (sample.metric.code(), sample.kind.get(), sample.pid);
        write!(text, "{} {id} {kind} {pid} ", sample.at).unwrap();
        match &sample.value {
            MetricValue::U64(value) => write!(text, "{value}").unwrap(),
            MetricValue::I64(value) => write!(text, "{value}").unwrap(),
            MetricValue::F64(value) => write!(text, "{value:.3}").unwrap(),
            MetricValue::Record(_) => text.push_str("record"),
            MetricValue::Histogram { buckets, counts, zeros, sum, range, refused } => {
                let count = counts.iter().fold(*zeros, |sum, count| sum.wrapping_add(*count));
                write!(text, "{count} {zeros} {refused} {sum:.3}").unwrap();
                if let Some((least, greatest)) = range {
                    write!(text, " {least:.3} {greatest:.3}").unwrap();
                }
                for (at, count) in (buckets.first()..).zip(counts).filter(|(_, count)| **count > 0)
                {
                    write!(text, " {at}:{count}").unwrap();
                }
            }
        }
        text.push('\n');
    }
    text.push_str(if metrics.fill.damage.is_some() { "damaged\n" } else { "end\n" });
    text
}

fn said(exe: &Path, ring: &Path) -> String {
    let output = Command::new(exe).arg(ring).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn c_finds_what_rust_finds_in_a_metrics_area() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    fill(&ring);
    let expected = expected(&ring);
    assert_eq!(expected.lines().count(), 9, "eight that were set, and the end: {expected}");
    let mut builds = 0;
    for build in Build::ALL {
        let Some(exe) = c_program(build, "tests/foreign/c_metrics.c", dir.path()) else { continue };
        // Rust leaves out a gauge that was never set.
        let said: String = said(&exe, &ring).lines().filter(|line| !line.ends_with("unset")).fold(
            String::new(),
            |mut all, line| {
                all += line;
                all.push('\n');
                all
            },
        );
        assert_eq!(said, expected, "{build:?}");
        builds += 1;
    }
    assert!(builds > 0, "a C compiler: install gcc");
}

#[test]
fn c_finds_what_is_described_of_the_golden_metrics_area() {
    let dir = ring_dir();
    let golden = workspace().join("proto/golden/metrics.perfring");
    let exe = c_program(Build::Sanitized, "tests/foreign/c_metrics.c", dir.path());
    let exe = exe.expect("a C compiler: install gcc");
    let said: Vec<String> = said(&exe, &golden).lines().map(str::to_owned).collect();
    let text = std::fs::read_to_string(golden.with_extension("expect.json")).unwrap();
    let expect: serde_json::Value = serde_json::from_str(&text).unwrap();
    let wanted: Vec<&serde_json::Value> =
        expect["metrics"]["samples"].as_array().unwrap().iter().collect();
    let shown: Vec<&String> = said.iter().filter(|line| !line.ends_with("unset")).collect();
    assert_eq!(shown.len(), wanted.len() + 1, "and the end: {said:?}");
    for (line, sample) in shown.iter().zip(wanted) {
        let cells: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| cells[at].parse::<u64>().unwrap();
        assert_eq!(
            [number(0), number(1), number(3)].map(serde_json::Value::from),
            [&sample["at"], &sample["type"], &sample["pid"]].map(Clone::clone),
            "{line}"
        );
        match &sample["value"] {
            serde_json::Value::Number(value) => {
                let shown: f64 = cells[4].parse().unwrap();
                assert_eq!(Some(shown), value.as_f64(), "{line}");
            }
            of if of["record"].is_string() => assert_eq!(cells[4], "record"),
            of => assert_eq!(
                cells[4..],
                [
                    "5",
                    &of["zeros"].to_string(),
                    &of["refused"].to_string(),
                    "1000000006.500",
                    "0.000",
                    "1000000000.000",
                    "-5:1",
                    "6:2",
                    "15:1"
                ]
            ),
        }
    }
    assert_eq!(said.last().unwrap(), "end");
}

#[test]
fn no_damaged_area_leads_c_or_rust_out_of_its_bounds() {
    let dir = ring_dir();
    let (ring, damaged) = (dir.path().join("ring"), dir.path().join("damaged"));
    fill(&ring);
    let exe = c_program(Build::Sanitized, "tests/foreign/c_metrics.c", dir.path());
    let exe = exe.expect("a C compiler: install gcc");
    let image = std::fs::read(&ring).unwrap();
    let begin = image.len() - (64 << 10);
    let end = begin + 8192;
    let mut rng = Rng::from_env();
    for case in 0..cases(60, 3000) {
        let mut other = image.clone();
        // Chance decides whether a few random words damage the frame of a block. These cases always do.
        let certain: &[(usize, u64)] = match case {
            0 => &[(begin + 64 + 8, u64::MAX)], // a block's size
            1 => &[(begin, 72)],                // the end of the last block
            2 => &[(begin, 1 << 40)],
            _ => &[],
        };
        for (at, value) in certain {
            other[*at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let words = if certain.is_empty() { 1 + rng.below(3) } else { 0 };
        for _ in 0..words {
            let at = begin + 8 * rng.index((end - begin) / 8);
            let value = match rng.below(4) {
                0 => rng.any(),
                1 => rng.below(1 << 16),
                2 => u64::MAX,
                _ => 64 * rng.below(64),
            };
            other[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        std::fs::write(&damaged, &other).unwrap();
        let (rust, c) = (expected(&damaged), said(&exe, &damaged));
        assert!(certain.is_empty() || rust.ends_with("damaged\n"), "{case}: {rust}");
        // The same blocks: C shows NaN differently.
        let blocks = |text: &str| -> Vec<String> {
            let shown = text.lines().filter(|line| !line.ends_with("unset"));
            shown.map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(blocks(&rust), blocks(&c), "{rust}\n{c}");
    }
}
