//! An imitation of the kernel's writer in overwrite mode, and any bytes.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use super::*;
use crate::heap::HeapRing;
use alloc::vec;
use perfring_abi::Policy;
use perfring_abi::atomic::Ordering;
use perfring_testkit::rng::Rng;
use proptest::prelude::*;
use std::println;

const SIZE: u64 = 2048;
const KEPT: u64 = SIZE / 2;

/// Type and body.
type Record = (u32, Vec<u64>);

/// The kernel's side: `__perf_output_begin` with `write_backward`.
struct Kernel {
    heap: HeapRing,
    /// `rb->head`.
    head: u64,
    /// All writes, the oldest first, with the records of each in the order of their positions.
    written: Vec<Vec<Record>>,
}

impl Kernel {
    fn new() -> Self {
        Kernel { heap: HeapRing::new(SIZE, Policy::Drop).unwrap(), head: 0, written: Vec::new() }
    }

    /// Writes records by one reservation, the first at the lowest position, without storing the head.
    fn begin(&mut self, records: &[Record]) {
        let words: usize = records.iter().map(|(_, body)| 1 + body.len()).sum();
        self.head = self.head.wrapping_sub(8 * words as u64);
        let mut pos = self.head;
        for (kind, body) in records {
            let size = 8 + 8 * body.len() as u16;
            let word = RecordWord::pack(*kind, 0x4007, size).raw();
            for word in [word].iter().chain(body) {
                self.heap.ring().word(pos).store(*word, Ordering::Relaxed);
                pos = pos.wrapping_add(8);
            }
        }
        self.written.push(records.to_vec());
    }

    fn end(&self) {
        self.heap.header().data_head.store(self.head, Ordering::Release);
    }

    fn write(&mut self, records: &[Record]) {
        self.begin(records);
        self.end();
    }

    fn copy(&self) -> KernelCopy {
        let mut copy = KernelCopy::with_room(SIZE);
        copy.take(self.heap.ring()).unwrap();
        copy
    }

    /// Returns the newest records that fit into `room`, the oldest of them first.
    fn newest(&self, room: u64) -> Vec<Record> {
        let (mut newest, mut bytes) = (Vec::new(), 0);
        for write in self.written.iter().rev() {
            let before = newest.len();
            for record in write {
                bytes += 8 + 8 * record.1.len() as u64;
                if bytes > room {
                    newest.reverse();
                    return newest;
                }
                // Reversed below, with the first of a write the first again.
                newest.insert(before, record.clone());
            }
        }
        newest.reverse();
        newest
    }
}

fn records(copy: &KernelCopy) -> Vec<Record> {
    let of = |frame: &KernelFrame| (frame.kind, copy.body(frame).to_vec());
    copy.frames().iter().map(of).collect()
}

#[test]
fn a_copy_has_all_records_until_the_ring_is_full_and_then_the_newest_that_fit() {
    const RECORDS: u64 = if cfg!(miri) { 200 } else { 10_000 };
    let mut kernel = Kernel::new();
    assert_eq!((records(&kernel.copy()), kernel.copy().written()), (vec![], 0));
    assert_eq!(records(&KernelCopy::with_room(SIZE)), []);
    let (mut whole, mut cut) = (0, 0);
    for number in 0..RECORDS {
        kernel.write(&[(9, vec![number; (number % 7) as usize])]);
        let copy = kernel.copy();
        assert_eq!(copy.written(), kernel.head.wrapping_neg());
        let newest = kernel.newest(KEPT);
        assert_eq!(records(&copy), newest, "after {number}");
        let is_whole = newest.len() as u64 == number + 1;
        assert_eq!(is_whole, copy.written() <= KEPT);
        whole += u64::from(is_whole);
        cut += u64::from(!is_whole);
    }
    println!("{whole} whole copies, {cut} of a ring that had wrapped");
    assert!(whole > 20 && cut > 100);
}

#[test]
fn a_loss_comes_before_the_record_that_was_written_with_it() {
    let mut kernel = Kernel::new();
    let record = |number: u64| (9, vec![number; 3]);
    kernel.write(&[record(1)]);
    kernel.write(&[(RecordType::LOST, vec![7, 5]), record(2)]);
    kernel.write(&[record(3)]);
    let found = records(&kernel.copy());
    assert_eq!(found, [record(1), (RecordType::LOST, vec![7, 5]), record(2), record(3)]);
    // The number is still known when its record is not there any more.
    let mut kernel = Kernel::new();
    kernel.write(&[(RecordType::LOST, vec![7, 5]), (9, vec![2; 64])]);
    kernel.write(&[(RecordType::LOST, vec![7, 6]), (9, vec![3; 64])]);
    let last = [(RecordType::LOST, vec![7, 6]), (9, vec![3; 64])];
    assert_eq!(records(&kernel.copy())[1..], last);
    assert_eq!(records(&kernel.copy())[0], (RecordType::LOST, vec![7, 5]));
}

#[test]
fn a_record_that_was_begun_before_the_pause_damages_none_that_is_returned() {
    let mut kernel = Kernel::new();
    (0..100).for_each(|number| kernel.write(&[(9, vec![number; 3])]));
    // It is not shown by the head before the copy has ended: it may take what is left out.
    let before = kernel.newest(KEPT);
    kernel.begin(&[(9, vec![u64::MAX; ((SIZE - KEPT) / 8 - 1) as usize])]);
    assert_eq!(records(&kernel.copy()), before);
    kernel.end();
    // The head shows it after the copy: as much more is left out as it has.
    let mut copy = KernelCopy::with_room(SIZE);
    let head = copy.copy(kernel.heap.ring()).unwrap();
    let newest = kernel.newest(KEPT - 160);
    kernel.write(&[(9, vec![u64::MAX; 19])]);
    copy.leave_out_begun(kernel.heap.ring(), head);
    assert_eq!(records(&copy), newest);
    // More than a ring of them: nothing is left of the copy.
    kernel.head = kernel.head.wrapping_sub(SIZE);
    kernel.end();
    copy.leave_out_begun(kernel.heap.ring(), head);
    assert_eq!(records(&copy), []);
}

/// The kernel's longest records are `PERF_RECORD_MMAP2` with a path of 4096 bytes.
#[test]
fn the_longest_record_fits_into_what_is_left_out_of_any_ring_that_has_room_for_it() {
    for (size, left_out) in [
        (4 << 10, 2 << 10),
        (16 << 10, 8 << 10),
        (64 << 10, 8 << 10),
        (128 << 10, 8 << 10),
        (512 << 10, 32 << 10),
    ]
    .into_iter()
    .take(if cfg!(miri) { 3 } else { 5 })
    {
        let heap = HeapRing::new(size, Policy::Drop).unwrap();
        heap.header().data_head.store((2 * size).wrapping_neg(), Ordering::Relaxed);
        let mut copy = KernelCopy::default();
        copy.take(heap.ring()).unwrap();
        assert_eq!(copy.words.len() as u64 * 8, size - left_out, "of {size}");
    }
}

#[test]
fn heads_where_no_kernel_is_are_reported() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
    for head in [7, 1, 8, 1 << 61, 1 << 63, u64::MAX] {
        heap.header().data_head.store(head, Ordering::Relaxed);
        let mut copy = KernelCopy::default();
        assert_eq!(copy.take(heap.ring()), Err(Corrupt { pos: head }), "{head}");
        assert_eq!((records(&copy), copy.written()), (vec![], 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Of any words, records are returned that lie in the copy side by side, from its beginning on.
    #[test]
    fn any_words_are_walked_to_an_end_inside_of_them(
        words in prop::collection::vec(any_word(), 0..SIZE as usize / 8),
        written in 0..4 * SIZE / 8,
    ) {
        let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
        for (to, word) in heap.data().iter().zip(&words) {
            to.store(*word, Ordering::Relaxed);
        }
        heap.header().data_head.store((8 * written).wrapping_neg(), Ordering::Relaxed);
        let mut copy = KernelCopy::default();
        copy.take(heap.ring()).unwrap();
        let len = (8 * written).min(KEPT);
        let mut frames = copy.frames();
        frames.sort_by_key(|frame| frame.pos);
        let mut pos = 0;
        for frame in &frames {
            prop_assert_eq!(frame.pos, pos);
            prop_assert!(frame.size >= 8 && frame.end() <= len);
            prop_assert_eq!(copy.body(frame).len(), frame.words());
            pos = frame.end();
        }
    }
}

/// A word that is often a header.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0..20_u32, any::<u16>(), 0..40_u16).prop_map(|(kind, misc, words)| RecordWord::pack(
            kind,
            misc,
            8 * words
        )
        .raw()),
        (0..4_u32, 0..200_u16).prop_map(|(kind, size)| RecordWord::pack(kind, 0, size).raw()),
    ]
}

/// The imitation writes what the walk finds, whatever the sizes and the order of losses are.
#[test]
fn random_records_and_losses_come_back_in_order() {
    let (mut rng, mut wrapped) = (Rng::from_env(), 0);
    for round in 0..if cfg!(miri) { 5 } else { 300 } {
        let mut kernel = Kernel::new();
        // The first ring wraps in any case.
        let (count, least) = if round == 0 { (100, 11) } else { (rng.below(100), 0) };
        for number in 0..count {
            let body = vec![number; least.max(rng.below(12)) as usize];
            match rng.below(4) {
                0 => kernel.write(&[(RecordType::LOST, vec![0, number]), (9, body)]),
                _ => kernel.write(&[(9, body)]),
            }
        }
        assert_eq!(records(&kernel.copy()), kernel.newest(KEPT));
        wrapped += u32::from(kernel.copy().written() > KEPT);
    }
    println!("{wrapped} rings had wrapped");
    assert!(wrapped > 0);
}
