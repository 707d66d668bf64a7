//! The three kinds of producers have the same verbs: the same names, arguments in the same order, and results.

use crate::cpu_rings::{cpus, move_to};
use perfring_consumer::{Consumer, Item};
use perfring_producer::types::{Encoding, Entries, Entry, PodRecord, Record, Schema};
use perfring_producer::{
    CpuProducer, Options, Producer, ReadError, RecordType, ReserveError, SharedProducer,
};
use perfring_tests::{NUMBERED, NUMBERED_TYPE, numbered, ring_dir};
use std::time::Duration;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Plain([u8; 16]);

impl Record for Plain {
    const SCHEMA: Schema<'static> =
        Schema::new("tests.Plain", Encoding::Pod).with_fields(16, &[]).with_hashed_id();
}

impl PodRecord for Plain {}

/// The verbs of each producer.
trait Verbs {
    fn publish(&mut self, payload: &[u8]) -> Result<(), ReserveError>;
    fn publish_as(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError>;
    fn publish_timeout(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<(), ReserveError>;
    fn publish_pod(&mut self, value: &Plain) -> Result<(), ReserveError>;
    fn reserve_pod(&mut self, value: &Plain) -> Result<(), ReserveError>;
    /// Reserves as many bytes as `payload` has, and commits the first `len` of them; or discards them.
    fn reserve(
        &mut self,
        kind: RecordType,
        payload: &[u8],
        len: Option<usize>,
        timeout: Option<Duration>,
    ) -> Result<(), ReserveError>;
    fn register(&mut self, schema: &Schema<'_>) -> Result<(), ReserveError>;
    fn register_entry(&mut self, entry: &Entry<'_>) -> Result<(), ReserveError>;
    fn max_len(&self) -> usize;
    fn is_removed(&self) -> bool;
    fn cut_off(&self) -> Option<ReadError>;
}

macro_rules! verbs {
    ($($producer:ty),*) => {$(
        impl Verbs for $producer {
            fn publish(&mut self, payload: &[u8]) -> Result<(), ReserveError> {
                <$producer>::publish(self, payload)
            }

            fn publish_as(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), ReserveError> {
                <$producer>::publish_as(self, kind, payload)
            }

            fn publish_timeout(
                &mut self,
                kind: RecordType,
                payload: &[u8],
                timeout: Duration,
            ) -> Result<(), ReserveError> {
                <$producer>::publish_timeout(self, kind, payload, timeout)
            }

            fn publish_pod(&mut self, value: &Plain) -> Result<(), ReserveError> {
                <$producer>::publish_pod(self, value)
            }

            fn reserve_pod(&mut self, value: &Plain) -> Result<(), ReserveError> {
                let mut record = <$producer>::reserve_pod::<Plain>(self)?;
                *record = *value;
                record.commit();
                Ok(())
            }

            fn reserve(
                &mut self,
                kind: RecordType,
                payload: &[u8],
                len: Option<usize>,
                timeout: Option<Duration>,
            ) -> Result<(), ReserveError> {
                let mut record = match timeout {
                    Some(timeout) => {
                        <$producer>::reserve_timeout(self, kind, payload.len(), timeout)?
                    }
                    None => <$producer>::reserve(self, kind, payload.len())?,
                };
                record.copy_from_slice(payload);
                match len {
                    Some(len) if len == payload.len() => record.commit(),
                    Some(len) => record.commit_len(len),
                    None => record.discard(),
                }
                Ok(())
            }

            fn register(&mut self, schema: &Schema<'_>) -> Result<(), ReserveError> {
                <$producer>::register(self, schema)
            }

            fn register_entry(&mut self, entry: &Entry<'_>) -> Result<(), ReserveError> {
                <$producer>::register_entry(self, entry)
            }

            fn max_len(&self) -> usize {
                <$producer>::max_len(self)
            }

            fn is_removed(&self) -> bool {
                <$producer>::is_removed(self)
            }

            fn cut_off(&self) -> Option<ReadError> {
                <$producer>::cut_off(self)
            }
        }
    )*};
}

verbs!(Producer, SharedProducer, CpuProducer);

/// Calls every verb. Returns the types and payloads of a reader's records, and the number of refused records.
fn all_of(producer: &mut impl Verbs) -> (Vec<(u32, Vec<u8>)>, u64) {
    let (long, at_once) = (numbered(7, 700), Duration::ZERO);
    producer.register(&NUMBERED_TYPE).unwrap();
    let copied = Schema::new("tests.Copied", Encoding::Utf8).with_hashed_id().to_entry();
    for entry in Entries::new(&copied) {
        producer.register_entry(&entry.unwrap()).unwrap();
    }
    producer.publish(b"bytes").unwrap();
    producer.publish_as(NUMBERED, &numbered(1, 20)).unwrap();
    producer.publish_timeout(NUMBERED, &long, at_once).unwrap();
    producer.publish_timeout(NUMBERED, &numbered(2, 8), Duration::MAX).unwrap();
    producer.publish_pod(&Plain([9; 16])).unwrap();
    producer.reserve_pod(&Plain([8; 16])).unwrap();
    producer.reserve(NUMBERED, &numbered(3, 40), Some(40), None).unwrap();
    producer.reserve(NUMBERED, &numbered(4, 40), Some(8), Some(at_once)).unwrap();
    producer.reserve(NUMBERED, &numbered(5, 40), None, None).unwrap();
    let max = producer.max_len();
    let too_large = vec![0; max + 1];
    let refused = Err(ReserveError::TooLarge { len: max + 1, max });
    assert_eq!(producer.publish(&too_large), refused);
    assert_eq!(producer.publish_timeout(NUMBERED, &too_large, Duration::MAX), refused);
    assert_eq!(producer.reserve(NUMBERED, &too_large, None, None), refused);
    assert_eq!(producer.reserve(NUMBERED, &too_large, None, Some(Duration::MAX)), refused);
    assert!(!producer.is_removed() && producer.cut_off().is_none());
    let numbered =
        |number, len, whole: usize| (NUMBERED.get(), numbered(number, whole)[..len].to_vec());
    let expected = vec![
        (RecordType::BYTES.get(), b"bytes".to_vec()),
        numbered(1, 20, 20),
        (NUMBERED.get(), long),
        numbered(2, 8, 8),
        (Plain::SCHEMA.id.get(), vec![9; 16]),
        (Plain::SCHEMA.id.get(), vec![8; 16]),
        numbered(3, 40, 40),
        numbered(4, 8, 40),
    ];
    (expected, 4)
}

#[test]
fn each_kind_of_producer_has_each_verb() {
    move_to(cpus()[0]);
    let dir = ring_dir();
    let path = |name| dir.path().join(name);
    for time in [false, true] {
        let with = |options| Options { time, size: 1 << 16, ..options };
        let mut one = Producer::create(path("one"), &with(Options::default())).unwrap();
        let mut many = SharedProducer::create(path("many"), &with(Options::many())).unwrap();
        let mut cpu = CpuProducer::create(path("cpu"), &with(Options::per_cpu())).unwrap();
        let of_cpu = path("cpu").join(format!("cpu{}", cpus()[0]));
        let made = [
            (path("one"), all_of(&mut one)),
            (path("many"), all_of(&mut many)),
            (of_cpu, all_of(&mut cpu)),
        ];
        for (ring, (expected, refused)) in made {
            let mut consumer = Consumer::attach(&ring).unwrap();
            let types = consumer.types();
            assert!(types.entries().flatten().any(|entry| entry.name() == "tests.Copied"));
            let (mut records, mut lost) = (Vec::new(), 0);
            while let Some(item) = consumer.read().unwrap() {
                match item {
                    Item::Record(record) => records.push((record.kind, record.bytes.to_vec())),
                    Item::Lost(loss) => lost += loss.records,
                }
            }
            consumer.release();
            assert_eq!((records, lost), (expected, refused), "{}", ring.display());
        }
        drop((one, many, cpu));
        for name in ["one", "many"] {
            std::fs::remove_file(path(name)).unwrap();
        }
        std::fs::remove_dir_all(path("cpu")).unwrap();
    }
}
