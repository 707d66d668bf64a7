//! Opens rings, and makes missing rings.
//!
//! `opener one|many DIR` says `ready`. For each line, the name of a ring in the directory, it calls
//! `open_or_create` and says the ring's id and the producer's slot, or `busy`. It keeps the producer until
//! the next line; an empty line only ends the producer.

use perfring_producer::{AttachError, OpenError, Options, Producer, SharedProducer};
use std::io::{BufRead, Write};
use std::path::Path;

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, dir] = &args[..] else { return Err(format!("unknown arguments: {args:?}").into()) };
    let (mut one, mut many) = (None, None);
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        drop((one.take(), many.take()));
        let path = Path::new(dir).join(&line);
        let options = Options { size: 1 << 16, types_size: 0, ..Options::default() };
        let opened = match &kind[..] {
            _ if line.is_empty() => continue,
            "one" => Producer::open_or_create(&path, &options)
                .map(|producer| (one.insert(producer).layout().uuid, 0)),
            _ => SharedProducer::open_or_create(&path, &options)
                .map(|producer| (producer.layout().uuid, many.insert(producer).slot())),
        };
        match opened {
            Ok((uuid, slot)) => say(&format!("{:032x} {slot}", u128::from_be_bytes(uuid)))?,
            Err(OpenError::Attach(AttachError::Busy { .. })) => say("busy")?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
