//! A producer in C and a reader in Rust that knows none of its types: the ring says what its records are.
//!
//! ```sh
//! cc -std=c11 -O2 -Iproto proto/examples/typed_producer.c -o typed_producer
//! run() { cargo run -q -p perfring --features decode --example from_c -- "$@"; }
//! run create /dev/shm/orders
//! ./typed_producer /dev/shm/orders
//! run read /dev/shm/orders
//! ```

use perfring::types::read::TypeTable;
use perfring::{Consumer, Item, Options, Producer, RecordType};
use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

/// Makes the ring, so that the program in C need not say how large it is.
pub fn create(ring: &Path) -> Result<(), Box<dyn Error>> {
    drop(Producer::create(ring, &Options::default())?);
    Ok(())
}

/// Prints each record by the names of its fields, once they are there.
pub fn read(ring: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut consumer = Consumer::attach(ring)?;
    let types = TypeTable::from_words(consumer.types().words());
    while let Some(item) = consumer.read()? {
        match item {
            Item::Record(record) => {
                match RecordType::new(record.kind).and_then(|kind| types.get(kind)) {
                    Some(kind) => {
                        let order = kind.decode(record.bytes)?;
                        writeln!(out, "{} {}", kind.name, kind.render_text(&order))?;
                    }
                    None => writeln!(out, "{} bytes of an unknown type", record.bytes.len())?,
                }
            }
            Item::Lost(lost) => writeln!(out, "{lost}")?,
        }
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["create", ring] => create(Path::new(ring)),
        ["read", ring] => read(Path::new(ring), &mut stdout()),
        _ => Err("usage: from_c create|read RING".into()),
    }
}
