//! The walk over records, for any content of 64 bytes: each header word that the walk loads is tried with every size.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use crate::record::Walk;
use alloc::vec::Vec;
use perfring_abi::{RecordType, RecordWord};

const END: u64 = 64;

/// The rule of ABI.md: the size of the record at `pos` with this `misc` and size, or `None` for no record.
fn expected(pos: u64, misc: u16, size: u16) -> Option<u64> {
    let (pad, size) = (u64::from(misc % 8), u64::from(size));
    (size % 8 == 0 && size >= 8 + pad && pos + size <= END).then_some(size)
}

/// Walks over the words, and checks that no other word is loaded and that the walk returns the expected records.
fn walk(words: &[(u64, RecordWord)], sizes: &[u64], whole: bool) {
    let mut loaded = words.iter();
    let load = |pos| {
        let &(at, word) = loaded.next().expect("a word that is no record's is the last");
        assert_eq!(at, pos, "a place where no record begins");
        word.raw()
    };
    let mut walk = Walk { pos: 0, end: END, load };
    let mut pos = 0;
    for &size in sizes {
        let record = walk.next().unwrap().unwrap();
        assert_eq!((record.pos, record.size(), record.end()), (pos, size, pos + size));
        assert!(record.len as u64 + 8 <= size);
        pos += size;
    }
    if whole {
        assert!(walk.next().is_none());
    } else {
        assert_eq!(walk.next().unwrap().unwrap_err().pos, pos);
    }
}

/// Tries every size, and paddings of each class, for the word at `pos`, and continues behind each valid record.
fn from(pos: u64, words: &mut Vec<(u64, RecordWord)>, sizes: &mut Vec<u64>) -> u64 {
    if pos == END {
        walk(words, sizes, true);
        return 1;
    }
    let mut walks = 0;
    for size in 0..=u16::MAX {
        for misc in [0, 1, 7] {
            words.push((pos, RecordWord::pack(RecordType::BYTES.get(), misc, size)));
            if let Some(size) = expected(pos, misc, size) {
                sizes.push(size);
                walks += from(pos + size, words, sizes);
                sizes.pop();
            } else {
                walk(words, sizes, false);
                walks += 1;
            }
            words.pop();
        }
    }
    walks
}

#[test]
fn a_walk_over_any_64_bytes_stays_within_them_and_ends() {
    assert!(from(0, &mut Vec::new(), &mut Vec::new()) > 1_000_000);
}
