//! The content of a batch: records in runs, and the losses between them.

use crate::lost::Lost;
use crate::memory::pinned::Pinned;
use crate::pins::Cell;
use crate::spare::Copies;
use perfring_consumer::{RecordRef, WriterId, advanced::Lead};
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Records of one type and length at regular distances.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the first in the batch.
    first: usize,
    count: usize,
    kind: u32,
    len: usize,
    /// The offset of the first payload.
    at: usize,
    /// The position of the first record, and the distance to the next.
    pos: u64,
    step: u64,
}

/// Where the payloads are.
enum Store {
    /// Copies, one after the other.
    Own(Copies),
    /// In the ring: its bytes from the first record's header on, and the cell that keeps them.
    Ring { bytes: Pinned, cell: Arc<Cell> },
}

/// A batch's content.
pub(crate) struct Data {
    store: Store,
    runs: Vec<Run>,
    /// A timestamp for each record, if the ring has timestamps.
    pub(crate) times: Option<Vec<u64>>,
    /// [`WriterId::to_word`] of each record, if they say who wrote them; 0 for one that does not.
    pub(crate) writers: Option<Vec<u64>>,
    /// Each with the number of the record that follows it.
    pub(crate) lost: Vec<(usize, Lost)>,
}

/// The position of a record.
pub(crate) struct Place {
    pub(crate) pos: u64,
    pub(crate) kind: u32,
    /// Its payload, as [`Data::part`] takes it.
    pub(crate) range: Range<usize>,
}

impl Data {
    pub(crate) fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.first + run.count)
    }

    /// Returns whether the records are in the ring.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.store, Store::Ring { .. })
    }

    /// Returns an error in a forked child, if the records are in the ring.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        match &self.store {
            Store::Own(_) => Ok(()),
            Store::Ring { cell, .. } => cell.check(py),
        }
    }

    /// Returns all bytes, including those between the payloads.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.store {
            Store::Own(copies) => copies.bytes(),
            Store::Ring { bytes, .. } => bytes.bytes(),
        }
    }

    /// Returns the bytes of a record's payload.
    pub(crate) fn part(&self, range: &Range<usize>) -> &[u8] {
        self.bytes().get(range.clone()).unwrap_or_default()
    }

    /// Returns whether the batch is nothing but copies of records of this type and length, which is not 0.
    pub(crate) fn is_all(&self, kind: u32, len: usize) -> bool {
        match (&self.store, &*self.runs) {
            (Store::Own(_), [run]) => len > 0 && (run.kind, run.len) == (kind, len),
            _ => false,
        }
    }

    pub(crate) fn place(&self, nth: usize) -> Option<Place> {
        let run = self.runs.partition_point(|run| run.first + run.count <= nth);
        let run = self.runs.get(run)?;
        Some(self.place_in(run, nth - run.first))
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.runs.iter().flat_map(move |run| (0..run.count).map(move |nth| self.place_in(run, nth)))
    }

    fn place_in(&self, run: &Run, nth: usize) -> Place {
        let at = run.at + nth * self.stride(run);
        Place { pos: run.pos + run.step * nth as u64, kind: run.kind, range: at..at + run.len }
    }

    /// Returns type, length, first, count, offset and stride of each run.
    pub(crate) fn runs(&self) -> Vec<(u32, usize, usize, usize, usize, usize)> {
        let runs = self.runs.iter();
        runs.map(|run| (run.kind, run.len, run.first, run.count, run.at, self.stride(run)))
            .collect()
    }

    /// Returns the distance from one payload of a run to the next.
    fn stride(&self, run: &Run) -> usize {
        match self.store {
            Store::Own(_) => run.len,
            Store::Ring { .. } => run.step as usize,
        }
    }
}

pub(crate) struct Builder {
    place: Payloads,
    runs: Vec<Run>,
    /// The current run.
    last: Option<Run>,
    /// In a ring with timestamps.
    times: Option<Vec<u64>>,
    /// In a ring whose records say who wrote them.
    writers: Option<Vec<u64>>,
    lost: Vec<(usize, Lost)>,
}

/// Where the payloads of the new batch are.
enum Payloads {
    Copy(Copies),
    /// In the ring, from a position on, each after a header of so many bytes.
    Stay {
        start: u64,
        header: usize,
    },
}

impl Builder {
    /// Starts a batch of copies.
    pub(crate) fn copies(copies: Copies, lead: Lead) -> Self {
        Self::new(Payloads::Copy(copies), lead)
    }

    /// Starts a batch of records that stay in the ring, from position `start` on.
    pub(crate) fn in_place(start: u64, header: usize, lead: Lead) -> Self {
        Self::new(Payloads::Stay { start, header }, lead)
    }

    fn new(place: Payloads, lead: Lead) -> Self {
        Builder {
            place,
            runs: Vec::new(),
            last: None,
            times: (lead != Lead::None).then(Vec::new),
            writers: (lead == Lead::SampleId).then(Vec::new),
            lost: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, record: &RecordRef<'_>) {
        let &RecordRef { pos, kind, bytes, time, writer } = record;
        let at = match &mut self.place {
            Payloads::Copy(all) => {
                let at = all.len();
                all.room(bytes.len()).copy_from_slice(bytes);
                at
            }
            Payloads::Stay { start, header } => (pos - *start) as usize + *header,
        };
        if let (Some(times), Some(time)) = (&mut self.times, time) {
            times.push(time);
        }
        if let Some(writers) = &mut self.writers {
            writers.push(writer.map_or(0, WriterId::to_word));
        }
        self.extend(Run { first: 0, count: 1, kind, len: bytes.len(), at, pos, step: 0 });
    }

    /// Appends records.
    #[inline]
    fn extend(&mut self, run: Run) {
        if let Some(last) = &mut self.last {
            let before = last.pos.wrapping_add(last.step.wrapping_mul(last.count as u64 - 1));
            let gap = run.pos.wrapping_sub(before);
            if (last.kind, last.len) == (run.kind, run.len)
                && (last.count == 1 || last.step == gap)
                && (run.count == 1 || run.step == gap)
            {
                last.step = gap;
                last.count += run.count;
                return;
            }
            self.runs.push(*last);
        }
        self.last = Some(Run { first: self.len(), ..run });
    }

    /// Appends a run.
    pub(crate) fn push_run(&mut self, run: &perfring_consumer::advanced::Run<'_>) {
        let (len, size, header) = (run.payload_len(), run.size() as usize, run.header_len());
        let at = match &mut self.place {
            Payloads::Copy(all) => {
                let at = all.len();
                let (to, records) = (all.room(len * run.len() as usize), run.bytes());
                // A length that is known at compile time saves a call for each copy.
                match len {
                    0 => {}
                    8 => gather::<8>(to, records, size, header),
                    16 => gather::<16>(to, records, size, header),
                    32 => gather::<32>(to, records, size, header),
                    64 => gather::<64>(to, records, size, header),
                    _ => {
                        let places = to.chunks_exact_mut(len);
                        for (to, record) in places.zip(records.chunks_exact(size)) {
                            to.copy_from_slice(&record[header..header + len]);
                        }
                    }
                }
                at
            }
            Payloads::Stay { start, header } => (run.pos() - *start) as usize + *header,
        };
        if let Some(times) = &mut self.times {
            times.extend(run.records().filter_map(|record| record.time));
        }
        if let Some(writers) = &mut self.writers {
            writers.extend(run.records().map(|record| record.writer.map_or(0, WriterId::to_word)));
        }
        let (kind, pos, count) = (run.kind(), run.pos(), run.len() as usize);
        self.extend(Run { first: 0, count, kind, len, at, pos, step: run.size() });
    }

    pub(crate) fn lost(&mut self, lost: Lost) {
        let before = self.len();
        self.lost.push((before, lost));
    }

    pub(crate) fn len(&self) -> usize {
        self.last.map_or(0, |run| run.first + run.count)
    }

    /// Returns how many records like the last one have payloads of `bytes` bytes: at least one.
    pub(crate) fn fit_in(&self, bytes: usize) -> usize {
        self.last.map_or(1, |run| (bytes / run.len.max(1)).max(1))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none() && self.lost.is_empty()
    }

    /// Returns the batch of copies.
    pub(crate) fn finish(mut self) -> Data {
        let copies = match &mut self.place {
            Payloads::Copy(copies) => std::mem::take(copies),
            Payloads::Stay { .. } => Copies::default(), // `finish_in_place` is for these
        };
        self.with(Store::Own(copies))
    }

    /// Returns the batch of records that stay in the ring, in `bytes`, while `cell` is alive.
    pub(crate) fn finish_in_place(self, bytes: Pinned, cell: Arc<Cell>) -> Data {
        self.with(Store::Ring { bytes, cell })
    }

    fn with(mut self, store: Store) -> Data {
        self.runs.extend(self.last);
        Data { store, runs: self.runs, times: self.times, writers: self.writers, lost: self.lost }
    }
}

/// Copies the `LEN` bytes after `before` of each record of `size` bytes.
fn gather<const LEN: usize>(to: &mut [u8], records: &[u8], size: usize, before: usize) {
    let (to, _) = to.as_chunks_mut::<LEN>();
    for (to, record) in to.iter_mut().zip(records.chunks_exact(size)) {
        if let Some(payload) = record[before..].first_chunk::<LEN>() {
            *to = *payload;
        }
    }
}
