//! A reader of one's own on raw access: words by position, its own wrap at the end of the data area,
//! its own idea of what to do with a record. The tail moves when it says so.
//!
//! It sums up how many records there are of each type, and how many bytes, without borrowing one.
//!
//! `cargo run -p perfring-set --example own_wrap -- RING`
#![allow(missing_docs)]

use perfring_consumer::advanced::RawReader;
use perfring_consumer::{Consumer, ReadError};
use std::collections::BTreeMap;

/// Records and bytes of each type.
type Sums = BTreeMap<u32, (u64, u64)>;

/// Reads everything up to the head, and hands it back.
///
/// The data area is an array of words, as many as a power of two. A record begins with a word that
/// holds `u32 type, u16 misc, u16 size`, and may go on at the start of the area. So much for the
/// layout: the rest is that no word is read before the head is, and that no size is believed
/// before it is checked.
fn read(raw: &mut RawReader<'_>, sums: &mut Sums) -> Result<u64, ReadError> {
    let words = raw.ring().data_size() / 8;
    let (start, head) = (raw.cursor(), raw.ring().head());
    // An index into the area, and how many words there are from it to the head.
    let mut at = start / 8 % words;
    let mut left = (head - start) / 8;
    while left > 0 {
        let [kind, rest] = split(raw.ring().word(at * 8));
        let size = u64::from(rest >> 16) / 8;
        if size == 0 || size > left {
            return Err(ReadError::Corrupt { pos: head - left * 8 });
        }
        // The kernel's own types, such as a loss, are below 64; so is what is no record.
        if kind >= 64 {
            let sum = sums.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + size * 8);
        }
        at += size;
        if at >= words {
            at -= words; // it wraps
        }
        left -= size;
    }
    raw.advance(head).map(|count| count.records)
}

/// The two halves of a word, the one at the lower address first.
fn split(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        println!("usage: own_wrap RING");
        return Ok(());
    };
    let mut consumer = Consumer::attach(std::path::Path::new(&path))?;
    let Some(mut raw) = consumer.advanced().raw() else {
        println!("an overwrite ring: its tail is the producers'");
        return Ok(());
    };
    let mut sums = Sums::new();
    let records = read(&mut raw, &mut sums)?;
    println!("{records} records");
    for (kind, (records, bytes)) in sums {
        println!("type {kind}: {records} records, {bytes} bytes");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use perfring_consumer::{Item, stat::Stat};
    use perfring_producer::{Options, Producer, RecordType};

    #[test]
    fn it_sees_what_the_consumer_would_see_lap_after_lap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { size: 4096, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let (mut sums, mut expect, mut read_raw) = (Sums::new(), Sums::new(), 0);
        let mut written = 0u64;
        for round in 0..3000u32 {
            for _ in 0..round % 9 {
                let kind = RecordType::new(256 + round % 3).unwrap();
                let len = (written % 200) as usize;
                producer.publish_as(kind, &[7; 200][..len]).unwrap();
                written += 1;
                let sum = expect.entry(kind.get()).or_default();
                *sum = (sum.0 + 1, sum.1 + 8 + len.next_multiple_of(8) as u64);
            }
            // In turns with the consumer's own method.
            if round % 4 == 3 {
                while let Some(item) = consumer.read().unwrap() {
                    let Item::Record(record) = item else { panic!("a loss") };
                    let sum = sums.entry(record.kind).or_default();
                    *sum = (sum.0 + 1, sum.1 + 8 + record.bytes.len().next_multiple_of(8) as u64);
                }
                consumer.release();
            } else {
                read_raw += read(&mut consumer.advanced().raw().unwrap(), &mut sums).unwrap();
            }
            assert_eq!(sums, expect);
        }
        let totals = Stat::read(&path).unwrap().totals.unwrap();
        assert_eq!(totals.consumer.read.records, written);
        assert_eq!(totals.present.records, 0);
        println!("{written} records in {} laps, {read_raw} read raw", totals.head / 4096);
        assert!(totals.head > 100 * 4096 && read_raw > written / 2);
    }
}
