//! What damage takes from a buffer is counted and reported, by ring.

use super::damage::{deliver, records};
use super::kills::{Life, Rings, files};
use crate::numbered::{offer, origin};
use perfring_consumer::{Cause, RecordType};
use perfring_export::recording::{Options, Reader, Recording};
use perfring_export::{Event, Loss, LossCause, Origin, Output, Took, What};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::cases;
use perfring_types::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

const ALL: usize = 2500;
/// Bytes of a record in its ring.
const BYTES: u64 = 272;

/// Fills a buffer with records, in blocks of any sizes, among them losses that the rings report. Returns what each
/// ring has, lost or not.
fn fill(rng: &mut Rng, rings: &Rings, dir: &Path) -> BTreeMap<[u8; 16], u64> {
    let (mut written, mut life) = (BTreeMap::new(), Life::begin(rings, dir));
    for n in 0..ALL {
        rings.offer(&mut life.buffered, n..n + 1);
        let origin = &rings.0[(3 + n) % 2];
        *written.entry(origin.uuid).or_default() += 1;
        if rng.below(100) == 0 {
            let (pos, records) = (BYTES * (n as u64 / 2 + 1), 1 + rng.below(30));
            let cause = LossCause::Ring(Cause::Full);
            let loss = Loss::new(pos, records, BYTES * records, cause);
            let event = Event { seq: 3 + n as u64, origin, what: What::Lost(loss) };
            assert_eq!(life.buffered.take(&event).unwrap(), Took::Yes);
            *written.entry(origin.uuid).or_default() += records;
        }
        if rng.below(300) == 0 {
            life.pass(0);
        }
    }
    life.pass(0);
    if rng.below(2) == 0 {
        life.buffered.close(Instant::now()).unwrap();
    }
    written
}

/// What came of all rings, each once: a receiver tells duplicates apart by their keys.
#[derive(Default)]
struct Came {
    records: BTreeSet<String>,
    losses: BTreeMap<([u8; 16], u64, &'static str), Loss>,
}

impl Came {
    fn add(&mut self, life: &Life<'_>) {
        let came = life.narrow.came().into_iter();
        self.records.extend(came.filter(|text| !text.ends_with("Began") && !text.contains("Lost")));
        for (uuid, loss) in life.narrow.lost() {
            let before = self.losses.insert((uuid, loss.pos, loss.cause.name()), loss);
            assert!(before.is_none_or(|before| before == loss), "{before:?}, {loss:?}");
        }
    }

    /// Returns what is accounted for of each ring.
    fn all(&self, rings: &Rings) -> BTreeMap<[u8; 16], u64> {
        let of = |origin: &Origin| {
            let name = format!("{} ", origin.name);
            let records = self.records.iter().filter(|text| text.starts_with(&name)).count();
            let losses = self.losses.iter().filter(|((uuid, ..), _)| *uuid == origin.uuid);
            (origin.uuid, records as u64 + losses.map(|(_, loss)| loss.records).sum::<u64>())
        };
        rings.0.iter().map(of).collect()
    }

    /// Returns how many records damage took.
    fn damaged(&self) -> u64 {
        let losses = self.losses.values().filter(|loss| loss.cause == LossCause::Damaged);
        losses.map(|loss| loss.records).sum()
    }

    fn is_unknown(&self) -> bool {
        self.losses.values().any(|loss| loss.cause == LossCause::UnknownDamage)
    }
}

/// Changes bytes of a file, any of them. Returns which.
fn damage(rng: &mut Rng, dir: &tempfile::TempDir, most: usize) -> String {
    let names = files(dir);
    let name = &names[rng.index(names.len())];
    let len = fs::metadata(dir.path().join(name)).unwrap().len();
    let from = rng.index(len as usize);
    damage_at(rng, &dir.path().join(name), from, most)
}

fn damage_at(rng: &mut Rng, path: &Path, from: usize, most: usize) -> String {
    let mut bytes = fs::read(path).unwrap();
    let to = bytes.len().min(from + most);
    for byte in &mut bytes[from..to] {
        *byte ^= 1 << rng.below(8);
    }
    fs::write(path, &bytes).unwrap();
    format!("{from}..{to} of {} bytes of {}", bytes.len(), path.display())
}

/// The last file of a process that was killed has no end. A boot of the machine that cannot be read is none that has ended.
#[test]
fn damage_where_the_boot_stands_is_no_boot_of_the_machine() {
    let mut rng = Rng::from_env();
    let mut damaged = 0;
    for from in (64..320).step_by(8) {
        let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
        let mut life = Life::begin(&rings, dir.path());
        rings.offer(&mut life.buffered, 0..500);
        life.pass(0);
        drop(life);
        let last = dir.path().join(files(&dir).last().unwrap());
        let what = damage_at(&mut rng, &last, from, 1);
        let mut life = Life::begin(&rings, dir.path());
        deliver(&mut life);
        let trouble = life.buffered.figures().trouble.unwrap();
        assert!(!trouble.contains("started again"), "{what}: {trouble}");
        damaged += u32::from(trouble.contains("is damaged at byte"));
    }
    assert_eq!(damaged, 32);
}

#[test]
fn whichever_byte_is_damaged_what_is_delivered_and_what_is_lost_is_all_of_each_ring() {
    let mut rng = Rng::from_env();
    let (mut taken, mut whole) = (0, 0);
    for _ in 0..cases(60, 3000) {
        let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
        let written = fill(&mut rng, &rings, dir.path());
        let what = damage(&mut rng, &dir, 1);
        let (mut came, mut life) = (Came::default(), Life::begin(&rings, dir.path()));
        deliver(&mut life);
        came.add(&life);
        assert_eq!(came.all(&rings), written, "{what}");
        assert!(!came.is_unknown(), "{what}");
        // No more than a block, which is said, and the file is kept.
        assert!(came.damaged() < 300 + 30 * 20, "{what}: {}", came.damaged());
        let figures = life.buffered.figures();
        assert_eq!(figures.damaged, came.damaged(), "{what}");
        let trouble = figures.trouble.unwrap();
        assert!(trouble.contains("is damaged at byte"), "{what}: {trouble}");
        let kept = fs::read_dir(dir.path()).unwrap().filter_map(|entry| {
            entry.unwrap().path().extension().filter(|ending| *ending == "damaged").map(drop)
        });
        // The other one is that of this process.
        assert_eq!((kept.count(), files(&dir).len()), (1, 1), "{what}");
        let lost = came.losses.values().filter(|loss| loss.cause == LossCause::Damaged);
        lost.for_each(|loss| assert_eq!(loss.bytes, BYTES * loss.records, "{what}"));
        taken += came.damaged();
        whole += u64::from(came.damaged() == 0);
    }
    eprintln!("damage took {taken} records; none in {whole} cases");
    assert!(taken > 0);
}

#[test]
fn whatever_is_damaged_no_loss_is_hidden() {
    let mut rng = Rng::from_env();
    let mut unknown = 0;
    for _ in 0..cases(40, 3000) {
        let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
        let written = fill(&mut rng, &rings, dir.path());
        let most = [16, 512, 4096, 200_000][rng.index(4)];
        let places = [damage(&mut rng, &dir, most), damage(&mut rng, &dir, most)];
        let (mut came, mut life) = (Came::default(), Life::begin(&rings, dir.path()));
        deliver(&mut life);
        came.add(&life);
        for (uuid, accounted) in came.all(&rings) {
            assert!(accounted <= written[&uuid], "{places:?}");
            // Where not even a ring of a file is known, only the message says so.
            let trouble = life.buffered.figures().trouble.unwrap();
            let is_said = came.is_unknown()
                || trouble.contains("is not known")
                || trouble.contains("is not delivered");
            assert!(accounted == written[&uuid] || is_said, "{places:?}: {trouble}");
        }
        unknown += u32::from(came.is_unknown());
    }
    eprintln!("in {unknown} cases the number was not known");
}

#[test]
fn a_loss_by_damage_has_one_key_and_survives_kills() {
    let mut rng = Rng::from_env();
    for _ in 0..cases(20, 1000) {
        let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
        let written = fill(&mut rng, &rings, dir.path());
        let what = damage(&mut rng, &dir, 1);
        // All that was on its way, and what arrived.
        let (mut sent, mut came) = (Came::default(), Came::default());
        for _ in 0..8 {
            let mut life = Life::begin(&rings, dir.path());
            let arrives = rng.below(2) == 0;
            for _ in 0..rng.below(4) {
                life.pass(rng.index(700));
                if arrives {
                    life.narrow.deliver();
                    came.add(&life);
                }
            }
            sent.add(&life);
        }
        let mut life = Life::begin(&rings, dir.path());
        deliver(&mut life);
        sent.add(&life);
        came.add(&life);
        assert_eq!(came.all(&rings), written, "{what}");
    }
}

#[test]
fn wherever_delivery_stops_a_loss_by_damage_comes_until_it_is_delivered() {
    let rings = Rings::new();
    // The block with the rings, one with the records of both, and the last one.
    for (block, room) in (0..3).flat_map(|block| (0..40).map(move |room| (block, room))) {
        let dir = tempfile::tempdir().unwrap();
        let mut life = Life::begin(&rings, dir.path());
        for nth in 0..3 {
            rings.offer(&mut life.buffered, 10 * nth..10 * (nth + 1));
            life.pass(0);
        }
        drop(life);
        let path = dir.path().join(&files(&dir)[0]);
        let mut bytes = fs::read(&path).unwrap();
        let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"PFRB"));
        let at = starts.collect::<Vec<_>>()[1 + block] + 1000;
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let mut came = Came::default();
        for room in [room, usize::MAX] {
            let mut life = Life::begin(&rings, dir.path());
            life.pass(room);
            life.narrow.deliver();
            came.add(&life);
            life.pass(0);
        }
        let all = rings.0.iter().map(|origin| (origin.uuid, 15)).collect();
        assert_eq!((came.all(&rings), came.damaged()), (all, 10), "block {block}, {room} events");
    }
}

#[test]
fn damage_to_what_is_delivered_takes_nothing_that_is_not() {
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..700);
    life.pass(2 + 400);
    life.narrow.deliver();
    life.pass(0);
    drop(life);
    let path = dir.path().join(&files(&dir)[0]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[10_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut life = Life::begin(&rings, dir.path());
    deliver(&mut life);
    let expected: Vec<String> = (400..700).map(|n| rings.text(n)).collect();
    assert_eq!((records(&life), life.narrow.lost()), (expected, vec![]));
}

#[test]
fn after_damage_to_the_block_with_rings_and_types_later_records_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut rings = Rings::new();
    let id = RecordType::new(4096).unwrap();
    let text = r#"{"name":"numbers","encoding":"bytes"}"#;
    rings.0[0].types.extend([Ok(Entry { id, layout: 0, text })]);
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..10);
    life.pass(0);
    rings.offer(&mut life.buffered, 10..20);
    life.pass(0);
    drop(life);
    let path = dir.path().join(&files(&dir)[0]);
    let mut bytes = fs::read(&path).unwrap();
    // Other readers see each ring once, though it is there twice.
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut seen = BTreeSet::new();
    while let Ok(Some(event)) = reader.next() {
        seen.insert(event.origin.id);
    }
    assert_eq!(seen.len(), 2);
    let at = bytes.windows(7).position(|text| text == b"numbers").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut life = Life::begin(&rings, dir.path());
    deliver(&mut life);
    let expected: Vec<String> = (10..20).map(|n| rings.text(n)).collect();
    assert_eq!(records(&life), expected);
    assert_eq!(life.narrow.typed(), 5, "of one of the rings");
    let lost: Vec<u64> = life.narrow.lost().iter().map(|(_, loss)| loss.records).collect();
    assert_eq!(lost, [5, 5]);
}

#[test]
fn of_a_file_that_counts_no_rings_it_is_said_that_the_number_is_not_known() {
    let write = |rings: &[Origin], dir: &Path| {
        let path = dir.join("00000001.perfrec");
        let options = Options { path: path.clone(), ..Options::default() };
        let mut recording = Recording::open("old", &options).unwrap();
        for n in 0..30 {
            let origin = &rings[n as usize % rings.len()];
            assert_eq!(offer(&mut recording, origin, 1 + n, n), Took::Yes);
            if n % 10 == 9 {
                recording.flush().unwrap();
            }
        }
        recording.close(Instant::now()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let rings = Rings::new();
    for count in [2, 1] {
        let dir = tempfile::tempdir().unwrap();
        write(&rings.0[..count], dir.path());
        let mut life = Life::begin(&rings, dir.path());
        deliver(&mut life);
        let lost =
            life.narrow.lost().into_iter().map(|(_, loss)| (loss.records, loss.cause.name()));
        let lost: Vec<_> = lost.collect();
        match count {
            1 => assert_eq!(lost, [(20, "buffer damaged")]),
            _ => assert_eq!(lost, [(0, "unknown buffer damage"); 2]),
        }
        let trouble = life.buffered.figures().trouble.unwrap();
        assert!(trouble.contains("20 records are missing"), "{trouble}");
    }
    assert_eq!(origin().uuid, rings.0[0].uuid);
}
