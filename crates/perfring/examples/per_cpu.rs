//! Many processes, one directory: each publishes from four threads into the ring of the CPU that they run on, and
//! one program reads all of it in the order of time.
//!
//! ```sh
//! run() { cargo run -q -p perfring --features set --example per_cpu -- "$@"; }
//! for worker in 1 2 3; do run write /dev/shm/work $worker & done; wait
//! run read /dev/shm/work
//! ```

use perfring::bytemuck::{Pod, Zeroable};
use perfring::set::{DirEvent, Merge};
use perfring::{CpuProducer, Options, Record};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::Duration;

/// A step that a worker's thread has done.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[bytemuck(crate = "perfring::bytemuck")]
#[record(name = "work.Step")]
struct Step {
    worker: u32,
    thread: u32,
    number: u64,
}

/// Publishes a thousand steps from each of four threads. No thread waits for another.
pub fn write(dir: &Path, worker: u32) -> Result<(), Box<dyn Error>> {
    let options = Options { time: true, ..Options::per_cpu() };
    // An error names what is missing where there are no restartable sequences, and what to use instead.
    let producer = CpuProducer::open_or_create(dir, &options)?;
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let producer = &producer;
            threads.spawn(move || {
                for number in 1..=1000 {
                    // A full ring refuses it, counts that, and reports it to the reader.
                    let _ = producer.publish_pod(&Step { worker, thread, number });
                }
            });
        }
    });
    Ok(())
}

/// Prints how many steps each worker did, and what was lost, once nothing has come for a second.
pub fn read(dir: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut steps = BTreeMap::<u32, u64>::new();
    let mut merge = Merge::follow(dir)?;
    while merge.wait(Duration::from_secs(1)) {
        while let Some(item) = merge.read() {
            match &item.event {
                DirEvent::Record(record) => {
                    *steps.entry(record.as_pod::<Step>()?.worker).or_default() += 1;
                }
                _ => writeln!(out, "{item}")?,
            }
        }
        merge.acknowledge();
    }
    for (worker, steps) in steps {
        writeln!(out, "worker {worker}: {steps} steps")?;
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir, worker] => write(Path::new(dir), worker.parse()?),
        ["read", dir] => read(Path::new(dir), &mut stdout()),
        _ => Err("usage: per_cpu write DIR WORKER, or per_cpu read DIR".into()),
    }
}
