//! Any bytes in the seats of named consumers and in their tails: every entry point ends with records or with a sentence,
//! and the unread records of a live consumer are not overwritten, for any content of the other seats.

use perfring_abi::{ConsumerSeat, Holder, RecordType, SEAT_SIZE};
use perfring_consumer::{Cause, Consumer, Item, files::recover, stat::Stat};
use perfring_producer::{Options, Producer, Producers, Report, ReserveError, SharedProducer};
use perfring_testkit::choices::Choices;
use perfring_testkit::image::{Image, at};
use perfring_testkit::nasty::values;
use perfring_testkit::rng::Rng;
use perfring_testkit::size::{cases, every};
use perfring_tests::doors::{Trial, sentence};
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const SEATS: u32 = 3;
/// The first number of the records that are published beside a consumer.
const FIRST: u64 = 1_000_000;
const KINDS: [(&str, Producers); 2] = [("one", Producers::One), ("many", Producers::Many)];

/// The producer of a ring of either kind.
enum Either {
    One(Box<Producer>),
    Many(Box<SharedProducer>),
}

impl Either {
    fn attach(ring: &Path, producers: Producers) -> Self {
        match producers {
            Producers::One => Either::One(Box::new(Producer::attach(ring).unwrap())),
            _ => Either::Many(Box::new(SharedProducer::attach(ring).unwrap())),
        }
    }

    fn publish(&mut self, id: u64) -> Result<(), ReserveError> {
        let mut bytes = [id as u8; 120];
        bytes[..8].copy_from_slice(&id.to_ne_bytes());
        match self {
            Either::One(producer) => {
                producer.publish_timeout(RecordType::BYTES, &bytes, Duration::ZERO)
            }
            Either::Many(producer) => {
                producer.publish_timeout(RecordType::BYTES, &bytes, Duration::ZERO)
            }
        }
    }
}

fn create(ring: &Path, producers: Producers) {
    let report = Report::CountersOnly;
    let options = Options { size: 4096, consumers: SEATS, report, ..Options::default() };
    match producers {
        Producers::One => drop(Producer::create(ring, &options).unwrap()),
        _ => drop(SharedProducer::create(ring, &Options { producers, ..options }).unwrap()),
    }
}

/// A full ring with three consumers that have died: one has read all, one some, and one nothing.
fn image(name: &'static str, producers: Producers) -> Image {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    create(&ring, producers);
    let mut producer = Either::attach(&ring, producers);
    let mut consumers =
        ["all", "some", "none"].map(|name| Consumer::attach_as(&ring, name).unwrap());
    let mut next = 0;
    for turn in 0..3 {
        while producer.publish(next).is_ok() {
            next += 1;
        }
        for (read, consumer) in [31, 17, if turn < 2 { 31 } else { 0 }].iter().zip(&mut consumers) {
            for _ in 0..*read {
                let _ = consumer.read().unwrap();
            }
            consumer.release();
        }
    }
    // A copy of the file has no locks.
    Image { name, bytes: fs::read(&ring).unwrap() }
}

fn seat_at(image: &Image, seat: u32) -> usize {
    (image.word("consumers_offset") + u64::from(seat) * SEAT_SIZE) as usize
}

fn tail_at(seat: u32) -> usize {
    at("named_tails").start + (seat as usize % 4) * 64 + (seat as usize / 4) * 8
}

/// Every word that belongs to a seat, of all seats and of some that do not exist, and the announced tail.
fn words(image: &Image) -> Vec<usize> {
    let seats = (0..SEATS).map(|seat| seat_at(image, seat));
    let inside = seats.flat_map(|seat| (seat..seat + size_of::<ConsumerSeat>()).step_by(8));
    let tails = [0, 1, 2, 3, 7, 8, 31].map(tail_at);
    inside.chain(tails).chain([at("tail_next").start]).collect()
}

fn name_at(image: &Image, seat: u32) -> usize {
    seat_at(image, seat) + offset_of!(ConsumerSeat, holder) + offset_of!(Holder, name)
}

/// Makes up to four changes, some of them consistent.
fn several(base: &Image, rng: &mut Rng) -> Image {
    let mut image = base.clone();
    let words = words(base);
    let totals = offset_of!(ConsumerSeat, totals);
    for _ in 0..=rng.below(3) {
        let seat = rng.below(SEATS.into()) as u32;
        match rng.below(7) {
            0 => {
                let offset = words[rng.index(words.len())];
                image.set(offset, 8, rng.number(base.get(offset, 8), 4096));
            }
            // All of the seats' bytes.
            1 => {
                let start = seat_at(base, 0);
                let bytes = rng.bytes(SEATS as usize * SEAT_SIZE as usize);
                image.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
            }
            // Names that are no text, without an end, or of another seat.
            2 => {
                let (from, to) = (name_at(base, seat), name_at(base, (seat + 1) % SEATS));
                image.bytes.copy_within(from..from + 64, to);
            }
            3 => {
                let name = name_at(base, seat);
                image.bytes[name..name + 64].fill(rng.any() as u8);
            }
            // Whole totals, of any position.
            4 => {
                let copy = seat_at(base, seat) + totals + 64 * rng.index(2);
                let newest = rng.any() >> rng.below(64);
                image.set(copy, 8, newest);
                image.set(copy + 56, 8, newest);
                for word in 1..7 {
                    let old = base.get(copy + 8 * word, 8);
                    image.set(copy + 8 * word, 8, rng.number(old, 4096));
                }
            }
            // All are waited for, at any place in the ring or near it.
            5 => {
                for seat in 0..32 {
                    let tail = base.word("data_tail").wrapping_sub(64) + 8 * rng.below(600);
                    image.set(tail_at(seat), 8, tail | rng.below(2));
                }
            }
            _ => image.set_field("tail_next", base.word("data_tail") + 8 * rng.below(600)),
        }
    }
    image
}

fn recover_it(trial: &Trial) {
    if let Err(error) = recover(&trial.path) {
        sentence(&error);
    }
}

#[test]
fn any_value_in_any_word_of_a_seat() {
    let mut trial = Trial::new();
    for (nth, (name, producers)) in KINDS.into_iter().enumerate() {
        let base = image(name, producers);
        let mut taken = every(nth, 4);
        for offset in words(&base) {
            for value in values(base.get(offset, 8), 64, 4096).into_iter().filter(|_| taken()) {
                let broken = base.with(offset, 8, value);
                trial.file(format_args!("{name}: byte {offset} is {value:#x}"), &broken.bytes);
                recover_it(&trial);
            }
        }
    }
    trial.end();
}

#[test]
fn several_consistent_changes_of_the_seats() {
    let (mut trial, mut rng) = (Trial::new(), Rng::from_env());
    let bases = KINDS.map(|(name, producers)| image(name, producers));
    for round in 0..cases(400, 8_000) {
        let base = &bases[rng.index(bases.len())];
        let image = several(base, &mut rng);
        trial.file(format_args!("{}: round {round}", base.name), &image.bytes);
        for name in ["all", "some", "none", "another"] {
            trial.case(format!("{}: round {round}, {name}", base.name), |trial| {
                fs::write(&trial.path, &image.bytes).unwrap();
                if let Err(error) = Consumer::attach_as(&trial.path, name) {
                    sentence(&error);
                }
                recover_it(trial);
                trial.producer();
            });
        }
    }
    trial.end();
}

#[test]
fn an_announced_tail_that_is_no_position_keeps_no_named_consumer_out() {
    for (name, producers) in KINDS {
        let base = image(name, producers);
        let head = base.word("data_head");
        // The records of each consumer, twice: nothing was released in between, except by its end.
        let read = |value| {
            let dir = tempfile::tempdir().unwrap();
            let ring = dir.path().join("ring");
            let mut image = base.clone();
            image.set_field("tail_next", value);
            fs::write(&ring, &image.bytes).unwrap();
            ["all", "some", "none", "all", "some", "none"].map(|consumer| {
                let mut consumer = Consumer::attach_as(&ring, consumer).unwrap();
                let mut records = 0;
                while let Some(item) = consumer.read().unwrap() {
                    records += u64::from(matches!(item, Item::Record(_)));
                }
                records
            })
        };
        let whole = read(base.word("tail_next"));
        assert_eq!(whole[..2], [0, 14], "{name}: {whole:?}");
        for value in [u64::MAX, u64::MAX - 7, 1 << 60, head + 8, head - 1, head - 4, 1] {
            assert_eq!(read(value), whole, "{name}: tail_next is {value:#x}");
        }
    }
}

/// The results of a live consumer, beside seats with any contents.
#[derive(Debug, Default)]
struct Outcome {
    published: u64,
    read: u64,
    refused: u64,
    damaged: u64,
}

/// Stores the changed content of these seats, with their tails.
fn store(ring: &File, base: &Image, changed: &Image, seats: impl Iterator<Item = u32>) {
    let put = |offset: usize, len: usize| {
        ring.write_all_at(&changed.bytes[offset..offset + len], offset as u64).unwrap();
    };
    for seat in seats {
        put(tail_at(seat), 8);
        if seat < SEATS {
            put(seat_at(base, seat), SEAT_SIZE as usize);
        }
    }
}

/// A consumer and a producer are attached, and after some records the seats of the others change.
fn beside(base: &Image, producers: Producers, rng: &mut Rng, outcome: &mut Outcome) {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    fs::write(&ring, &base.bytes).unwrap();
    let mut consumer = Consumer::attach_as(&ring, "none").unwrap();
    let own =
        Stat::read(&ring).unwrap().consumers.iter().find(|one| one.is_alive()).unwrap().number;
    let mut producer = Either::attach(&ring, producers);
    let file = File::options().write(true).open(&ring).unwrap();
    // The image has some records for it, and then come the published records.
    let (mut next, mut id) = (None, FIRST);
    for round in 0..300 {
        store(&file, base, &several(base, rng), (0..32).filter(|seat| *seat != own));
        for _ in 0..rng.below(12) {
            match producer.publish(id) {
                Ok(()) => (id, outcome.published) = (id + 1, outcome.published + 1),
                Err(ReserveError::Full) => outcome.refused += 1,
                Err(error) => {
                    sentence(&error);
                    outcome.damaged += 1;
                }
            }
        }
        for _ in 0..if round == 299 { u64::MAX } else { rng.below(8) } {
            match consumer.read().expect("what others have is not its damage") {
                Some(Item::Record(record)) => {
                    let id = u64::from_ne_bytes(record.bytes[..8].try_into().unwrap());
                    assert!(record.bytes[8..].iter().all(|byte| *byte == id as u8), "torn");
                    let in_order = next.is_none_or(|next| next == id || id == FIRST);
                    assert!(in_order, "{id} after {next:?}");
                    next = Some(id + 1);
                    outcome.read += 1;
                }
                // Refusals because of the other seats are also returned.
                Some(Item::Lost(lost)) => assert_eq!(lost.cause, Cause::Full, "a live consumer"),
                None => break,
            }
        }
        if rng.below(3) == 0 {
            consumer.release();
        }
        if rng.below(20) == 0 {
            let _ = (Stat::read(&ring).unwrap().epoch(), recover(&ring));
        }
    }
    assert_eq!(next, Some(id), "it has read all");
}

#[test]
fn no_contents_of_other_seats_cost_a_live_consumer_a_record() {
    let (mut rng, mut outcome) = (Rng::from_env(), Outcome::default());
    for (name, producers) in KINDS {
        let base = image(name, producers);
        for _ in 0..cases(30, 500) {
            beside(&base, producers, &mut rng, &mut outcome);
        }
    }
    println!("{outcome:?}");
    assert!(outcome.published > 0 && outcome.read > 0 && outcome.refused > 0);
}

/// A consumer whose own seat and tail are overwritten may lose records, and more does not happen.
#[test]
fn a_consumer_whose_own_seat_is_overwritten_goes_on_or_says_why() {
    let (mut trial, mut rng) = (Trial::new(), Rng::from_env());
    for (name, producers) in KINDS {
        let base = image(name, producers);
        for round in 0..cases(60, 1_000) {
            trial.case(format!("{name}: round {round}"), |trial| {
                fs::write(&trial.path, &base.bytes).unwrap();
                let mut consumer = Consumer::attach_as(&trial.path, "none").unwrap();
                let mut producer = Either::attach(&trial.path, producers);
                let file = File::options().write(true).open(&trial.path).unwrap();
                for id in 0..100 {
                    store(&file, &base, &several(&base, &mut rng), 0..32);
                    if let Err(error) = producer.publish(id) {
                        sentence(&error);
                    }
                    for _ in 0..rng.below(8) {
                        match consumer.read() {
                            Ok(Some(_)) => {}
                            Ok(None) => break,
                            Err(error) => {
                                sentence(&error);
                                break;
                            }
                        }
                    }
                    if rng.below(3) == 0 {
                        consumer.release();
                    }
                }
                let _ = (Stat::read(&trial.path).unwrap().epoch(), recover(&trial.path));
            });
        }
    }
    trial.end();
}
