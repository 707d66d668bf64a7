//! Many records in one object.

use crate::memory::Pinned;
use crate::record::{Body, Cell, Lost, Origin, Record};
use crate::types::{RecordType, TypeTable};
use perfring_producer::RecordType as Id;
use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ops::Range;
use std::sync::Arc;

/// Records of one type and length whose places follow one another.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the first in the batch.
    first: usize,
    count: usize,
    kind: u32,
    len: usize,
    /// Where the first one's payload begins.
    at: usize,
    /// The first one's place in the stream, and how far it is to the next.
    pos: u64,
    step: u64,
}

/// Where the payloads stand.
enum Store {
    /// Copies, one after the other.
    Own(Vec<u8>),
    /// In the ring: its bytes from the first record's header on, and what keeps them.
    Ring { bytes: Pinned, _cell: Arc<Cell> },
}

/// A batch's content.
pub(crate) struct Data {
    store: Store,
    runs: Vec<Run>,
    /// Stamps, if the ring has time.
    times: Vec<u64>,
    /// Each with the number of the record that it stands before.
    lost: Vec<(usize, Lost)>,
}

impl Data {
    fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.first + run.count)
    }

    /// The bytes of a range that a record has.
    pub(crate) fn part(&self, range: &Range<usize>) -> &[u8] {
        let all = match &self.store {
            Store::Own(bytes) => bytes.as_slice(),
            Store::Ring { bytes, .. } => bytes.bytes(),
        };
        all.get(range.clone()).unwrap_or_default()
    }

    fn run_of(&self, nth: usize) -> Option<&Run> {
        let run = self.runs.partition_point(|run| run.first + run.count <= nth);
        self.runs.get(run)
    }

    /// From one payload of a run to the next.
    fn stride(&self, run: &Run) -> usize {
        match self.store {
            Store::Own(_) => run.len,
            Store::Ring { .. } => run.step as usize,
        }
    }
}

/// Makes a batch.
pub(crate) struct Builder {
    place: Payloads,
    runs: Vec<Run>,
    /// The run that goes on.
    last: Option<Run>,
    times: Vec<u64>,
    lost: Vec<(usize, Lost)>,
}

/// Where the payloads are to be.
enum Payloads {
    Copy(Vec<u8>),
    /// In the ring, from a position on, each after a header of so many bytes.
    Stay {
        start: u64,
        header: usize,
    },
}

impl Builder {
    /// Of copies; `bytes` are to come, as a guess.
    pub(crate) fn copies(bytes: usize) -> Self {
        Self::new(Payloads::Copy(Vec::with_capacity(bytes)))
    }

    /// Of records that stay in the ring, from position `start` on.
    pub(crate) fn in_place(start: u64, header: usize) -> Self {
        Self::new(Payloads::Stay { start, header })
    }

    fn new(place: Payloads) -> Self {
        Builder { place, runs: Vec::new(), last: None, times: Vec::new(), lost: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, kind: u32, pos: u64, time: Option<u64>, bytes: &[u8]) {
        let at = match &mut self.place {
            Payloads::Copy(all) => {
                let at = all.len();
                all.extend_from_slice(bytes);
                at
            }
            Payloads::Stay { start, header } => (pos - *start) as usize + *header,
        };
        if let Some(time) = time {
            self.times.push(time);
        }
        let len = bytes.len();
        if let Some(run) = &mut self.last {
            if run.kind == kind && run.len == len {
                if run.count == 1 {
                    run.step = pos.wrapping_sub(run.pos);
                }
                if pos == run.pos.wrapping_add(run.step.wrapping_mul(run.count as u64)) {
                    run.count += 1;
                    return;
                }
            }
            self.runs.push(*run);
        }
        let first = self.len();
        self.last = Some(Run { first, count: 1, kind, len, at, pos, step: 0 });
    }

    /// Many at once.
    pub(crate) fn push_run(&mut self, run: &perfring_consumer::Run<'_>) {
        let (len, size, header) = (run.payload_len(), run.size() as usize, run.header_len());
        let at = match &mut self.place {
            Payloads::Copy(all) => {
                let at = all.len();
                let (before, after) = (header, header + len);
                // Lengths that are known where they are copied spare a call for each.
                match len {
                    8 => gather::<8>(all, run.bytes(), size, before),
                    16 => gather::<16>(all, run.bytes(), size, before),
                    32 => gather::<32>(all, run.bytes(), size, before),
                    64 => gather::<64>(all, run.bytes(), size, before),
                    _ => {
                        all.reserve(len * run.len() as usize);
                        for record in run.bytes().chunks_exact(size) {
                            all.extend_from_slice(&record[before..after]);
                        }
                    }
                }
                at
            }
            Payloads::Stay { start, header } => (run.pos() - *start) as usize + *header,
        };
        if run.is_timed() {
            self.times.extend(run.records().filter_map(|record| record.time));
        }
        let count = run.len() as usize;
        let (kind, pos, step) = (run.kind(), run.pos(), run.size());
        if let Some(last) = &mut self.last {
            let next = last.pos.wrapping_add(step.wrapping_mul(last.count as u64));
            if last.kind == kind
                && last.len == len
                && next == pos
                && (last.step == step || last.count == 1)
            {
                last.step = step;
                last.count += count;
                return;
            }
            self.runs.push(*last);
        }
        let first = self.len();
        self.last = Some(Run { first, count, kind, len, at, pos, step });
    }

    pub(crate) fn lost(&mut self, lost: Lost) {
        let before = self.len();
        self.lost.push((before, lost));
    }

    /// Records so far.
    pub(crate) fn len(&self) -> usize {
        self.last.map_or(0, |run| run.first + run.count)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none() && self.lost.is_empty()
    }

    /// A batch of copies.
    pub(crate) fn finish(self, origin: Arc<dyn Origin>) -> Batch {
        let bytes = match self.place {
            Payloads::Copy(bytes) => bytes,
            Payloads::Stay { .. } => Vec::new(), // `finish_in_place` is for these
        };
        Batch::of(origin, Store::Own(bytes), self.runs, self.last, self.times, self.lost)
    }

    /// A batch of records that stay in the ring, in `bytes`, as long as `cell` is there.
    pub(crate) fn finish_in_place(
        self,
        origin: Arc<dyn Origin>,
        bytes: Pinned,
        cell: Arc<Cell>,
    ) -> Batch {
        let store = Store::Ring { bytes, _cell: cell };
        Batch::of(origin, store, self.runs, self.last, self.times, self.lost)
    }
}

/// Many records in one object, with the losses between them.
///
/// ``len(batch)`` and ``batch[n]`` are of records; iteration gives `Lost` items, too, in their place.
/// Through the buffer protocol a batch is its payloads, one after the other, read-only.
#[pyclass(frozen, module = "perfring")]
pub(crate) struct Batch {
    origin: Arc<dyn Origin>,
    data: Arc<Data>,
}

impl Batch {
    fn of(
        origin: Arc<dyn Origin>,
        store: Store,
        mut runs: Vec<Run>,
        last: Option<Run>,
        times: Vec<u64>,
        lost: Vec<(usize, Lost)>,
    ) -> Self {
        runs.extend(last);
        Batch { origin, data: Arc::new(Data { store, runs, times, lost }) }
    }

    /// The payloads, one after the other, which stay as long as this is there.
    pub(crate) fn export(&self) -> PyResult<&[u8]> {
        match &self.data.store {
            Store::Own(bytes) => Ok(bytes),
            Store::Ring { .. } if self.data.len() == 0 => Ok(&[]),
            Store::Ring { .. } => Err(PyBufferError::new_err(
                "a pinned batch's payloads stand in the ring, with headers between them: use \
                 numpy(), take its records one by one, or drain() instead of pin()",
            )),
        }
    }

    fn item(&self, nth: usize) -> Option<Record> {
        let run = self.data.run_of(nth)?;
        let in_run = nth - run.first;
        let at = run.at + in_run * self.data.stride(run);
        let pos = run.pos + run.step * in_run as u64;
        let body = Body::Part(Arc::clone(&self.data), at..at + run.len);
        let time = self.data.times.get(nth).copied();
        Some(Record::new(Arc::clone(&self.origin), pos, run.kind, time, body))
    }

    fn each<T>(&self, of: impl Fn(&Run, usize) -> T) -> Vec<T> {
        let runs = self.data.runs.iter();
        runs.flat_map(|run| (0..run.count).map(move |nth| (run, nth)))
            .map(|(run, nth)| of(run, nth))
            .collect()
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.data.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Record> {
        let len = self.data.len();
        let nth = if index < 0 { index + len as isize } else { index };
        let item = usize::try_from(nth).ok().and_then(|nth| self.item(nth));
        item.ok_or_else(|| {
            PyIndexError::new_err(format!("there is no record {index} in a batch of {len}"))
        })
    }

    fn __iter__(slf: &Bound<'_, Self>) -> Items {
        Items { batch: slf.clone().unbind(), next: std::sync::Mutex::new((0, 0)) }
    }

    /// The losses, in their order.
    #[getter]
    fn lost(&self) -> Vec<Lost> {
        self.data.lost.iter().map(|(_, lost)| *lost).collect()
    }

    /// `(type, length, first, count, offset, stride)` of each run: what arrays are made of.
    #[getter]
    fn _runs(&self) -> Vec<(u32, usize, usize, usize, usize, usize)> {
        let runs = self.data.runs.iter();
        runs.map(|run| (run.kind, run.len, run.first, run.count, run.at, self.data.stride(run)))
            .collect()
    }

    /// The ring's bytes that a pinned batch has, headers and all; `_runs` says where payloads are.
    #[getter]
    fn _span(slf: &Bound<'_, Self>) -> Span {
        Span { batch: slf.clone().unbind() }
    }

    /// Whether the records stand in the ring, and keep their space.
    #[getter]
    fn pinned(&self) -> bool {
        matches!(self.data.store, Store::Ring { .. })
    }

    /// Whether its records are stamped.
    #[getter]
    fn timed(&self) -> bool {
        !self.data.times.is_empty()
    }

    /// Native 64-bit words: stamps.
    fn _times(&self) -> Vec<u8> {
        words(&self.data.times)
    }

    /// Native 64-bit words: positions.
    fn _positions(&self) -> Vec<u8> {
        words(&self.each(|run, nth| run.pos + run.step * nth as u64))
    }

    /// Native 32-bit words: types.
    fn _types(&self) -> Vec<u8> {
        self.each(|run, _| run.kind.to_ne_bytes()).concat()
    }

    /// Native 64-bit words: where the payloads begin, and where the last one ends.
    fn _offsets(&self) -> Vec<u8> {
        let mut offsets = self.each(|run, nth| (run.at + nth * self.data.stride(run)) as u64);
        let end = self
            .data
            .runs
            .last()
            .map_or(0, |run| run.at + (run.count - 1) * self.data.stride(run) + run.len);
        offsets.push(end as u64);
        words(&offsets)
    }

    /// The type of this number, if the ring has it.
    fn _type_of(&self, py: Python<'_>, number: u32) -> PyResult<Option<RecordType>> {
        let Some(id) = Id::new(number) else { return Ok(None) };
        Ok(RecordType::find(&self.origin.table(py, id)?, id))
    }

    /// All types that the ring has.
    #[getter]
    fn _table(&self, py: Python<'_>) -> PyResult<TypeTable> {
        Ok(TypeTable::new(self.origin.table(py, Id::BYTES)?))
    }

    /// A structured array of the records of one type, read-only.
    ///
    /// No copy is made if they stand in one stretch: then the array keeps them, and of a pinned
    /// batch the ring's space as well.
    ///
    /// Args:
    ///     type: A name, a number, a `RecordType`, a class made by `record`, or a numpy dtype, of
    ///         which all records of the batch are then. Not needed if there is one type only.
    ///
    /// Raises:
    ///     BadType: The ring has no such type, its records have no fixed places, or one has
    ///         another length.
    #[pyo3(signature = (r#type=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        r#type: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?.call_method1("numpy", (slf, r#type))
    }

    /// A ``pyarrow.RecordBatch``: of one plain type ``pos``, ``time`` and a column for each field; of
    /// several types ``pos``, ``time``, ``type``, ``type_name`` and ``payload``, without a copy.
    ///
    /// ``pos`` is the place in the stream, ``time`` the stamp in ns, if the ring has time. A field of
    /// such a name is ``field.pos``, ``field.time``. Enumerations are dictionaries of their labels,
    /// 128 bits are decimal digits.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?.call_method1("to_arrow", (slf,))
    }

    /// A ``pandas.DataFrame`` with the columns of `to_arrow`; needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?.call_method1("to_pandas", (slf,))
    }

    /// For Arrow's readers: ``pyarrow.record_batch(batch)``, ``polars.DataFrame(batch)``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        arrays(slf.py())?
            .call_method1("to_arrow", (slf,))?
            .call_method1("__arrow_c_array__", (requested_schema,))
    }

    fn __repr__(&self) -> String {
        let lost: u64 = self.data.lost.iter().map(|(_, lost)| lost.records()).sum();
        let pinned = if self.pinned() { ", pinned" } else { "" };
        format!("<perfring.Batch {} records, {lost} lost{pinned}>", self.data.len())
    }
}

/// What makes arrays of batches.
fn arrays(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("perfring._arrays").map(Bound::unbind))?;
    Ok(module.bind(py).clone().into_any())
}

/// Appends the `LEN` bytes after `before` of each record of `size` bytes.
fn gather<const LEN: usize>(all: &mut Vec<u8>, records: &[u8], size: usize, before: usize) {
    let start = all.len();
    all.resize(start + records.len() / size * LEN, 0);
    let (to, _) = all[start..].as_chunks_mut::<LEN>();
    for (to, record) in to.iter_mut().zip(records.chunks_exact(size)) {
        if let Some(payload) = record[before..].first_chunk::<LEN>() {
            *to = *payload;
        }
    }
}

/// All bytes of a batch, whatever is between the payloads.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Span {
    batch: Py<Batch>,
}

impl Span {
    pub(crate) fn bytes(&self) -> &[u8] {
        let data = &self.batch.get().data;
        match &data.store {
            Store::Own(bytes) => bytes,
            Store::Ring { bytes, .. } => bytes.bytes(),
        }
    }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// A batch's records and losses, in their order.
#[pyclass(frozen, module = "perfring._native")]
pub(crate) struct Items {
    batch: Py<Batch>,
    /// Records and losses that were given.
    next: std::sync::Mutex<(usize, usize)>,
}

#[pymethods]
impl Items {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = self.batch.get();
        let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (record, lost) = *next;
        if let Some((before, what)) = batch.data.lost.get(lost)
            && *before <= record
        {
            next.1 += 1;
            return Ok(Some(Bound::new(py, *what)?.into_any()));
        }
        let Some(item) = batch.item(record) else { return Ok(None) };
        next.0 += 1;
        Ok(Some(Bound::new(py, item)?.into_any()))
    }
}
