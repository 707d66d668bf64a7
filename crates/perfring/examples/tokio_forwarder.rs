//! Forwards the records of a drop ring to a TCP client, each at least once.
//!
//! ```sh
//! cargo run -p perfring --features tokio --example tokio_forwarder -- /dev/shm/ticks 127.0.0.1:7000
//! ```
//!
//! A record is sent as its length (four bytes, little-endian) and its bytes. The client returns one byte
//! for each record that it has stored (it sets `TCP_NODELAY`). Only then is the record acknowledged: a
//! write that succeeds says only that the kernel has the bytes, and a reset discards them.
//!
//! | what happens | what the forwarder does |
//! |---|---|
//! | the client is slow | reads no further: the ring fills, and the producer waits or counts what it drops |
//! | the client ends or resets the connection | sends what is not acknowledged to the next client |
//! | the forwarder is killed | the next one finds what is not acknowledged in the ring |
//! | the producer ends | waits for the next producer |
//! | the ring is removed | delivers what is left, says so, and attaches again when there is a ring |

use perfring::tokio::{Consumer, Error as RingError};
use perfring::{Acknowledge, AttachError, ConsumerOptions, Item, ReadError};
use std::error::Error;
use std::io::{self, Write, stdout};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A batch of this many bytes is sent before more is read.
const BATCH: usize = 1 << 16;

/// Records as they are sent, and how many they are.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: usize,
}

impl Batch {
    fn push(&mut self, item: Item<'_>, out: &mut impl Write) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                self.bytes.extend((record.bytes.len() as u32).to_le_bytes());
                self.bytes.extend(record.bytes);
                self.records += 1;
                Ok(())
            }
            Item::Lost(lost) => writeln!(out, "{lost}"), // by the producer, which found no room
        }
    }
}

/// Sends everything that comes to whoever connects, one client at a time.
pub async fn forward(
    ring: &str,
    address: &str,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    let mut client = None;
    loop {
        let mut consumer = attach(ring).await?;
        writeln!(out, "attached to {ring}")?;
        loop {
            let mut batch = Batch::default();
            match consumer.read().await {
                Ok(Some(item)) => batch.push(item, out)?,
                Ok(None) => return Ok(()), // only of a consumer that ends with its producer
                Err(RingError::Read(error @ ReadError::Removed)) => {
                    writeln!(out, "{ring}: {error}")?; // all that was in it has been delivered
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            while batch.bytes.len() < BATCH {
                // An error comes again at the next `read`, once this batch is delivered.
                let Ok(Some(item)) = consumer.get_mut().read() else { break };
                batch.push(item, out)?;
            }
            deliver(&batch, &listener, &mut client, out).await?;
            consumer.acknowledge();
        }
    }
}

/// Attaches as soon as there is a ring.
async fn attach(ring: &str) -> Result<Consumer, RingError> {
    let acknowledge = Acknowledge::Explicit;
    let options = ConsumerOptions { acknowledge, ..ConsumerOptions::default() };
    loop {
        match Consumer::attach_with(ring, &options) {
            Err(RingError::Attach(AttachError::NotFound { .. } | AttachError::Removed { .. })) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            attached => return attached,
        }
    }
}

/// Returns once a client has confirmed the whole batch: this one, or one that comes after it.
async fn deliver(
    batch: &Batch,
    listener: &TcpListener,
    client: &mut Option<TcpStream>,
    out: &mut impl Write,
) -> io::Result<()> {
    loop {
        let connection = match client {
            Some(connection) => connection,
            None => client.insert(listener.accept().await?.0),
        };
        let (mut from, mut to) = connection.split();
        let mut confirmed = vec![0; batch.records];
        match tokio::try_join!(to.write_all(&batch.bytes), from.read_exact(&mut confirmed)) {
            Ok(_) => return Ok(()),
            Err(error) => {
                writeln!(out, "the client is gone: {error}")?;
                *client = None;
            }
        }
    }
}

#[allow(dead_code)] // a test includes this file
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ring, address] = &arguments[..] else {
        return Err("usage: tokio_forwarder RING ADDRESS".into());
    };
    forward(ring, address, &mut stdout()).await
}
