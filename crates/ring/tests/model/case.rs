//! Operations on a ring, in any order.

use perfring_abi::{Evict, Policy, RecordType, Report};
use perfring_ring::Lost;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Publish(usize),
    Try(usize),
    CommitLen(usize, usize),
    Discard(usize),
    Forget(usize),
    Batch(Vec<usize>),
    Hold(usize),
    PublishHeld,
    WriterDetach,
    WriterKill,
    WriterKillBeforeTail(usize),
    Next(u8),
    NextRecord(u8),
    Lost(bool),
    HasLost,
    Release,
    PeekPassRelease(u8),
    Refresh,
    ReaderReattach,
    ReaderKillBeforeTail,
    ForeignReader(u8),
    Watch(u8, Start0),
    Observe(u8, u8),
    Snapshot,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Start0 {
    Oldest,
    Latest,
    Saved,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) size: u64,
    pub(crate) policy: Policy,
    pub(crate) evict: Evict,
    pub(crate) report: Report,
    /// With a timestamp in each record.
    pub(crate) time: bool,
    pub(crate) ops: Vec<Op>,
}

pub(crate) fn case(policy: Policy) -> impl Strategy<Value = Case> {
    (5u32..=13).prop_flat_map(move |bits| {
        let size = 1u64 << bits;
        let max = size as usize + 40;
        let len = prop_oneof![
            4 => 0..=(max / 8),
            3 => 0..=(max / 3),
            1 => 0..=max,
            1 => (size as usize).saturating_sub(60)..=max,
        ];
        let op = prop_oneof![
            12 => len.clone().prop_map(Op::Publish),
            1 => len.clone().prop_map(Op::Try),
            2 => (len.clone(), 0usize..64).prop_map(|(a, b)| Op::CommitLen(a, a * b / 64)),
            2 => len.clone().prop_map(Op::Discard),
            1 => len.clone().prop_map(Op::Forget),
            2 => vec(len.clone(), 1..6).prop_map(Op::Batch),
            1 => len.clone().prop_map(Op::Hold),
            1 => Just(Op::PublishHeld),
            1 => Just(Op::WriterDetach),
            1 => Just(Op::WriterKill),
            1 => len.prop_map(Op::WriterKillBeforeTail),
            4 => (1u8..6).prop_map(Op::Next),
            2 => (1u8..6).prop_map(Op::NextRecord),
            3 => any::<bool>().prop_map(Op::Lost),
            1 => Just(Op::HasLost),
            1 => Just(Op::Release),
            1 => (1u8..6).prop_map(Op::PeekPassRelease),
            1 => Just(Op::Refresh),
            1 => Just(Op::ReaderReattach),
            1 => Just(Op::ReaderKillBeforeTail),
            1 => (0u8..4).prop_map(Op::ForeignReader),
            1 => (0u8..3, prop_oneof![
                Just(Start0::Oldest), Just(Start0::Latest), Just(Start0::Saved)
            ]).prop_map(|(who, start)| Op::Watch(who, start)),
            3 => (0u8..3, 1u8..9).prop_map(|(who, times)| Op::Observe(who, times)),
            1 => Just(Op::Snapshot),
        ];
        (
            Just(size),
            prop_oneof![Just(Evict::Exact), Just(Evict::Half)],
            prop_oneof![Just(Report::InStream), Just(Report::CountersOnly)],
            any::<bool>(),
            vec(op, 1..150),
        )
            .prop_map(move |(size, evict, report, time, ops)| Case {
                size,
                policy,
                evict,
                report,
                time,
                ops,
            })
    })
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Data(RecordType, Vec<u8>, Option<u64>),
    Hole,
    Lost(Lost),
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) pos: u64,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
}

pub(crate) fn payload(id: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (id.wrapping_mul(131) + at * 7 + 1) as u8).collect()
}

pub(crate) fn kind_of(id: u64) -> RecordType {
    if id.is_multiple_of(17) {
        RecordType::SAMPLE
    } else {
        RecordType::new(64 + (id % 5000) as u32).unwrap()
    }
}

/// What the tests counted, for their last line.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) ops: Cell<u64>,
    pub(crate) written: Cell<u64>,
    pub(crate) full: Cell<u64>,
    pub(crate) too_large: Cell<u64>,
    pub(crate) overwritten: Cell<u64>,
    pub(crate) read: Cell<u64>,
    pub(crate) seen: Cell<u64>,
    pub(crate) lapped: Cell<u64>,
    pub(crate) kills: Cell<u64>,
    pub(crate) markers: Cell<u64>,
    /// Refused records that were told at the end of the stream, and at a marker; and markers that told nothing.
    pub(crate) told_at_end: Cell<u64>,
    pub(crate) told_at_marker: Cell<u64>,
    pub(crate) passed_markers: Cell<u64>,
    pub(crate) timestamps: Cell<u64>,
    pub(crate) clock_back: Cell<u64>,
}

pub(crate) fn tick(cell: &Cell<u64>, by: u64) {
    cell.set(cell.get() + by);
}
