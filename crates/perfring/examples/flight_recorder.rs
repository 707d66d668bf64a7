//! Typed events in a flight recorder and metrics in a drop ring; a second program reads both in the order
//! of time, and the last ten events after `kill -9`.
//!
//! ```sh
//! run() { cargo run -q -p perfring --features set --example flight_recorder -- "$@"; }
//! yes | run write /dev/shm/shop & # an order for each line, until it is killed
//! run read /dev/shm/shop          # all that comes, until there is nothing for a second
//! kill -9 %1                      # or what is left of it
//! run last /dev/shm/shop
//! ```

use perfring::bytemuck::{Pod, Zeroable};
use perfring::set::{Merge, RingSet};
use perfring::{Item, Options, Policy, Record, Snapshot};
use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::Duration;

/// An order was taken.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[bytemuck(crate = "perfring::bytemuck")]
#[record(name = "shop.Order")]
struct Order {
    id: u64,
    #[record(unit = "ct")]
    price: u64,
}

/// How much there is to do.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[bytemuck(crate = "perfring::bytemuck")]
#[record(name = "shop.Queue")]
struct Queue {
    depth: u64,
}

/// Publishes an event for each line of input, and a metric for each fourth, and prints its number.
pub fn write(dir: &Path, input: impl BufRead, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let set = RingSet::open(dir)?;
    let recorder = Options { policy: Policy::Overwrite, size: 1 << 16, ..Options::default() };
    let mut events = set.producer_with("events", &recorder)?; // never full: the oldest events go
    let mut metrics = set.producer("metrics")?; // waits for its reader, and counts what does not fit
    for (line, id) in input.lines().zip(1..) {
        line?;
        events.publish_pod(&Order { id, price: 250 * id })?;
        if id % 4 == 0 {
            let _ = metrics.publish_pod(&Queue { depth: id / 4 }); // if it is full, it has counted that
        }
        writeln!(out, "{id}")?;
    }
    Ok(())
}

/// Prints what is in both rings, and what comes, in the order of time.
pub fn read(dir: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut merge = Merge::follow(dir)?;
    while merge.wait(Duration::from_secs(1)) {
        while let Some(item) = merge.read() {
            writeln!(out, "{item}")?; // or `item.wall()`, `item.decode()`, `record.as_pod::<Order>()`
        }
        merge.acknowledge(); // the metrics' ring has room again; the events stay where they are
    }
    Ok(())
}

/// Prints the last ten events, whatever became of the program.
pub fn last(dir: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let snapshot = Snapshot::take(dir.join("events"))?;
    let mut orders = VecDeque::new();
    for item in &snapshot {
        let Item::Record(record) = item? else { continue };
        orders.extend(record.as_pod::<Order>());
        orders.drain(..orders.len().saturating_sub(10));
    }
    for Order { id, price } in orders {
        writeln!(out, "order {id}: {price} ct")?;
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir] => write(Path::new(dir), stdin().lock(), &mut stdout()),
        ["read", dir] => read(Path::new(dir), &mut stdout()),
        ["last", dir] => last(Path::new(dir), &mut stdout()),
        _ => Err("usage: flight_recorder write|read|last DIR".into()),
    }
}
