//! One ring, written in Python and read in Rust, or the other way round.
//!
//! ```sh
//! python tools/python/examples/orders.py write /dev/shm/orders 2 3.5
//! cargo run -q -p perfring --example python -- read /dev/shm/orders
//! ```

use perfring::bytemuck::{Pod, Zeroable};
use perfring::{Consumer, Item, Options, Producer, Record};
use std::error::Error;

/// `orders.py` has the same name and the same fields. With other fields it is another type.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[bytemuck(crate = "perfring::bytemuck")]
#[record(name = "demo.Order")]
struct Order {
    number: u64,
    price: f64,
}

/// Publishes an order for each price. A full ring is an error.
fn write(ring: &str, prices: &[String]) -> Result<(), Box<dyn Error>> {
    let mut producer = Producer::open_or_create(ring, &Options::default())?;
    for (number, price) in (0..).zip(prices) {
        producer.publish_pod(&Order { number, price: price.parse()? })?;
    }
    Ok(())
}

/// Prints all orders in the ring.
fn read(ring: &str) -> Result<(), Box<dyn Error>> {
    let mut consumer = Consumer::attach(ring)?;
    while let Some(item) = consumer.read()? {
        match item {
            Item::Record(record) => {
                let Order { number, price } = record.as_pod()?;
                println!("order {number}: {price:.2}");
            }
            Item::Lost(lost) => println!("{lost}"),
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [verb, ring, prices @ ..] if verb == "write" => write(ring, prices),
        [verb, ring] if verb == "read" => read(ring),
        _ => Err("usage: python write RING PRICE..., or python read RING".into()),
    }
}
