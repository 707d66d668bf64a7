//! What an event costs: beside `tracing_subscriber::fmt` to nowhere, and beside a bare publish of as
//! many bytes.
//!
//! `cargo run --release -p perfring-tracing --example cost`
//!
//! One thread. The subscribers take turns, and of each the best of many short runs counts: so other
//! work of the machine affects none of them.

use perfring_consumer::{Item, Observer, Start};
use perfring_producer::SharedProducer;
use perfring_tracing::{PerfringLayer, options};
use std::hint::black_box;
use std::time::Instant;
use tracing::{Dispatch, info, info_span};
use tracing_subscriber::prelude::*;

const RUNS: usize = 60;
const EVENTS: u32 = 20_000;

fn plain() {
    info!("something happened");
}

fn fields() {
    info!(
        user = black_box(42u64),
        ratio = black_box(0.5),
        ok = black_box(true),
        "something happened"
    );
}

fn text() {
    info!(path = black_box("/var/lib/shop/orders/2026/07/18.json"), "something happened");
}

fn formatted() {
    info!(list = ?black_box([1u64, 2, 3]), "{} happened", black_box("something"));
}

fn span() {
    let _span = info_span!("request", user = black_box(42u64)).entered();
}

/// ns for each call.
fn time(act: impl Fn()) -> f64 {
    let since = Instant::now();
    (0..EVENTS).for_each(|_| act());
    since.elapsed().as_nanos() as f64 / f64::from(EVENTS)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("perfring-cost-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let (rings, bare) = (dir.join("layer"), dir.join("bare"));
    let layer = PerfringLayer::create(&rings, &options())?;
    let ours = Dispatch::new(tracing_subscriber::registry().with(layer));
    let fmt = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_ansi(false);
    let fmt = Dispatch::new(tracing_subscriber::registry().with(fmt));
    let none = Dispatch::new(tracing_subscriber::registry());
    let producer = SharedProducer::create(&bare, &options())?;

    let cases: [(&str, fn()); 5] = [
        ("message alone", plain),
        ("and three fields", fields),
        ("and a text", text),
        ("two formatted values", formatted),
        ("span: new, enter, exit, close", span),
    ];
    println!(
        "{:32} {:>6} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}",
        "ns, best of runs", "bytes", "layer", "fmt", "nobody", "publish", "of fmt", "of publish"
    );
    for (name, case) in cases {
        let bytes = bytes_of(&rings, &ours, case)?;
        let payload = vec![0u8; bytes];
        let mut best = [f64::MAX; 4];
        for _ in 0..RUNS {
            let round = [
                tracing::dispatcher::with_default(&ours, || time(case)),
                tracing::dispatcher::with_default(&fmt, || time(case)),
                tracing::dispatcher::with_default(&none, || time(case)),
                time(|| {
                    let _ = producer.publish(black_box(&payload));
                }),
            ];
            best.iter_mut().zip(round).for_each(|(best, now)| *best = best.min(now));
        }
        let [layer, fmt, nobody, publish] = best;
        let (of_fmt, of_publish) = (layer / fmt, layer / publish);
        println!(
            "{name:32} {bytes:6} {layer:9.1} {fmt:9.1} {nobody:9.1} {publish:9.1} {of_fmt:7.2} {of_publish:7.1}"
        );
    }
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

/// Bytes of payload that one call makes.
fn bytes_of(
    ring: &std::path::Path,
    dispatch: &Dispatch,
    case: fn(),
) -> Result<usize, Box<dyn std::error::Error>> {
    let mut observer = Observer::attach(ring, Start::Latest)?;
    tracing::dispatcher::with_default(dispatch, case);
    let mut bytes = 0;
    while let Some(item) = observer.read()? {
        if let Item::Record(record) = item {
            bytes += record.bytes.len();
        }
    }
    Ok(bytes)
}
