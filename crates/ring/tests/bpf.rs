//! The reader of BPF ring-buffer maps against an imitation of the kernel's producers, which take steps before each of its
//! loads; and that imitation against traces of a real kernel.
//!
//! Seen red: without the second look at `overwrite_pos`, with that look before the copy, with a discarded record returned,
//! with an open one read, with eight bytes of a loss missing, with a loss up to the newest record, with `consumer_pos` stored
//! too far, and stored over another consumer's.
#![cfg(not(loom))]

use crate::bpf_kernel::{Ended, Kernel, Racing, Written};
use crate::kernel_traces::{SIZE, files, rows};
use perfring_abi::BpfWord;
use perfring_ring::{BpfFault, BpfPages, BpfReader, BpfRole, BpfStep};
use perfring_testkit::rng::Rng;
use std::cell::Cell;

const CASES: u64 = if cfg!(miri) { 5 } else { 3_000 };

/// What a reader returned, held against what was written.
#[derive(Debug, Default)]
struct Checked {
    /// The position after everything that was returned or reported.
    at: u64,
    records: u64,
    bytes: u64,
    lost: u64,
    losses: u64,
    open: u64,
}

impl Checked {
    /// Takes what a reader finds now, up to a number of records. Returns whether there may be more.
    fn take(&mut self, pages: &Racing, reader: &mut BpfReader, most: u64) -> bool {
        let mut body = Vec::new();
        for _ in 0..most {
            match reader.next(pages, &mut body).unwrap() {
                BpfStep::Empty => return false,
                BpfStep::Open => {
                    self.open += 1;
                    return false;
                }
                BpfStep::Lost { pos, bytes } => {
                    self.skip(pages, pos);
                    let [consumer, _, overwritten] = pages.kernel.borrow().positions();
                    let gone = match reader.role() {
                        BpfRole::OverwriteObserver => overwritten,
                        _ => consumer,
                    };
                    assert!(bytes > 0 && pos + bytes <= gone, "{pos} + {bytes} is there: {gone}");
                    self.at += bytes;
                    (self.lost, self.losses) = (self.lost + bytes, self.losses + 1);
                }
                BpfStep::Record(frame) => {
                    self.skip(pages, frame.pos);
                    let record = self.record(pages).unwrap();
                    assert_eq!(record.ended, Some(Ended::Submitted), "{record:?}");
                    let end = record.pos + record.size();
                    assert_eq!((frame.len, frame.end), (record.len as usize, end));
                    for (nth, word) in body.iter().enumerate() {
                        assert_eq!(*word, record.word(nth), "word {nth} of {record:?} is torn");
                    }
                    self.at = frame.end;
                    (self.records, self.bytes) = (self.records + 1, self.bytes + record.size());
                }
            }
        }
        true
    }

    fn record(&self, pages: &Racing) -> Option<Written> {
        let kernel = pages.kernel.borrow();
        let at = kernel.written.binary_search_by_key(&self.at, |record| record.pos);
        at.ok().map(|at| kernel.written[at])
    }

    /// Skips discarded records up to a position: there is no hole but them.
    fn skip(&mut self, pages: &Racing, to: u64) {
        while self.at < to {
            let record = self.record(pages).unwrap();
            assert_eq!(record.ended, Some(Ended::Discarded), "{record:?} was not returned");
            self.at += record.size();
        }
        assert_eq!(self.at, to);
    }
}

#[test]
fn an_observer_returns_whole_records_in_order_and_the_bytes_that_it_missed_whatever_happens_between_two_loads()
 {
    let (mut records, mut losses, mut lost, mut open) = (0, 0, 0, 0);
    for seed in 0..CASES {
        let mut rng = Rng::new(seed);
        let size = 256 << rng.below(3);
        let kernel = Kernel::new(size, true, 1 + rng.below(3) as usize);
        let racing = Racing::new(kernel, seed, 1 + rng.below(size / 2));
        (0..rng.below(100)).for_each(|_| racing.turn());
        let mut reader = BpfReader::attach(&racing, BpfRole::OverwriteObserver).unwrap();
        let mut checked = Checked { at: reader.released(), ..Checked::default() };
        let began = checked.at;
        for _ in 0..20 {
            reader.poll(&racing).unwrap();
            checked.take(&racing, &mut reader, 1 + rng.below(20));
            (0..rng.below(10)).for_each(|_| racing.turn());
        }
        racing.stop();
        reader.poll(&racing).unwrap();
        while checked.take(&racing, &mut reader, 1000) {}
        let [_, end, _] = racing.kernel.borrow().positions();
        checked.skip(&racing, end);
        let sum = checked.bytes + checked.lost + reader.discarded().1;
        assert_eq!(sum, end - began, "seed {seed}: {checked:?}, {:?}", reader.discarded());
        records += checked.records;
        (losses, lost, open) = (losses + checked.losses, lost + checked.lost, open + checked.open);
    }
    println!("{records} records, {losses} losses of {lost} bytes, {open} open reservations met");
    assert!(cfg!(miri) || records > 50_000 && losses > 5_000 && open > 1_000);
}

#[test]
fn a_consumer_loses_nothing_and_skips_what_was_discarded() {
    let (mut records, mut refused, mut open) = (0, 0, 0);
    for seed in 0..CASES / 4 {
        let mut rng = Rng::new(seed);
        let size = 256 << rng.below(3);
        let kernel = Kernel::new(size, false, 1 + rng.below(3) as usize);
        let racing = Racing::new(kernel, seed, 1 + rng.below(size / 2));
        let mut checked = Checked::default();
        // Each consumer begins where the one before it has released.
        for life in 0..4 {
            let mut reader = BpfReader::attach(&racing, BpfRole::Consumer).unwrap();
            assert_eq!(reader.released(), checked.at, "seed {seed}, life {life}");
            for _ in 0..10 {
                reader.poll(&racing).unwrap();
                checked.take(&racing, &mut reader, 1 + rng.below(20));
                let cursor = reader.cursor();
                reader.release(&racing, cursor);
                checked.at = cursor;
                racing.turn();
            }
        }
        assert_eq!(checked.lost, 0);
        records += checked.records;
        (refused, open) = (refused + racing.kernel.borrow().refused, open + checked.open);
    }
    println!("{records} records, {refused} refused, {open} open reservations met");
    assert!(cfg!(miri) || records > 5_000 && refused > 1_000 && open > 500);
}

#[test]
fn an_observer_beside_a_consumer_reports_what_was_released_before_it_came() {
    let (mut records, mut lost) = (0, 0);
    for seed in 0..CASES / 4 {
        let mut rng = Rng::new(seed);
        let racing = Racing::new(Kernel::new(512, false, 2), seed, 100);
        let mut consumer = BpfReader::attach(&racing, BpfRole::Consumer).unwrap();
        let mut observer = BpfReader::attach(&racing, BpfRole::Observer).unwrap();
        let [mut consumed, mut observed] = [Checked::default(), Checked::default()];
        for _ in 0..20 {
            consumer.poll(&racing).unwrap();
            consumed.take(&racing, &mut consumer, 1 + rng.below(10));
            let cursor = consumer.cursor();
            consumer.release(&racing, cursor);
            consumed.at = cursor;
            observer.poll(&racing).unwrap();
            observed.take(&racing, &mut observer, 1 + rng.below(10));
        }
        assert_eq!(consumed.lost, 0);
        (records, lost) = (records + observed.records, lost + observed.lost);
    }
    println!("{records} records observed, {lost} bytes were released first");
    assert!(cfg!(miri) || records > 5_000 && lost > 5_000);
}

#[test]
fn the_imitation_stands_where_the_kernel_did_and_its_records_are_read() {
    for path in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let overwrites = name.starts_with("overwrite");
        let role = if overwrites { BpfRole::OverwriteObserver } else { BpfRole::Observer };
        let pages = Racing::new(Kernel::new(SIZE, overwrites, 2), 0, 0);
        pages.runs.set(false);
        let mut reader = BpfReader::attach(&pages, role).unwrap();
        let (mut checked, mut read) = (Checked::default(), 0);
        let text = std::fs::read_to_string(&path).unwrap();
        for row in rows(&text) {
            let op = row.number("op");
            let mut open = [None; 2];
            {
                let mut kernel = pages.kernel.borrow_mut();
                kernel.consume(row.number("advance"));
                for (of, record) in ["a", "b"].into_iter().enumerate() {
                    let Some(len) = row.maybe(&format!("{record}_len")) else { continue };
                    let granted = kernel.reserve(of, len as u32);
                    let by_kernel = row.number(&format!("{record}_ok")) == 1;
                    assert_eq!(granted, by_kernel, "{name} {op}: granted {record} or not");
                    let how = match row.text(&format!("{record}_end")) {
                        "commit" => Ended::Submitted,
                        _ => Ended::Discarded,
                    };
                    open[of] = granted.then_some(how);
                }
                let [_, producer, overwritten] = kernel.positions();
                let reserved = [producer, overwritten];
                let columns = ["reserved_producer_pos", "reserved_overwrite_pos"];
                assert_eq!(reserved, columns.map(|column| row.number(column)), "{name} {op}");
                let order = if row.text("order") == "ba" { [1, 0] } else { [0, 1] };
                for of in order {
                    if let Some(how) = open[of] {
                        kernel.end(of, how);
                    }
                }
                let columns = ["ended_consumer_pos", "ended_producer_pos", "ended_overwrite_pos"];
                let ended = columns.map(|column| row.number(column));
                assert_eq!(kernel.positions(), ended, "{name} {op}");
            }
            read += 1;
            // A reader that is too slow now and then.
            if op % 40 < 3 {
                reader.poll(&pages).unwrap();
                while checked.take(&pages, &mut reader, 1000) {}
                checked.at = reader.cursor();
            }
        }
        println!("{name}: {read} rows, {} records, {} bytes lost", checked.records, checked.lost);
        assert!(read > 100 && checked.records > 10 && checked.lost > 0);
    }
}

/// A map with these words and nothing else.
struct Still {
    positions: [Cell<u64>; 3],
    data: Vec<u64>,
}

impl BpfPages for Still {
    fn data_size(&self) -> u64 {
        self.data.len() as u64 * 8
    }

    fn producer_pos(&self) -> u64 {
        self.positions[1].get()
    }

    fn consumer_pos(&self) -> u64 {
        self.positions[0].get()
    }

    fn overwrite_pos(&self) -> u64 {
        self.positions[2].get()
    }

    fn header(&self, pos: u64) -> BpfWord {
        BpfWord::from_raw(self.data[(pos / 8) as usize % self.data.len()])
    }

    fn copy_out(&self, pos: u64, to: &mut [u64]) {
        for (nth, word) in to.iter_mut().enumerate() {
            *word = self.data[(pos as usize / 8 + nth) % self.data.len()];
        }
    }

    fn set_consumer_pos(&self, pos: u64) {
        self.positions[0].set(pos);
    }
}

#[test]
fn damage_is_a_fault_and_never_a_loop_or_a_panic() {
    let nasty = [0, 7, 8, 16, 248, 256, 264, 1 << 32, u64::MAX - 7, u64::MAX, 1 << 63];
    let lens = [0, 1, 8, 240, 248, 249, 256, (1 << 30) - 1];
    let flags = [0, BpfWord::BUSY, BpfWord::DISCARDED, BpfWord::BUSY | BpfWord::DISCARDED];
    let (mut tried, mut faults, mut steps) = (0, 0, 0);
    for role in [BpfRole::Consumer, BpfRole::Observer, BpfRole::OverwriteObserver] {
        for (consumer, producer) in nasty.iter().flat_map(|one| nasty.map(|other| (*one, other))) {
            for word in lens.iter().flat_map(|len| flags.map(|flag| BpfWord::of(len | flag).raw()))
            {
                let positions = [consumer, producer, consumer].map(Cell::new);
                let still = Still { positions, data: vec![word; 32] };
                tried += 1;
                let Ok(mut reader) = BpfReader::attach(&still, role) else {
                    faults += 1;
                    continue;
                };
                let mut body = Vec::new();
                // No record is shorter than eight bytes, and no more than a ring of them is there.
                for _ in 0..=32 {
                    match reader.next(&still, &mut body) {
                        Err(fault) => {
                            assert_eq!(reader.next(&still, &mut body), Err(fault));
                            faults += 1;
                            break;
                        }
                        Ok(BpfStep::Empty | BpfStep::Open) => break,
                        Ok(_) => steps += 1,
                    }
                    let cursor = reader.cursor();
                    reader.release(&still, cursor);
                }
            }
        }
    }
    println!("{tried} maps, {faults} faults, {steps} steps");
    assert!(faults > 1_000 && steps > 1_000);
}

#[test]
fn a_second_consumer_is_noticed_when_it_moves_the_position() {
    let mut kernel = Kernel::new(512, false, 1);
    for _ in 0..4 {
        assert!(kernel.reserve(0, 24));
        kernel.end(0, Ended::Submitted);
    }
    let pages = Racing::new(kernel, 0, 0);
    pages.runs.set(false);
    let mut reader = BpfReader::attach(&pages, BpfRole::Consumer).unwrap();
    let mut checked = Checked::default();
    checked.take(&pages, &mut reader, 1);
    reader.release(&pages, 32);
    assert_eq!(reader.poll(&pages), Ok(()));
    pages.set_consumer_pos(64);
    let fault = BpfFault::OtherConsumer { ours: 32, found: 64 };
    assert_eq!(reader.poll(&pages), Err(fault));
    // It is not moved back.
    checked.take(&pages, &mut reader, 3);
    reader.release(&pages, 96);
    assert_eq!((pages.consumer_pos(), reader.poll(&pages)), (64, Err(fault)));
    assert!(fault.to_string().contains("end the other one"), "{fault}");
}

#[test]
fn a_limit_ends_reading_at_what_was_reserved() {
    let mut kernel = Kernel::new(512, true, 1);
    let write = |kernel: &mut Kernel, records: u32| {
        for _ in 0..records {
            assert!(kernel.reserve(0, 24));
            kernel.end(0, Ended::Submitted);
        }
    };
    write(&mut kernel, 3);
    let pages = Racing::new(kernel, 0, 0);
    pages.runs.set(false);
    let mut reader = BpfReader::attach(&pages, BpfRole::OverwriteObserver).unwrap();
    let mut checked = Checked::default();
    checked.take(&pages, &mut reader, 1);
    reader.limit(&pages);
    write(&mut pages.kernel.borrow_mut(), 100);
    reader.poll(&pages).unwrap();
    while checked.take(&pages, &mut reader, 1000) {}
    assert!(reader.is_at_limit());
    assert_eq!((checked.records, checked.lost, reader.cursor()), (1, 64, 96));
}
