//! What a measurement costs: an instrument of a metrics area beside the Prometheus exporter's recorder and an atomic addition.
//!
//! `cargo run --release --example metrics`, in this directory. One thread; the contestants take turns in each of five rounds, and each
//! figure is the median of the rounds, with their range. Every total is read back and compared.

use metrics::{Key, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use perfring_consumer::{Observer, Start, metrics::MetricValue};
use perfring_telemetry::Resource;
use perfring_telemetry::meter::{Instrument, Meter, options};
use perfring_telemetry::metrics::MeterRecorder;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const ROUNDS: usize = 5;
const RUNS: usize = 40;
const CALLS: u32 = 20_000;

/// ns a call: the best of many short runs, so that other work of the machine affects none of them.
fn best(mut act: impl FnMut(u32)) -> f64 {
    let run = |act: &mut dyn FnMut(u32)| {
        let since = Instant::now();
        (0..CALLS).for_each(|number| act(black_box(number)));
        since.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..RUNS).map(|_| run(&mut act)).fold(f64::MAX, f64::min)
}

/// A call of a contestant.
type Call<'a> = (&'a str, Box<dyn FnMut(u32) + 'a>);

/// Measures contestants in turns, and shows each as a ratio to the last but one.
fn show(what: &str, calls: &mut [Call<'_>], unit: usize) {
    let mut all = vec![Vec::new(); calls.len()];
    for _ in 0..ROUNDS {
        for ((_, call), times) in calls.iter_mut().zip(&mut all) {
            times.push(best(call));
        }
    }
    println!("{what}");
    let ratios = |at: usize| {
        let mut ratios: Vec<f64> = all[at].iter().zip(&all[unit]).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        (ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1])
    };
    for (at, (name, _)) in calls.iter().enumerate() {
        let mut times = all[at].clone();
        times.sort_by(f64::total_cmp);
        let (median, least, most) = ratios(at);
        println!(
            "  {name:44} {:7.2} ns ({:.2} to {:.2})   {median:5.2} ({least:.2} to {most:.2})",
            times[ROUNDS / 2],
            times[0],
            times[ROUNDS - 1]
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let path = dir.path().join("ring");
    let meter = Meter::open_or_create(&path, &options(), Resource::here())?;
    let recorder = MeterRecorder::new(meter.clone());
    let exporter = PrometheusBuilder::new().build_recorder();
    let metadata = Metadata::new("compare", Level::INFO, None);
    let of = |name: &'static str| Key::from_name(name);

    let counter = meter.counter::<u64>(&Instrument::new("counter"))?;
    let held = recorder.register_counter(&of("held"), &metadata);
    let theirs = exporter.register_counter(&of("theirs"), &metadata);
    let atomic = AtomicU64::new(0);
    show(
        "a counter's increment, held handle; ratio to the exporter's",
        &mut [
            (
                "an atomic addition",
                Box::new(|_| {
                    atomic.fetch_add(1, Ordering::Relaxed);
                }),
            ),
            ("Prometheus exporter's recorder", Box::new(|_| theirs.increment(1))),
            ("meter::Counter", Box::new(|_| counter.add(1))),
            ("the metrics crate's handle of MeterRecorder", Box::new(|_| held.increment(1))),
        ],
        1,
    );
    let histogram = meter.histogram(&Instrument::new("histogram"))?;
    let held_histogram = recorder.register_histogram(&of("held histogram"), &metadata);
    let their_histogram = exporter.register_histogram(&of("their histogram"), &metadata);
    let handle = exporter.handle();
    let value = |number: u32| 0.001 * f64::from(number % 997 + 1);
    show(
        "a histogram's measurement, held handle; ratio to the exporter's",
        &mut [
            (
                "Prometheus exporter's recorder",
                Box::new(|number| {
                    their_histogram.record(value(number));
                    // Its measurements wait in memory until they are rendered, or this is called.
                    if number == CALLS - 1 {
                        handle.run_upkeep();
                    }
                }),
            ),
            ("meter::Histogram", Box::new(|number| histogram.record(value(number)))),
            (
                "the metrics crate's handle of MeterRecorder",
                Box::new(|number| held_histogram.record(value(number))),
            ),
        ],
        0,
    );

    let calls = (ROUNDS * RUNS) as u64 * u64::from(CALLS);
    for sample in Observer::attach(&path, Start::Latest)?.metrics()?.samples {
        let count = match &sample.value {
            MetricValue::U64(count) => *count,
            MetricValue::Histogram { counts, zeros, .. } => counts.iter().sum::<u64>() + zeros,
            _ => continue,
        };
        assert_eq!(count, calls, "{sample:?}");
    }
    println!("every total is {calls}, the number of calls");
    Ok(())
}
