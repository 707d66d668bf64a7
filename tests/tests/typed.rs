//! Plain structs and archives, through every kind of ring.

use perfring_consumer::{
    Consumer, Item, Observer, RecordRef, Start,
    error::{SchemaMismatch, TypeMismatch},
};
use perfring_producer::{Options, Policy, Producer, ReserveError, SharedProducer};
use perfring_tests::shapes::{Line, Quote};
use perfring_tests::{NUMBERED, numbered, ring_dir};
use perfring_types::{Record, Schema};
use proptest::prelude::*;
use rkyv::rancor::{Fallible, Source};
use rkyv::{Archive, Place, Serialize};
use std::path::Path;

/// Returns all kinds of rings that one process can be the producer of.
fn kinds() -> Vec<Options> {
    let drop = Options::default();
    let overwrite = Options { policy: Policy::Overwrite, ..drop };
    let many = Options::many();
    vec![drop, overwrite, many, Options { policy: Policy::Overwrite, ..many }]
}

/// The one producer or one of many.
enum Any {
    One(Box<Producer>),
    Many(Box<SharedProducer>),
}

impl Any {
    fn create(ring: &Path, options: &Options) -> Self {
        perfring_producer::files::create(ring, options).unwrap();
        match options.producers {
            perfring_producer::Producers::One => {
                Any::One(Box::new(Producer::attach(ring).unwrap()))
            }
            perfring_producer::Producers::Many | perfring_producer::Producers::Cpu => {
                Any::Many(Box::new(SharedProducer::attach(ring).unwrap()))
            }
        }
    }

    fn pod(&mut self, quote: &Quote) {
        match self {
            Any::One(producer) => producer.publish_pod(quote).unwrap(),
            Any::Many(producer) => producer.publish_pod(quote).unwrap(),
        }
    }

    fn in_place(&mut self, quote: &Quote) {
        match self {
            Any::One(producer) => {
                let mut record = producer.reserve_pod::<Quote>().unwrap();
                *record = *quote;
                record.commit();
            }
            Any::Many(producer) => {
                let mut record = producer.reserve_pod::<Quote>().unwrap();
                *record = *quote;
                record.commit();
            }
        }
    }

    fn archive(&mut self, line: &Line) -> Result<(), ReserveError> {
        match self {
            Any::One(producer) => producer.publish_rkyv(line),
            Any::Many(producer) => producer.publish_rkyv(line),
        }
    }
}

/// Calls `look` with the records of a consumer and of an observer, each once.
fn read_all(ring: &Path, mut look: impl FnMut(&RecordRef<'_>)) {
    let mut consumer = Consumer::attach(ring).unwrap();
    while let Some(item) = consumer.read().unwrap() {
        let Item::Record(record) = item else { panic!("{item:?}") };
        look(&record);
    }
    let mut observer = Observer::attach(ring, Start::Oldest).unwrap();
    while let Some(Item::Record(record)) = observer.read().unwrap() {
        look(&record);
    }
}

#[test]
fn plain_structs_survive_a_round_trip() {
    let dir = ring_dir();
    for (at, options) in kinds().iter().enumerate() {
        let ring = dir.path().join(at.to_string());
        let mut producer = Any::create(&ring, options);
        for number in 0..100 {
            producer.pod(&Quote::of(2 * number));
            producer.in_place(&Quote::of(2 * number + 1));
        }
        drop(producer);
        let mut next = (0..200).cycle();
        let mut count = 0;
        read_all(&ring, |record| {
            assert_eq!(record.as_pod::<Quote>().unwrap(), &Quote::of(next.next().unwrap()));
            count += 1;
        });
        // The consumer of a drop ring has released its records before the observer was opened.
        assert!(count == 400 || (options.policy == Policy::Drop && count >= 200), "{count}");
        assert!(
            perfring_consumer::Snapshot::take(&ring).unwrap().types().check::<Quote>().unwrap()
        );
    }
}

#[test]
fn a_consumer_of_a_drop_ring_has_the_struct_itself_and_not_a_copy() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    producer.publish_pod(&Quote::of(1)).unwrap();
    producer.publish_pod(&Quote::of(2)).unwrap();
    let mut consumer = Consumer::attach(&ring).unwrap();
    let pinned = consumer.pinned().unwrap().unwrap();
    let mut quotes = Vec::new();
    while let Some(Item::Record(record)) = pinned.read().unwrap() {
        let quote = record.as_pod::<Quote>().unwrap();
        assert!(std::ptr::eq(std::ptr::from_ref(quote).cast(), record.bytes.as_ptr()));
        quotes.push(quote);
    }
    let apart = std::ptr::from_ref(quotes[1]).addr() - std::ptr::from_ref(quotes[0]).addr();
    assert_eq!(apart as u64, perfring_abi::record_size(size_of::<Quote>()));
}

#[test]
fn a_record_of_another_type_is_refused_with_a_message() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    producer.publish_as(NUMBERED, &numbered(1, 64)).unwrap();
    producer.publish_as(Quote::SCHEMA.id, &[0; 63]).unwrap();
    producer.publish_as(Line::SCHEMA.id, &[0xff; 40]).unwrap();
    let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
    let mut next = || match observer.read().unwrap() {
        Some(Item::Record(record)) => (
            record.as_pod::<Quote>().copied().unwrap_err(),
            record.archived::<Line>().map(|_| ()).unwrap_err(),
            record.archived_copy::<Line>(&mut Vec::new()).map(|_| ()).unwrap_err(),
        ),
        other => panic!("{other:?}"),
    };
    let (quote, line) = (Quote::SCHEMA.id.get(), Line::SCHEMA.id.get());
    let kind = |kind, wanted| TypeMismatch::Kind { kind, wanted };
    let of = NUMBERED.get();
    assert_eq!(next(), (kind(of, quote), kind(of, line), kind(of, line)));
    let length = TypeMismatch::Length { len: 63, needed: 64 };
    assert_eq!(next(), (length, kind(quote, line), kind(quote, line)));
    let archive = TypeMismatch::Archive(perfring_types::ArchiveError::Invalid);
    assert_eq!(next(), (kind(line, quote), archive, archive));
}

#[test]
fn a_ring_says_why_it_has_none_of_a_type() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    let types = |ring: &Path| Observer::attach(ring, Start::Oldest).unwrap().types();
    assert_eq!(types(&ring).check::<Line>(), Ok(false));
    let format = "rkyv 0.8 big unaligned 64";
    producer.register(&Schema { format, ..Line::SCHEMA }.with_hashed_id()).unwrap();
    producer.register(&Schema { version: 2, ..Quote::SCHEMA }.with_hashed_id()).unwrap();
    let error = types(&ring).check::<Line>().unwrap_err();
    let SchemaMismatch::Format { ref found, .. } = error else { panic!("{error}") };
    assert_eq!(found, format);
    assert!(error.to_string().contains("build both with the same version and format"), "{error}");
    let layout = SchemaMismatch::Layout { name: Quote::SCHEMA.name };
    assert_eq!(types(&ring).check::<Quote>(), Err(layout));
    // A type that is published beside it is found.
    producer.publish_pod(&Quote::of(1)).unwrap();
    assert_eq!(types(&ring).check::<Quote>(), Ok(true));

    let taken = dir.path().join("taken");
    let mut producer = Producer::create(&taken, &Options::default()).unwrap();
    producer.register(&Schema { id: Quote::SCHEMA.id, ..Line::SCHEMA }).unwrap();
    assert!(matches!(types(&taken).check::<Quote>(), Err(SchemaMismatch::Taken { .. })));
    let refused = producer.publish_pod(&Quote::of(1)).unwrap_err();
    assert!(refused.to_string().contains("is taken in this ring"), "{refused}");
    assert_eq!(producer.totals().written.records, 0);
}

fn lines() -> impl Strategy<Value = Line> {
    let text = prop_oneof![".{0,9}", ".{0,300}", "[a-z]{2000,9000}"];
    let tags = prop::collection::vec(".{0,20}", 0..200);
    (any::<u64>(), text, any::<f64>(), any::<Option<i32>>(), tags)
        .prop_map(|(number, message, took, code, tags)| Line { number, message, took, code, tags })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn archives_survive_a_round_trip_and_take_no_extra_space(
        lines in prop::collection::vec(lines(), 1..20),
    ) {
        let dir = ring_dir();
        for (at, options) in kinds().iter().enumerate() {
            let ring = dir.path().join(at.to_string());
            let mut producer = Any::create(&ring, options);
            for line in &lines {
                producer.archive(line).unwrap();
            }
            drop(producer);
            let mut next = lines.iter().cycle();
            let (mut count, mut buffer) = (0, Vec::new());
            read_all(&ring, |record| {
                let line = next.next().unwrap();
                assert!(record.archived::<Line>().unwrap() == line, "{line:?}");
                assert!(record.archived_copy::<Line>(&mut buffer).unwrap() == line);
                let plain = rkyv::to_bytes::<rkyv::rancor::Error>(line).unwrap();
                assert_eq!(record.bytes, &plain[..]);
                count += 1;
            });
            prop_assert!(count >= lines.len());
            // No holes: what was reserved and not needed was freed.
            let totals = perfring_consumer::stat::Stat::read(&ring).unwrap().totals.unwrap().producer;
            prop_assert_eq!(totals.discarded.bytes, 0);
            prop_assert_eq!(totals.written.records, lines.len() as u64);
        }
    }

    #[test]
    fn an_archive_of_any_bytes_is_an_error_or_an_archive_and_never_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        line in lines(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4),
    ) {
        let mut flipped = rkyv::to_bytes::<rkyv::rancor::Error>(&line).unwrap().to_vec();
        for (at, bit) in flips {
            let at = at.index(flipped.len());
            flipped[at] ^= 1 << bit;
        }
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let mut producer = Producer::create(&ring, &Options::default()).unwrap();
        for bytes in [&bytes, &flipped] {
            producer.publish_as(Line::SCHEMA.id, bytes).unwrap();
        }
        drop(producer);
        read_all(&ring, |record| {
            if let Ok(read) = record.archived::<Line>() {
                let text: usize = read.tags.iter().map(|tag| tag.chars().count()).sum();
                std::hint::black_box((text, read.message.chars().count(), read.code.as_ref()));
            }
        });
    }
}

#[test]
fn an_archive_that_is_too_long_is_a_counted_loss() {
    let dir = ring_dir();
    for (at, options) in kinds().iter().enumerate() {
        let ring = dir.path().join(at.to_string());
        let options = Options { size: 4096, ..*options };
        let mut producer = Any::create(&ring, &options);
        let line = |len| Line { message: "x".repeat(len), ..fresh() };
        let refused = producer.archive(&line(5000)).unwrap_err();
        let ReserveError::TooLarge { max, .. } = refused else { panic!("{refused:?}") };
        // A record that fits beside the report of that loss is published, though its space is tried
        // for in larger and larger pieces.
        let empty = rkyv::to_bytes::<rkyv::rancor::Error>(&line(0)).unwrap().len();
        producer.archive(&line(max - empty - 32)).unwrap();
        drop(producer);
        let totals = perfring_consumer::stat::Stat::read(&ring).unwrap().totals.unwrap().producer;
        assert_eq!(
            (totals.refused.too_large.records, totals.written.records),
            (1, 1),
            "{options:?}"
        );
    }
}

#[test]
fn a_short_archive_finds_the_remaining_space_after_long_ones() {
    let dir = ring_dir();
    for time in [false, true] {
        let ring = dir.path().join(time.to_string());
        let options = Options { size: 4096, time, ..Options::default() };
        let mut producer = Producer::create(&ring, &options).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let line = |len| Line { message: "x".repeat(len), ..fresh() };
        producer.publish_rkyv(&line(2800)).unwrap();
        assert!(consumer.read().unwrap().is_some());
        consumer.release();
        // Until the ring is full to the last record, and a refusal is counted with the right size.
        let size = rkyv::to_bytes::<rkyv::rancor::Error>(&line(40)).unwrap().len();
        let size = producer.layout().record_size(size);
        let fits = (4096 - 8) / size;
        for _ in 0..fits {
            producer.publish_rkyv(&line(40)).unwrap();
        }
        let full = ReserveError::Full;
        assert_eq!(producer.publish_rkyv(&line(40)), Err(full));
        let refused = producer.totals().refused.full;
        assert_eq!((refused.records, refused.bytes), (1, size));
    }
}

fn fresh() -> Line {
    Line { number: 0, message: String::new(), took: 0.0, code: None, tags: Vec::new() }
}

/// A field that cannot be archived, after some of the record is written.
struct Refuses;

#[derive(Debug)]
struct No;

impl std::fmt::Display for No {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no")
    }
}

impl std::error::Error for No {}

impl Archive for Refuses {
    type Archived = ();
    type Resolver = ();
    fn resolve(&self, (): (), _: Place<()>) {}
}

impl<S: Fallible<Error: Source> + ?Sized> Serialize<S> for Refuses {
    fn serialize(&self, _: &mut S) -> Result<(), S::Error> {
        Err(S::Error::new(No))
    }
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Half {
    first: String,
    #[record(skip)]
    second: Refuses,
}

#[test]
fn a_value_that_cannot_be_archived_leaves_nothing_behind() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    let value = Half { first: "written before the refusal".to_owned(), second: Refuses };
    let refused = producer.publish_rkyv(&value).unwrap_err();
    assert!(matches!(refused, ReserveError::Archive(_)), "{refused:?}");
    producer.publish(b"next").unwrap();
    let totals = producer.totals();
    assert_eq!((totals.written.records, totals.discarded.records, totals.pos), (1, 0, 16));
}
