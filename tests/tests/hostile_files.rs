//! A process with write access to a file can store anything in it. For any content of a ring file,
//! every entry point ends with records or with an error that has a message: no panic, no hang, no
//! access outside the mapping.
//!
//! `perfring_testkit::invalid` has the invalid files, and `perfring_tests::doors` the entry
//! points. Each case is tried on one ring of its kind, and on all of them with
//! `PERFRING_LONG`. `crates/ring/tests/hostile.rs` tests that no word of a ring in use harms the
//! algorithm, `truncated_files.rs` a file that is truncated while it is mapped, and
//! `hostile_live.rs` a file that is rewritten while it is read.

use perfring_abi::RecordType;
use perfring_consumer::{AttachError, Start, advanced::Saved, files::recover, stat::Count};
use perfring_producer::SharedProducer;
use perfring_testkit::image::{Image, at};
use perfring_testkit::invalid::{self, DROP, OVERWRITE, SHARED, golden};
use perfring_testkit::nasty::NASTY;
use perfring_testkit::rng::Rng;
use perfring_testkit::size::cases;
use perfring_tests::doors::{Trial, sentence};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// How many cases with an open reservation are tried at a time. Each waits for the reservation to end, and needs little of a core.
const WAITING: usize = 16;

/// Tries the invalid cases of each of these rings, of which the first is the `first` of `of`: each
/// case on one of them, so many cases at a time.
fn try_all<I: Iterator<Item = invalid::Case>>(
    names: &[&'static str],
    (first, of): (usize, usize),
    at_a_time: usize,
    invalid: impl Fn(&'static Image, usize, usize) -> I + Sync,
) {
    // For as long as the test runs.
    let bases: &'static [Image] = golden(names).into_iter().collect::<Vec<_>>().leak();
    let some_of_them = |turn| {
        let mut trial = Trial::new();
        for (nth, base) in (first..).zip(bases) {
            for (what, image) in invalid(base, nth, of).skip(turn).step_by(at_a_time) {
                trial.file(what, &image.bytes);
            }
        }
        trial.end();
    };
    std::thread::scope(|scope| {
        for turn in 0..at_a_time {
            let some_of_them = &some_of_them;
            scope.spawn(move || some_of_them(turn));
        }
    });
}

#[test]
fn any_value_in_any_field_of_the_header_of_a_drop_ring() {
    try_all(&DROP, (0, 8), 1, invalid::fields);
}

#[test]
fn any_value_in_any_field_of_the_header_of_an_overwrite_ring() {
    try_all(&OVERWRITE, (4, 8), 1, invalid::fields);
}

#[test]
fn any_value_in_any_word_of_the_data_of_a_drop_ring() {
    try_all(&DROP, (0, 8), 1, invalid::data);
}

#[test]
fn any_value_in_any_word_of_the_data_of_an_overwrite_ring() {
    try_all(&OVERWRITE, (4, 8), 1, invalid::data);
}

#[test]
fn any_value_in_any_word_that_the_producers_of_a_shared_ring_share() {
    try_all(&SHARED[..3], (0, 16), 1, invalid::shared_words);
}

/// Checking whether an open reservation stays open takes time.
#[test]
fn some_values_in_the_words_of_a_shared_ring_with_an_open_reservation() {
    try_all(&SHARED[3..], (0, 200), WAITING, invalid::shared_words);
}

#[test]
fn any_value_in_any_word_of_the_data_of_a_shared_ring() {
    try_all(&SHARED[..3], (0, 16), 1, invalid::data);
}

#[test]
fn some_values_in_the_data_of_a_shared_ring_with_an_open_reservation() {
    try_all(&SHARED[3..], (0, 200), WAITING, invalid::data);
}

/// A slot that does not exist is not taken over, so a process that needs the lock gets an error
/// with its holder.
#[test]
fn a_lock_that_nobody_can_hold_is_an_error_and_no_hang() {
    let mut trial = Trial::new();
    for (nth, base) in golden(&SHARED).into_iter().enumerate() {
        for (at_lock, (lock, broken)) in invalid::invalid_locks(&base).enumerate() {
            if at_lock % SHARED.len() != nth && cases(0, 1) == 0 {
                continue; // each attempt to take the lock takes time
            }
            trial.case(format!("{}: the lock is {lock:#x}", base.name), |trial| {
                fs::write(&trial.path, &broken.bytes).unwrap();
                trial.read_only_doors();
                for refused in [
                    SharedProducer::attach_as(&trial.path, "hostile").err(),
                    recover(&trial.path).err(),
                ] {
                    let error = refused.expect("refused");
                    sentence(&error);
                    assert!(matches!(error, AttachError::HeldUp { .. }), "{error}");
                }
                // The value is stored while a producer is attached.
                fs::write(&trial.path, &base.bytes).unwrap();
                let producer = SharedProducer::attach_as(&trial.path, "hostile").unwrap();
                let open = producer.reserve(RecordType::BYTES, 8);
                let ring = File::options().write(true).open(&trial.path).unwrap();
                ring.write_all_at(&lock.to_le_bytes(), at("shared_lock").start as u64).unwrap();
                trial.publish_shared(&producer);
                drop(open);
                trial.consumer();
            });
        }
    }
    trial.end();
}

fn several(names: &[&'static str], rounds: u64) {
    let (mut trial, mut rng) = (Trial::new(), Rng::new(1));
    let bases = golden(names);
    for round in 0..rounds {
        let base = &bases[rng.index(bases.len())];
        let image = invalid::several(base, &mut rng);
        trial.file(format_args!("{}: round {round}", base.name), &image.bytes);
    }
    trial.end();
}

#[test]
fn several_consistent_invalid_fields() {
    several(&[&DROP[..], &OVERWRITE].concat(), cases(4_000, 40_000));
}

#[test]
fn several_consistent_invalid_fields_of_a_shared_ring() {
    several(&SHARED, cases(200, 2_000));
}

#[test]
fn any_start_position_of_an_observer() {
    let mut trial = Trial::new();
    for base in golden(&[&DROP[..], &OVERWRITE].concat()) {
        fs::write(&trial.path, &base.bytes).unwrap();
        let head = base.word("data_head");
        let near = (0..600).map(|n| head.wrapping_sub(4 * n));
        for pos in NASTY.into_iter().chain(near) {
            let before = Count { records: pos, bytes: u64::MAX };
            trial.case(format!("{}: from {pos}", base.name), |trial| {
                trial.observe(Start::At(Saved { pos, before, ..Saved::default() }));
                trial.observe(Start::At(Saved { pos, ..Saved::default() }));
            });
        }
    }
    trial.end();
}

#[test]
fn random_bytes_behind_a_good_header_and_instead_of_it() {
    let (mut trial, mut rng) = (Trial::new(), Rng::new(2));
    let base = Image::golden("overwrite_wrapped");
    for round in 0..cases(1_000, 10_000) {
        let image = invalid::random(&base, &mut rng, round);
        trial.file(format_args!("random, round {round}"), &image.bytes);
    }
    trial.end();
}
