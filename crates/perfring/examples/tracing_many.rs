//! Eight processes log through `tracing` into one directory, one of them panics, and a reader prints all
//! in the order of time.
//!
//! ```sh
//! cargo run -p perfring --features set,tracing --example tracing_many -- /dev/shm/shop
//! ```

use perfring::set::{DirEvent, Merge, RingSet};
use perfring::tracing::{PerfringLayer, Resource, Sink, options};
use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

/// One process: logs into a ring of its own, and panics if it is the fifth.
#[allow(clippy::panic, reason = "one of them panics")]
pub fn work(dir: &Path, number: u64) -> Result<(), Box<dyn Error>> {
    let name = format!("worker-{number}");
    let path = RingSet::open(dir)?.ring_path(&name, &options())?;
    let resource = Resource::here().with("service.name", "shop");
    let layer = PerfringLayer::new(Sink::attach(path, resource)?);
    layer.panic_hook();
    tracing_subscriber::registry().with(layer).init();
    for order in 1..=3u64 {
        let _span = info_span!("serve", order).entered();
        info!(order, "taken");
        if (number, order) == (5, 2) {
            panic!("the oven of worker {number} is on fire");
        }
        info!(price = 250 * order, "paid");
    }
    Ok(())
}

/// Starts eight of them, waits until they have ended, and prints what they have logged.
pub fn run(
    dir: &Path,
    command: impl Fn(u64) -> Command,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let children: Result<Vec<_>, _> = (1..=8).map(|number| command(number).spawn()).collect();
    for mut child in children? {
        child.wait()?;
    }
    let mut merge = Merge::follow(dir)?; // could as well read while they work
    while merge.wait(Duration::from_millis(500)) {
        while let Some(item) = merge.read() {
            let DirEvent::Record(_) = item.event else { continue };
            let Some(log) = item.decode().transpose()? else { continue };
            // Spans and resources have no body.
            let (Some(severity), Some(body)) = (log.get("severity_text"), log.get("body")) else {
                continue;
            };
            let (wall, name) = (item.wall().unwrap_or_default(), item.ring);
            let (seconds, ns) = (wall / 1_000_000_000, wall % 1_000_000_000);
            writeln!(out, "{seconds}.{ns:09} {name} {severity} {body}")?;
        }
        merge.acknowledge();
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [dir] => {
            let program = std::env::current_exe()?;
            let command = |number: u64| {
                let mut command = Command::new(&program);
                command.args([dir, &number.to_string()]);
                command
            };
            run(Path::new(dir), command, &mut stdout())
        }
        [dir, number] => work(Path::new(dir), number.parse()?),
        _ => Err("usage: tracing_many DIR".into()),
    }
}
