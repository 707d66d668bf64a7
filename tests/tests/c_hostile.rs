//! The C headers on invalid files, built with the address and undefined-behaviour sanitizers: the
//! same result as in Rust, message for message, and never an access outside the mapping, a hang or
//! an endless loop.

use perfring_abi::{BadRing, FEATURE_AUX, FEATURE_CONSUMERS, FIELDS};
use perfring_consumer::{AttachError, Consumer, ConsumerOptions, Item, Observer, Start};
use perfring_testkit::image::Image;
use perfring_testkit::invalid::{self, golden};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::cases;
use perfring_testkit::spoiler::Spoiler;
use perfring_tests::foreign::{Build, Peer, c_peer};
use perfring_tests::ring_dir;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rings of each kind to start from.
const BASES: [&str; 10] = [
    "drop_wrapped_with_losses",
    "drop_foreign_reader",
    "overwrite_wrapped",
    "overwrite_half",
    "killed_between_mark_and_tail",
    "timed_drop",
    "shared_overwrite_lapped",
    "typed",
    "per_cpu_overwrite",
    "per_cpu_sample_id",
];

/// The result of an observer: the code of the C headers, the number of items, the sum of their
/// bytes, and the message of an error.
type Outcome = (i32, u64, u64, String);

fn rust(path: &Path) -> Outcome {
    let mut observer = match Observer::attach(path, Start::Oldest) {
        Ok(observer) => observer,
        Err(AttachError::Bad { source, .. }) => {
            let code = match source {
                BadRing::Short { .. } | BadRing::Foreign { .. } => -2,
                BadRing::Endian => -3,
                BadRing::Newer { .. } => -4,
                BadRing::Features { .. } => -5,
                BadRing::Field { .. } => -6,
                BadRing::Truncated { .. } => -7,
                other => panic!("{other}"),
            };
            return (code, 0, 0, source.to_string());
        }
        Err(AttachError::Corrupt { source, .. }) => return (-12, 0, 0, source.to_string()),
        Err(error) => panic!("{error}"),
    };
    let (mut found, mut sum) = (0, 0);
    loop {
        match observer.read() {
            Ok(Some(Item::Record(record))) => {
                sum += record.bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                found += 1;
            }
            Ok(Some(Item::Lost(_))) => found += 1,
            Ok(None) => return (0, found, sum, String::new()),
            Err(corrupt) => return (-12, found, sum, corrupt.to_string()),
        }
    }
}

/// Returns the same for the consumer, which releases its records.
fn rust_consumer(path: &Path) -> (i32, u64, u64) {
    let mut consumer = match Consumer::attach_with(path, &ConsumerOptions::named("c_peer")) {
        Ok(consumer) => consumer,
        Err(AttachError::Corrupt { .. }) => return (-12, 0, 0),
        Err(error) => panic!("{error}"),
    };
    let (mut found, mut sum) = (0, 0);
    loop {
        match consumer.read() {
            Ok(Some(Item::Record(record))) => {
                sum += record.bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                found += 1;
            }
            Ok(Some(Item::Lost(_))) => found += 1,
            Ok(None) => return (0, found, sum),
            Err(_) => return (-12, found, sum),
        }
    }
}

/// The C side, while it lives.
struct Theirs {
    peer: Peer,
    cases: u64,
    codes: BTreeMap<i32, u64>,
}

impl Theirs {
    fn start(dir: &Path) -> Self {
        let exe = c_peer(Build::Sanitized, dir).expect("a C compiler with sanitizers: install gcc");
        Theirs {
            peer: Peer::start(&exe, &["try"], Path::new("")),
            cases: 0,
            codes: BTreeMap::new(),
        }
    }

    fn ask(&mut self, role: &str, path: &Path, case: &str) -> Outcome {
        let line = self.peer.ask(&format!("{role} {}", path.display()));
        let mut words = line.splitn(4, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
        let (Some(code), Some(found), Some(sum)) = (number(), number(), number()) else {
            panic!("{case}, {role}: it died, having said {line:?}");
        };
        self.cases += 1;
        *self.codes.entry(code as i32).or_default() += 1;
        (code as i32, found as u64, sum as u64, words.next().unwrap_or("").to_owned())
    }

    /// Tries every role on this file; the observers' results must be equal.
    fn file(&mut self, path: &Path, bytes: &[u8], case: &str) {
        fs::write(path, bytes).unwrap();
        let (mut ours, mut theirs) = (rust(path), self.ask("observer", path, case));
        // C does not know these features, and may refuse the ring for them instead of for another fault.
        let field = FIELDS.iter().find(|field| field.name == "features_required");
        let features = field.unwrap().offset;
        let unknown = (FEATURE_AUX | FEATURE_CONSUMERS) as u8;
        if bytes.get(features).is_some_and(|low| low & unknown != 0) && theirs.0 == -5 {
            ours = theirs.clone();
        }
        // In Rust the last position is reserved for truncated files.
        let (last, cut) = ((u64::MAX - 7).to_string(), u64::MAX.to_string());
        (ours.3, theirs.3) = (ours.3.replace(&cut, &last), theirs.3.replace(&cut, &last));
        assert_eq!(
            (ours.0, ours.1, ours.2),
            (theirs.0, theirs.1, theirs.2),
            "{case}: {ours:?} {theirs:?}"
        );
        // The advice for an unknown feature differs.
        if ours.0 == -5 {
            assert!(theirs.3.starts_with("the ring needs features"), "{case}");
        } else {
            assert_eq!(ours.3, theirs.3, "{case}");
        }
        assert!(fs::read(path).unwrap() == bytes, "{case}: reading changed the file");
        let theirs = self.ask("consumer", path, case);
        if theirs.0 == 0 || theirs.0 == -12 {
            fs::write(path, bytes).unwrap();
            assert_eq!(rust_consumer(path), (theirs.0, theirs.1, theirs.2), "{case}: {}", theirs.3);
        }
        fs::write(path, bytes).unwrap();
        self.ask("producer", path, case);
    }

    fn end(self) {
        println!("{} entry points tried, by code {:?}", self.cases, self.codes);
        let codes: Vec<_> = self.codes.into_keys().collect();
        assert_eq!(codes.last(), Some(&0), "nothing was ever opened");
        self.peer.end();
    }
}

/// Compares every case of these rings in C and in Rust.
fn compare<'a>(cases: impl Iterator<Item = invalid::Case> + 'a) {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut theirs = Theirs::start(dir.path());
    for (what, image) in cases {
        theirs.file(&path, &image.bytes, &what);
    }
    theirs.end();
}

#[test]
fn a_broken_field_is_judged_in_c_as_in_rust() {
    let bases =
        golden(&["drop_wrapped_with_losses", "overwrite_wrapped", "timed_drop", "per_cpu_drop"]);
    let fields = bases.iter().enumerate().flat_map(|(nth, base)| invalid::fields(base, nth, 24));
    let short = bases.iter().flat_map(|base| {
        [0, 1, 4095, 4096, 8192, base.bytes.len() - 1].map(|len| {
            let mut image = base.clone();
            image.bytes.truncate(len);
            (format!("{}, {len} bytes of it", base.name), image)
        })
    });
    compare(fields.chain(short));
}

/// A consumer's counts whose sum is more than there is: the most, in both.
#[test]
fn counts_that_overflow_are_added_in_c_as_in_rust() {
    let field = FIELDS.iter().find(|field| field.name == "consumer_totals").unwrap();
    compare(golden(&["overwrite_half", "overwrite_wrapped"]).into_iter().map(|mut image| {
        let words = [1, 0, u64::MAX - 159, 0, 200, 0, 0, 1_u64];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        image.bytes[field.offset..][..bytes.len()].copy_from_slice(&bytes);
        (image.name.to_owned(), image)
    }));
}

/// A record that would end beyond the mapping, and a head that permits it.
#[test]
fn consistent_invalid_fields_are_judged_in_c_as_in_rust() {
    let bases = golden(&BASES);
    compare(bases.iter().flat_map(invalid::long_records));
}

#[test]
fn broken_words_anywhere_are_judged_in_c_as_in_rust() {
    let (bases, mut rng) = (golden(&BASES), Rng::new(1));
    compare((0..cases(2_000, 20_000)).map(|round| {
        let base = &bases[rng.index(bases.len())];
        (format!("{}, case {round}", base.name), invalid::several(base, &mut rng))
    }));
}

/// A process overwrites positions and header words while C reads them, and restores them now and
/// then.
#[test]
fn changes_while_c_reads_do_no_harm() {
    let dir = ring_dir();
    let exe = c_peer(Build::Sanitized, dir.path()).expect("a C compiler with sanitizers");
    let mut items = 0;
    for name in BASES {
        let path = dir.path().join(name);
        fs::write(&path, &Image::golden(name).bytes).unwrap();
        let mut spoiler = Spoiler::new(&path, 31).unwrap().keeping_length();
        let peer = Peer::start(&exe, &["endure", "150"], &path);
        let done = AtomicBool::new(false);
        let invalid = std::thread::scope(|scope| {
            let liar = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    spoiler.step().unwrap();
                }
                spoiler.steps
            });
            let said = peer.end();
            done.store(true, Ordering::Relaxed);
            println!("{name}: {said}");
            items += said.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
            liar.join().unwrap()
        });
        println!("{invalid} changes");
    }
    assert!(items > 0, "nothing was ever read");
}
