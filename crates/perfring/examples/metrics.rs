//! Counters, gauges and histograms of the crate `metrics`, in a ring that an operator watches.
//!
//! ```sh
//! run() { cargo run -q -p perfring --features metrics,set --example metrics -- "$@"; }
//! run read /dev/shm/shop &       # or `perfring sidecar /dev/shm/shop --output prometheus:127.0.0.1:9464`
//! seq 5 | run write /dev/shm/shop
//! ```

use metrics::{Unit, counter, describe_histogram, gauge, histogram};
use perfring::set::{DirEvent, Merge};
use perfring::telemetry::metrics::RingRecorder;
use perfring::telemetry::{Resource, Sink, options};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::Duration;

/// Records metrics of an order for each line. A program would call `metrics::set_global_recorder` once.
pub fn write(dir: &Path, input: impl BufRead) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(dir)?;
    let sink = Sink::create(dir.join("metrics"), &options(), Resource::here())?;
    metrics::with_local_recorder(&RingRecorder::new(sink), || {
        describe_histogram!("shop.price", Unit::Count, "what an order costs, in cents");
        for line in input.lines() {
            let price = line?.trim().parse::<u32>()?;
            counter!("shop.orders", "paid" => "card").increment(1);
            gauge!("shop.last").set(price);
            histogram!("shop.price").record(price);
        }
        Ok(())
    })
}

/// Prints each sample as it comes, until nothing does for a second.
pub fn read(dir: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut merge = Merge::follow(dir)?;
    while merge.wait(Duration::from_secs(1)) {
        while let Some(item) = merge.read() {
            match item.event {
                DirEvent::Record(_) => {
                    // Its type has the instrument's name, unit, description and labels.
                    let name = item.record_type().map_or("?", |kind| &kind.name);
                    let Some(fields) = item.decode().transpose()? else { continue };
                    writeln!(out, "{name} {fields}")?;
                }
                _ => writeln!(out, "{item}")?, // a loss, a ring that is gone
            }
        }
        merge.acknowledge();
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir] => write(Path::new(dir), stdin().lock()),
        ["read", dir] => read(Path::new(dir), &mut stdout()),
        _ => Err("usage: metrics write|read DIR".into()),
    }
}
