//! The Rust side of `test_types.py`: structs of all kinds, which Python has as well.
//!
//! ```text
//! perfring-python-agreement schemas      a line for each: name, id, layout and text, tabs between
//! perfring-python-agreement show         reads lines "name payload-in-hex", shows each as its struct
//! perfring-python-agreement read RING    the same of a ring's records, to the last
//! perfring-python-agreement write RING   makes a ring with a record of each
//! ```
#![forbid(unsafe_code)]

mod structs;

use perfring_consumer::{Consumer, Item};
use perfring_producer::{Options, Producer};
use perfring_types::{PodRecord, Schema};
use std::error::Error;
use std::fmt::Debug;
use std::io::stdin;
use structs::*;

/// A struct, and what is done with it.
struct Known {
    schema: Schema<'static>,
    show: fn(&[u8]) -> Result<String, String>,
    publish: fn(&mut Producer) -> Result<(), Box<dyn Error>>,
}

fn known<T: PodRecord + Debug + Example>() -> Known {
    Known {
        schema: T::SCHEMA,
        show: |bytes| match bytemuck::try_pod_read_unaligned::<T>(bytes) {
            Ok(value) => Ok(format!("{value:?}")),
            Err(error) => Err(format!("{error}: {} bytes for {}", bytes.len(), size_of::<T>())),
        },
        publish: |producer| Ok(producer.publish_pod(&T::example())?),
    }
}

fn all() -> Vec<Known> {
    vec![
        known::<Numbers>(),
        known::<Trade>(),
        known::<Nested>(),
        known::<Packed>(),
        known::<Own>(),
        known::<Numbered>(),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["schemas"] => {
            for Known { schema, .. } in all() {
                let (id, layout) = (schema.id.get(), schema.layout());
                println!("{}\t{id}\t{layout}\t{}", schema.name, schema.to_json());
            }
        }
        ["show"] => {
            for line in stdin().lines() {
                let line = line?;
                let (name, hex) = line.split_once(' ').ok_or("a line is a name and a payload")?;
                println!("{}", show(|schema| schema.name == name, &from_hex(hex)?)?);
            }
        }
        ["read", ring] => {
            let mut consumer = Consumer::attach(ring)?;
            while let Some(item) = consumer.read()? {
                let Item::Record(record) = item else { return Err("records are lost".into()) };
                println!("{}", show(|schema| schema.id.get() == record.kind, record.bytes)?);
            }
        }
        ["write", ring] => {
            let mut producer = Producer::create(ring, &Options::default())?;
            for Known { publish, .. } in all() {
                publish(&mut producer)?;
            }
        }
        _ => return Err("say schemas, show, read RING or write RING".into()),
    }
    Ok(())
}

fn show(which: impl Fn(&Schema<'_>) -> bool, payload: &[u8]) -> Result<String, String> {
    let found = all().into_iter().find(|known| which(&known.schema));
    (found.ok_or("it is none of the structs")?.show)(payload)
}

fn from_hex(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let digits = digits.ok_or("no hexadecimal digit")?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}
