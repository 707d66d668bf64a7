//! Files without an end: a process that was killed leaves one, which lacks nothing. What is really missing is said.

use super::damage::records;
use super::kills::{Life, Rings, files};
use perfring_export::Output as _;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Records in two blocks, of which the first has these.
const FIRST: usize = 14;
const ALL: usize = 30;
/// Bytes before the first block, and of a block's header.
const HEAD: usize = 16;
const BLOCK_HEAD: usize = 40;

/// A buffer whose writer was killed, with one file of two blocks. The output has so many records of it.
struct Killed {
    dir: TempDir,
    file: PathBuf,
    /// How long the file was when it had the first block.
    first: usize,
    bytes: Vec<u8>,
}

fn killed(rings: &Rings, delivered: usize) -> Killed {
    let dir = tempfile::tempdir().unwrap();
    let mut life = Life::begin(rings, dir.path());
    rings.offer(&mut life.buffered, 0..FIRST);
    life.pass(0);
    let file = dir.path().join(&files(&dir)[0]);
    let first = fs::read(&file).unwrap().len();
    rings.offer(&mut life.buffered, FIRST..ALL);
    life.pass(if delivered == 0 { 0 } else { 2 + delivered });
    life.narrow.deliver();
    life.pass(0);
    drop(life);
    assert_eq!(files(&dir).len(), 1);
    let bytes = fs::read(&file).unwrap();
    Killed { dir, file, first, bytes }
}

impl Killed {
    /// The next process: its rings still have the records that are in no block. Returns what came, and what was said.
    fn next(&self, rings: &Rings, in_file: usize) -> (Vec<String>, Vec<String>) {
        let mut life = Life::begin(rings, self.dir.path());
        let mut said: Vec<String> = life.buffered.figures().trouble.into_iter().collect();
        rings.offer(&mut life.buffered, in_file..ALL);
        for _ in 0..4 {
            life.pass(usize::MAX);
            life.narrow.deliver();
            said.extend(life.buffered.figures().trouble);
        }
        said.dedup();
        (records(&life), said)
    }

    /// Goes back to what the killed process left, with a part of its file.
    fn restore(&self, place: &[u8], len: usize) {
        files(&self.dir)
            .iter()
            .for_each(|name| fs::remove_file(self.dir.path().join(name)).unwrap());
        fs::write(&self.file, &self.bytes[..len]).unwrap();
        fs::write(self.place(), place).unwrap();
    }

    fn place(&self) -> PathBuf {
        self.dir.path().join("place")
    }
}

#[test]
fn at_whichever_byte_of_a_write_it_is_killed_all_arrives_and_nothing_is_said_to_be_missing() {
    let rings = Rings::new();
    let all: Vec<String> = (0..ALL).map(|n| rings.text(n)).collect();
    let mut kills = 0;
    for delivered in [0, FIRST / 2] {
        let killed = killed(&rings, delivered);
        let (place, len) = (fs::read(killed.place()).unwrap(), killed.bytes.len());
        // A place of which half is delivered is saved after the second block alone.
        let least = if delivered == 0 { 0 } else { killed.first };
        let cuts =
            (least..=len).filter(|cut| cut % 7 == 0 || *cut < HEAD + BLOCK_HEAD || *cut == len);
        for cut in cuts {
            killed.restore(&place, cut);
            let in_file = match cut {
                cut if cut == len => ALL,
                cut if cut >= killed.first => FIRST,
                _ => 0,
            };
            let (came, said) = killed.next(&rings, in_file);
            assert_eq!((came, said), (all[delivered..].to_vec(), vec![]), "{cut} of {len}");
            kills += 1;
        }
        // The draft of the next place is as far.
        for cut in 0..=place.len() {
            killed.restore(&place, len);
            fs::write(killed.dir.path().join("place.new"), &place[..cut]).unwrap();
            assert_eq!(killed.next(&rings, ALL), (all[delivered..].to_vec(), vec![]), "{cut}");
            kills += 1;
        }
    }
    eprintln!("{kills} kills");
}

#[test]
fn a_file_that_another_program_has_cut_short_is_named_with_what_is_known() {
    let rings = Rings::new();
    // Of 18 records and two rings' beginnings, the first block has 14.
    let killed = killed(&rings, 18);
    killed.restore(&fs::read(killed.place()).unwrap(), killed.first);
    let (came, said) = killed.next(&rings, ALL);
    assert!(came.is_empty(), "{came:?}");
    let [said] = &said[..] else { panic!("{said:?}") };
    let expected = "was cut short: 20 events of it were delivered, and it has 16 now";
    assert!(said.contains(expected) && said.contains(killed.file.to_str().unwrap()), "{said}");
}

/// Changes the boot in which a file was written, in its first block.
fn set_boot(file: &Path, boot: [u8; 16]) {
    let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let now: Vec<u8> = now.trim().replace('-', "").into_bytes();
    let now: Vec<u8> = now
        .chunks(2)
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect();
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.windows(16).position(|window| window == now).unwrap();
    bytes[at..at + 16].copy_from_slice(&boot);
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let frames = HEAD + BLOCK_HEAD;
    let len = word(&bytes, HEAD + 4) as usize;
    let crc = crc32fast::hash(&bytes[frames..frames + len]);
    bytes[HEAD + 32..HEAD + 36].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&bytes[HEAD..HEAD + 36]);
    bytes[HEAD + 36..frames].copy_from_slice(&crc.to_le_bytes());
    fs::write(file, bytes).unwrap();
}

#[test]
fn after_another_boot_a_file_without_its_end_may_lack_records_and_that_is_said() {
    let rings = Rings::new();
    let killed = killed(&rings, 0);
    set_boot(&killed.file, [7; 16]);
    let (came, said) = killed.next(&rings, ALL);
    assert_eq!(came.len(), ALL);
    let [said] = &said[..] else { panic!("{said:?}") };
    assert!(said.contains("has no end, and the machine was started again"), "{said}");
    // So may one without its beginning, and an empty one: the buffer has the boot of its last process.
    let place = fs::read(killed.place()).unwrap();
    for len in [HEAD + BLOCK_HEAD, 0] {
        killed.restore(&place, len);
        fs::write(killed.dir.path().join("lock"), "00000000-0000-0000-0000-000000000007").unwrap();
        let (_, said) = killed.next(&rings, 0);
        assert!(said.len() == 1 && said[0].contains("was started again"), "{len}: {said:?}");
        killed.restore(&place, len);
        assert_eq!(killed.next(&rings, 0).1, [""; 0], "{len}: that is noted");
    }
}
