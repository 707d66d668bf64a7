//! The example: every record arrives, whatever ends in between.

#[path = "../../examples/tokio_forwarder.rs"]
mod example;

use perfring::{Options, Producer, RecordType};
use perfring_testkit::wait::WATCHDOG;
use std::io::{BufRead, BufReader, stdout};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const RING: &str = "PERFRING_TEST_TOKIO_FORWARDER";
const SIZE: u64 = 1 << 13;

/// Runs only as the child of the tests below: this very program, started again.
#[tokio::test]
async fn forwards_if_it_is_told_to() {
    let Ok(ring) = std::env::var(RING) else { return };
    println!();
    example::forward(&ring, "127.0.0.1:0", &mut stdout()).await.unwrap();
}

/// The example as a process, which is killed in the end.
struct Forwarder {
    child: Child,
    lines: Receiver<String>,
    address: String,
}

impl Forwarder {
    fn start(ring: &Path) -> Self {
        let mut child = super::again("tokio_forwarder::forwards_if_it_is_told_to")
            .env(RING, ring)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, lines) = channel();
        std::thread::spawn(move || stdout.lines().try_for_each(|read| line.send(read.unwrap())));
        let mut forwarder = Forwarder { child, lines, address: String::new() };
        forwarder.address = forwarder.says("listening on ").split_off("listening on ".len());
        forwarder
    }

    /// Waits for a line with `text`.
    fn says(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(WATCHDOG).unwrap();
            println!("{line}");
            assert!(!line.contains("lost"), "{line}");
            if line.contains(text) {
                return line;
            }
        }
    }

    async fn client(&self) -> Client {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        stream.set_nodelay(true).unwrap(); // each confirmation is a byte
        Client(stream)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

struct Client(TcpStream);

impl Client {
    /// Returns the number of the next record, which is not confirmed.
    async fn receive(&mut self) -> u64 {
        let record = async {
            let mut bytes = vec![0; self.0.read_u32_le().await.unwrap() as usize];
            self.0.read_exact(&mut bytes).await.unwrap();
            bytes
        };
        let bytes = tokio::time::timeout(WATCHDOG, record).await.unwrap();
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(bytes, payload(number), "a torn record");
        number
    }

    /// Confirms one record: what the client has confirmed, it has.
    async fn confirm(&mut self) {
        self.0.write_all(&[1]).await.unwrap();
    }

    /// Receives and confirms the records of a range.
    async fn take(&mut self, numbers: Range<u64>) {
        for number in numbers {
            assert_eq!(self.receive().await, number);
            self.confirm().await;
        }
    }

    /// Ends the connection by a reset: what is on its way in either direction is discarded.
    fn reset(self) {
        self.0.set_zero_linger().unwrap();
    }
}

/// A record with its number and some bytes more, as many as the number says.
fn payload(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + number as usize % 40, number as u8);
    bytes
}

fn publish(producer: &mut Producer, numbers: Range<u64>) {
    for number in numbers {
        producer.publish_timeout(RecordType::BYTES, &payload(number), WATCHDOG).unwrap();
    }
}

/// Returns whether there was room.
fn publish_if_there_is_room(producer: &mut Producer, number: u64) -> bool {
    let bytes = payload(number);
    let offer = producer.offer_timeout(RecordType::BYTES, bytes.len(), Duration::ZERO).unwrap();
    offer
        .map(|mut record| {
            record.copy_from_slice(&bytes);
            record.commit();
        })
        .is_some()
}

/// Publishes records from number 0 until there is no room, and returns their number.
fn fill(producer: &mut Producer) -> u64 {
    (0..).find(|number| !publish_if_there_is_room(producer, *number)).unwrap()
}

fn ring() -> (tempfile::TempDir, PathBuf, Producer) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let producer = Producer::create(&path, &Options { size: SIZE, ..Options::default() }).unwrap();
    (dir, path, producer)
}

#[tokio::test]
async fn every_record_arrives_though_clients_reset_and_the_producer_restarts() {
    const RECORDS: u64 = 10_000;
    let (_dir, path, mut producer) = ring();
    let full = fill(&mut producer);
    let forwarder = Forwarder::start(&path);

    let mut client = forwarder.client().await;
    client.take(0..full / 2).await;
    assert_eq!(client.receive().await, full / 2);
    assert!(!publish_if_there_is_room(&mut producer, full), "the client has not confirmed all");
    client.reset();

    drop(producer);
    let producers = std::thread::spawn(move || {
        for numbers in [full..RECORDS / 2, RECORDS / 2..RECORDS] {
            publish(&mut Producer::attach(&path).unwrap(), numbers);
        }
    });
    // The numbers that clients have confirmed.
    let mut stored: Vec<u64> = (0..full / 2).collect();
    for records in [3, 1000, 1, 200, 17, 4000] {
        let mut client = forwarder.client().await;
        for nth in 1..=records {
            let number = client.receive().await;
            if nth < records {
                stored.push(number);
                client.confirm().await;
            }
        }
        client.reset();
    }
    let mut client = forwarder.client().await;
    while stored.last() != Some(&(RECORDS - 1)) {
        stored.push(client.receive().await);
        client.confirm().await;
    }
    producers.join().unwrap();
    let mut next = 0;
    for number in &stored {
        assert!(*number <= next, "{next} is missing before {number}");
        next = next.max(number + 1);
    }
    assert_eq!(next, RECORDS);
    println!("{} of {RECORDS} records came again", stored.len() as u64 - RECORDS);
    assert_eq!(stored[full as usize / 2], 0, "nothing was acknowledged when the first one reset");
}

#[tokio::test]
async fn every_record_arrives_though_the_forwarder_is_killed() {
    let (_dir, path, mut producer) = ring();
    let full = fill(&mut producer);
    let forwarder = Forwarder::start(&path);
    let mut client = forwarder.client().await;
    client.take(0..full - 1).await;
    assert_eq!(client.receive().await, full - 1);
    drop(forwarder); // with the last one not confirmed

    let forwarder = Forwarder::start(&path);
    let mut client = forwarder.client().await;
    client.take(0..full).await;
    let more = full + full / 2;
    publish(&mut producer, full..more); // there is room again
    client.take(full..more).await;
    drop(forwarder); // perhaps before it has acknowledged the last ones

    let forwarder = Forwarder::start(&path);
    publish(&mut producer, more..more + 1);
    let first = forwarder.client().await.receive().await;
    assert!((full..=more).contains(&first), "{first}: what was acknowledged does not come again");
}

#[tokio::test]
async fn a_removed_ring_is_delivered_and_the_next_one_attached() {
    let (_dir, path, mut producer) = ring();
    publish(&mut producer, 0..10);
    let forwarder = Forwarder::start(&path);
    let mut client = forwarder.client().await;
    assert_eq!(client.receive().await, 0);
    publish(&mut producer, 10..20);
    drop(producer);
    std::fs::remove_file(&path).unwrap();
    client.reset();

    let mut client = forwarder.client().await;
    client.take(0..20).await;
    forwarder.says("removed");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    publish(&mut producer, 20..30);
    client.take(20..30).await;
    forwarder.says("attached to ");
}
