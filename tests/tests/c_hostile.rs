//! The C headers on files that lie, built with the address and undefined-behaviour sanitizers: the same
//! verdict as the Rust side, sentence for sentence, and never an access outside the mapping, a hang or a
//! loop.
#![allow(clippy::unwrap_used, clippy::panic)]

use perfring_abi::{BadRing, FIELDS};
use perfring_consumer::{AttachError, Consumer, Item, Observer, Start};
use perfring_tests::foreign::{Build, Peer, c_peer};
use perfring_tests::shared::Random;
use perfring_tests::spoiler::NASTY;
use perfring_tests::{ring_dir, workspace};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rings of each kind to start from.
const BASES: [&str; 8] = [
    "drop_wrapped_with_losses",
    "drop_foreign_reader",
    "overwrite_wrapped",
    "overwrite_half",
    "killed_between_mark_and_tail",
    "timed_drop",
    "shared_overwrite_lapped",
    "typed",
];

/// What came of an observer: the code of the C headers, the items found, the sum of their bytes, and of a
/// refusal the sentence.
type Outcome = (i32, u64, u64, String);

fn rust(path: &Path) -> Outcome {
    let mut observer = match Observer::open(path, Start::Oldest) {
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

/// The same of the consumer, which leaves it read.
fn rust_consumer(path: &Path) -> (i32, u64, u64) {
    let mut consumer = match Consumer::attach_as(path, "c_peer") {
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

/// The C side, as long as it lives.
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

    /// Every role on this file; what the observer finds is what ours finds.
    fn file(&mut self, path: &Path, bytes: &[u8], case: &str) {
        fs::write(path, bytes).unwrap();
        let (mut ours, mut theirs) = (rust(path), self.ask("observer", path, case));
        // The one feature that C does not know of, whatever else is wrong.
        let field = FIELDS.iter().find(|field| field.name == "features_required");
        let features = field.unwrap().offset;
        if bytes.get(features).is_some_and(|low| low & 2 != 0) && theirs.0 == -5 {
            ours = theirs.clone();
        }
        // Ours keeps the last position for files that were cut.
        let (last, cut) = ((u64::MAX - 7).to_string(), u64::MAX.to_string());
        (ours.3, theirs.3) = (ours.3.replace(&cut, &last), theirs.3.replace(&cut, &last));
        assert_eq!(
            (ours.0, ours.1, ours.2),
            (theirs.0, theirs.1, theirs.2),
            "{case}: {ours:?} {theirs:?}"
        );
        // Of a feature, this side's advice is another.
        if ours.0 == -5 {
            assert!(theirs.3.starts_with("the ring needs features"), "{case}");
        } else {
            assert_eq!(ours.3, theirs.3, "{case}");
        }
        assert!(fs::read(path).unwrap() == bytes, "{case}: looking changed the file");
        let theirs = self.ask("consumer", path, case);
        if theirs.0 == 0 || theirs.0 == -12 {
            fs::write(path, bytes).unwrap();
            assert_eq!(rust_consumer(path), (theirs.0, theirs.1, theirs.2), "{case}: {}", theirs.3);
        }
        fs::write(path, bytes).unwrap();
        self.ask("producer", path, case);
    }

    fn end(self) {
        println!("{} doors tried, by code {:?}", self.cases, self.codes);
        let codes: Vec<_> = self.codes.into_keys().collect();
        assert_eq!(codes.last(), Some(&0), "none is ever opened: nothing was tried");
        self.peer.end();
    }
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(workspace().join(format!("proto/golden/{name}.perfring"))).unwrap()
}

#[test]
fn a_broken_field_is_judged_in_c_as_in_rust() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut theirs = Theirs::start(dir.path());
    for name in ["drop_wrapped_with_losses", "overwrite_wrapped", "timed_drop"] {
        let base = golden(name);
        for field in FIELDS {
            // The words of an array are broken below.
            let size = field.size.min(8);
            for value in NASTY {
                let mut bytes = base.clone();
                let lie = &value.to_ne_bytes()[..size];
                bytes[field.offset..][..size].copy_from_slice(lie);
                theirs.file(&path, &bytes, &format!("{name}: {} = {value:#x}", field.name));
            }
        }
        for len in [0, 1, 4095, 4096, 8192, base.len() - 1] {
            theirs.file(&path, &base[..len], &format!("{name}, {len} bytes of it"));
        }
    }
    theirs.end();
}

/// A record that would end beyond the mapping, and a head that admits it.
#[test]
fn lies_that_fit_each_other_are_judged_in_c_as_in_rust() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut theirs = Theirs::start(dir.path());
    for name in BASES {
        let base = golden(name);
        let word = |at: usize| u64::from_ne_bytes(base[at..at + 8].try_into().unwrap());
        let tail = word(1032);
        for ahead in [4088, 4096, 8192, 65_528, 65_536, 1 << 40] {
            for size in [8u16, 16, 24, 4088, 4096, 8192, 65_528] {
                for kind in [4096u32, 2, 0x5046_0001] {
                    let mut bytes = base.clone();
                    let at = 4096 + (tail % 4096) as usize;
                    bytes[1024..1032].copy_from_slice(&(tail + ahead).to_ne_bytes());
                    bytes[at..at + 4].copy_from_slice(&kind.to_ne_bytes());
                    bytes[at + 4..at + 6].fill(0);
                    bytes[at + 6..at + 8].copy_from_slice(&size.to_ne_bytes());
                    let case = format!("{name}: {ahead} bytes, of them {size} of type {kind}");
                    theirs.file(&path, &bytes, &case);
                }
            }
        }
    }
    theirs.end();
}

#[test]
fn broken_words_anywhere_are_judged_in_c_as_in_rust() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut theirs = Theirs::start(dir.path());
    let mut random = Random(20_260_101);
    for name in BASES {
        let base = golden(name);
        for case in 0..250 {
            let mut bytes = base.clone();
            for _ in 0..=random.below(3) {
                // What changes while the ring is in use, or a word of the data.
                let at = if random.below(2) == 0 {
                    1024 + 8 * random.below(2)
                } else {
                    1408 + 8 * random.below(144)
                };
                let at =
                    if random.below(2) == 0 { at } else { 4096 + 8 * random.below(512) } as usize;
                let old = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
                let lie = match random.below(4) {
                    0 => NASTY[random.below(NASTY.len() as u64) as usize],
                    1 => old.wrapping_add(8),
                    2 => old.wrapping_sub(8),
                    _ => old ^ 1 << random.below(64),
                };
                bytes[at..at + 8].copy_from_slice(&lie.to_ne_bytes());
            }
            theirs.file(&path, &bytes, &format!("{name}, case {case}"));
        }
    }
    theirs.end();
}

/// Somebody who writes over positions and header words while C reads them, and puts the truth back now and
/// then.
#[test]
fn lies_that_change_while_c_reads_them_harm_nobody() {
    let dir = ring_dir();
    let exe = c_peer(Build::Sanitized, dir.path()).expect("a C compiler with sanitizers");
    let mut items = 0;
    for name in BASES {
        let (base, path) = (golden(name), dir.path().join(name));
        fs::write(&path, &base).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let peer = Peer::start(&exe, &["endure", "150"], &path);
        let (done, mut random) = (AtomicBool::new(false), Random(31));
        let word = |at: u64| u64::from_ne_bytes(base[at as usize..][..8].try_into().unwrap());
        let lies = std::thread::scope(|scope| {
            let liar = scope.spawn(|| {
                let mut lies = 0;
                while !done.load(Ordering::Relaxed) {
                    let (at, lie) = match random.below(4) {
                        0 => (1024 + 8 * random.below(2), word(1032) + 8 * random.below(20_000)),
                        1 => (1408 + 8 * random.below(144), random.below(1 << 20)),
                        // A word of the data, with a size that some mapping would not hold.
                        2 => (4096 + 8 * random.below(512), 65_528 << 48 | 4096),
                        _ => (4096 + 8 * random.below(512), random.below(1 << 13) << 51 | 4096),
                    };
                    file.write_all_at(&lie.to_ne_bytes(), at).unwrap();
                    lies += 1;
                    if random.below(4) == 0 {
                        file.write_all_at(&base[1024..], 1024).unwrap();
                    }
                }
                lies
            });
            let said = peer.end();
            done.store(true, Ordering::Relaxed);
            println!("{name}: {said}");
            items += said.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
            liar.join().unwrap()
        });
        println!("{lies} lies");
    }
    assert!(items > 0, "nothing was ever read");
}
