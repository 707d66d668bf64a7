//! The type table under loom: a writer adds an entry and dies at each of its stores, while others
//! read; then the next writer adds one.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_types::
//! ```
#![cfg(loom)]

use crate::loom_model::model;
use loom::sync::Arc;
use loom::thread;
use perfring_abi::TYPES_FIRST;
use perfring_abi::atomic::{AtomicU64, death};
use perfring_ring::{TypeTableArea, TypeTableWriter};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

#[test]
fn a_reader_sees_an_entry_whole_or_not_at_all_wherever_its_writer_dies() {
    let seen = std::sync::Arc::new([const { Plain::new(0) }; 3]);
    for stores in 0..=3 {
        let seen = std::sync::Arc::clone(&seen);
        model("", 3, move |_| {
            let words: Vec<_> = (0..12).map(|_| AtomicU64::new(0)).collect();
            words[0].store(TYPES_FIRST, perfring_abi::atomic::Ordering::Relaxed);
            let words = Arc::new(words);
            let writer = thread::spawn({
                let words = Arc::clone(&words);
                move || {
                    let lived =
                        death::after(stores, || TypeTableWriter::new(&words).append(&[1, 2]));
                    assert_eq!(lived.is_some(), stores == 3);
                }
            });
            let reader = thread::spawn({
                let (words, seen) = (Arc::clone(&words), std::sync::Arc::clone(&seen));
                move || {
                    let entries = TypeTableArea::new(&words).entries();
                    seen[entries.len()].fetch_add(1, Relaxed);
                    assert!(entries.is_empty() || entries == [1, 2], "{entries:?}");
                }
            });
            writer.join().unwrap();
            reader.join().unwrap();
            let before = TypeTableArea::new(&words).entries();
            assert_eq!(before.is_empty(), stores < 3);
            TypeTableWriter::new(&words).append(&[3]).unwrap();
            assert_eq!(TypeTableArea::new(&words).entries(), [before, vec![3]].concat());
        });
    }
    let [none, half, whole] = [0, 1, 2].map(|len| seen[len].load(Relaxed));
    println!("{none} times no entry was seen, {half} times half of one, {whole} times a whole one");
    assert!(none > 0 && half == 0 && whole > 0);
}
