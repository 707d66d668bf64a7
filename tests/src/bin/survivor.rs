//! Producers at full speed in a guest that is about to die.
//!
//! `survivor flood RING COUNT SYNC AFTER` makes a ring, starts so many producers, says `PRODUCING` once `AFTER` records were
//! written, and crashes its kernel when a line comes. With `SYNC` 1, the file system knows all of the ring's blocks before the
//! first record.
//! `survivor produce WHO RING` publishes until it dies.

use perfring_consumer::stat::Stat;
use perfring_producer::{Options, Policy, SharedProducer};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::until;
use perfring_tests::NUMBERED;
use perfring_tests::shared::said;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["flood", ring, count, sync, after] => {
            flood(Path::new(ring), count.parse()?, sync == "1", after.parse()?)
        }
        ["produce", who, ring] => produce(who.parse()?, ring),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

fn flood(ring: &Path, count: u64, sync: bool, after: u64) -> Outcome {
    let options =
        Options { policy: Policy::Overwrite, size: 256 << 10, time: true, ..Options::many() };
    drop(SharedProducer::create(ring, &options)?);
    if sync {
        // Blocks that were never written are zeros to a file system whose journal is cut off.
        let bytes = fs::read(ring)?;
        let mut file = File::options().write(true).open(ring)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        File::open(ring.parent().unwrap_or(ring))?.sync_all()?;
    }
    for who in 0..count {
        let ring = ring.to_str().ok_or("a path in UTF-8")?;
        Command::new(std::env::current_exe()?).args(["produce", &who.to_string(), ring]).spawn()?;
    }
    let written = || Some(Stat::read(ring).ok()?.totals?.producer.written.records);
    until("the first records", || written() >= Some(after));
    println!("PRODUCING");
    io::stdin().read_line(&mut String::new())?;
    Ok(fs::write("/proc/sysrq-trigger", "c")?)
}

fn produce(who: u64, ring: &str) -> Outcome {
    let producer = SharedProducer::attach_as(ring, "survivor")?;
    let mut rng = Rng::new(who);
    let mut seq = 0;
    loop {
        let payload = said(who, seq, 8 + rng.below(400) as usize);
        // Refused while an open reservation of another producer is a turn old.
        if producer.publish_as(NUMBERED, &payload).is_ok() {
            seq += 1;
        }
    }
}
