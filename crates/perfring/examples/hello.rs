//! Two processes: one publishes the lines of its input, the other prints them as they come.
//!
//! ```sh
//! run() { cargo run -q -p perfring --example hello -- "$@"; }
//! run read /dev/shm/hello &        # waits for the ring, then for records
//! echo world | run write /dev/shm/hello
//! ```

use perfring::{Consumer, ConsumerOptions, Item, Options, Producer};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::Duration;

/// Publishes each line as a record. What a full ring refuses is counted in it, and reported to the reader.
pub fn write(ring: &Path, input: impl BufRead) -> Result<(), Box<dyn Error>> {
    let mut producer = Producer::open_or_create(ring, &Options::default())?;
    for line in input.lines() {
        let _ = producer.publish(line?.as_bytes());
    }
    Ok(())
}

/// Prints what comes, until nothing does for a second.
pub fn read(ring: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let patience = Duration::from_secs(10);
    let mut consumer = Consumer::attach_when_there(ring, &ConsumerOptions::default(), patience)?;
    while consumer.wait(Duration::from_secs(1)) {
        while let Some(item) = consumer.read()? {
            match item {
                Item::Record(record) => {
                    writeln!(out, "hello, {}", String::from_utf8_lossy(record.bytes))?;
                }
                Item::Lost(lost) => writeln!(out, "{lost}")?,
            }
        }
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", ring] => write(Path::new(ring), stdin().lock()),
        ["read", ring] => read(Path::new(ring), &mut stdout()),
        _ => Err("usage: hello write|read RING".into()),
    }
}
