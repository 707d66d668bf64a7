//! Parquet files, for pandas, polars, DuckDB and Spark.

mod columns;
mod names;
mod options;
mod rows;
mod signals;
mod slot;
mod table;

use ::parquet::errors::ParquetError;
use columns::{Column, Of};
use names::FileNames;
pub use options::{ParquetOptions, Timestamps};
use perfring_events::{
    Event, Figures, Loss, Origin, Output, OutputError, Rec, Took, What, check_directory,
    delivery::{
        checks::{more_than_zero, of_output},
        draft::{Draft, directory},
    },
    signal::Added,
};
use perfring_types::read::Value;
use signals::Signal;
use slot::Slot;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;
use table::{Ending, Table};

/// The limit of open files; to open one more, the least recently used is finished.
const OPEN: usize = 128;
/// The limit of rows in a row group.
const GROUP: usize = 128 << 10;

/// The slots of the two special files.
const LOSSES: usize = 0;
const UNTYPED: usize = 1;

/// Writes a directory of Parquet files: one for each signal of OpenTelemetry, one for each other type of record, and
/// `losses.parquet`.
///
/// All log records are in `logs.parquet`, samples of gauges, sums and histograms in `metrics.parquet`, starts and ends of spans
/// in `spans.parquet`, resources in `resources.parquet`, whatever types they have: an event of `tracing` has one for each
/// call site. `class` says which each row is, and `attributes` has all fields without a column, as a JSON object.
///
/// | file | its columns after `time`, `boottime`, `ring`, `ring_uuid`, `pos`, `late`, `type`, `type_name`, `class` |
/// |---|---|
/// | `logs` | `process.pid`, `time_unix_nano`, `observed_time_unix_nano`, `severity_number`, `severity_text`, `body` (text, or JSON), `event_name`, `trace_id`, `span_id`, `otel.scope.name`, `code.file.path`, `code.line.number`, `attributes` |
/// | `spans` | `process.pid`, `time_unix_nano`, `trace_id`, `span_id`, `parent_span_id`, `name`, `kind`, `duration_nano`, `status.code`, `status.message`, `link.trace_id`, `link.span_id`, `otel.scope.name`, `code.file.path`, `code.line.number`, `attributes` |
/// | `metrics` | `process.pid`, `time_unix_nano`, `name`, `unit`, `description`, `value` (a double), `value.integer` (of whole numbers, exactly), `is_monotonic`, `aggregation_temporality`, `start_time_unix_nano`, `count`, `sum`, `min`, `max`, `otel.scope.name`, `explicit_bounds`, `bucket_counts`, `attributes` |
/// | `resources` | `process.pid`, `time_unix_nano`, `start_time_unix_nano`, `attributes` |
///
/// A type's file has the columns `time` (UTC), `boottime` (ns, the timestamp), `ring`, `ring_uuid`,
/// `pos`, `late` (ns), `type`, `type_name`, and one for each field: so `df.took` is a request's.
///
/// | a field | its column |
/// |---|---|
/// | numbers, truth values, text, bytes | the same; 128-bit numbers and characters are text |
/// | an enumeration | text: the value's name |
/// | a struct | columns `at.x`, `at.y` |
/// | a list or an array of those that are not structs | a list |
/// | an option | may be null, as all are |
/// | anything else | text: JSON |
///
/// A field with the name of one of those columns is renamed, as `field.time`. Spark and DuckDB ignore
/// case, so of names that differ in nothing else, the first one in the order of their bytes stays, and
/// the others get `_`. Spark reads no nanoseconds: see [`ParquetOptions::timestamps`]. For tagged and JSON
/// records, whose fields may differ, the first 1024 determine the columns; a later value that does
/// not fit is in the column `more`, as a JSON object. Types of one name share a file if they have
/// the same columns. Records without a type, or that do not match it, are in `untyped.parquet`,
/// with their bytes. `losses.parquet` has `time`, `boottime`, `ring`, `ring_uuid`, `pos`, `cause`,
/// `records`, `bytes`.
///
/// Files get their names when they are finished, and cannot be read before: a crash or `kill -9`
/// loses an unfinished file. So its rows count as delivered when it is finished, by `rows` or at
/// the end, and until then an output that promises delivery holds their records in the rings, as
/// far as they have room. For more than a ring holds, use best-effort delivery (`best_effort`), or
/// make a recording and `perfring export` it.
///
/// ```
/// use perfring_events::Output;
/// use perfring_files::{Parquet, ParquetOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("requests");
/// let mut files = Parquet::open("parquet", &ParquetOptions::new(&path))?;
/// // files.take(&event)? for each event
/// files.close(std::time::Instant::now())?; // now: pandas.read_parquet("requests/shop.Request.parquet")
/// # assert!(path.join("losses.parquet").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Parquet {
    output: String,
    options: ParquetOptions,
    slots: Vec<Slot>,
    /// By ring and type.
    known: HashMap<(u32, u32), usize>,
    /// Of the signals.
    signals: Vec<(Signal, usize)>,
    /// By the type's name, and its columns if they are fixed.
    by_shape: HashMap<(String, Option<Vec<Column>>), usize>,
    names: FileNames,
    added: Added,
    open: usize,
    waiting: usize,
    /// Files that are complete, except for what the disk has no room for.
    ending: VecDeque<Ending>,
    finished_bytes: u64,
    figures: Figures,
}

impl Parquet {
    /// Checks where tables are written, and how large they may get.
    ///
    /// # Errors
    /// What [`Parquet::open`] would refuse.
    pub fn check(name: &str, options: &ParquetOptions) -> Result<(), OutputError> {
        more_than_zero(name, &[("memory", options.memory as u64)])?;
        of_output(name, check_directory(&options.path))
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// [`OutputError`], if it exists and is not empty, or cannot be created.
    pub fn open(name: &str, options: &ParquetOptions) -> Result<Self, OutputError> {
        let ours = |name: &str| name.ends_with(".parquet") || name.ends_with(".part");
        directory(name, &options.path, options.overwrite, options.terms.mode, ours)?;
        let untyped = vec![Column::new("damage", Of::Text), Column::new("payload", Of::Bytes)];
        let untyped = untyped.into_iter().enumerate();
        let untyped = untyped.map(|(at, column)| Column { path: vec![at], ..column }).collect();
        let slots = vec![
            Slot::new("losses".into(), &common(LOSSES, options), Some(Vec::new())),
            Slot::new("untyped".into(), &common(UNTYPED, options), Some(untyped)),
        ];
        Ok(Parquet {
            output: name.into(),
            options: options.clone(),
            slots,
            known: HashMap::new(),
            signals: Vec::new(),
            by_shape: HashMap::new(),
            names: FileNames::of(
                &[&["losses", "untyped"][..], &Signal::ALL.map(Signal::name)].concat(),
            ),
            added: Added::default(),
            open: 0,
            waiting: 0,
            ending: VecDeque::new(),
            finished_bytes: 0,
            figures: Figures::default(),
        })
    }

    /// Returns the slot of a record's type.
    fn slot(&mut self, origin: &Origin, record: &Rec<'_>) -> usize {
        let (Some(kind), Some(Ok(_))) = (record.kind_of(), record.value()) else { return UNTYPED };
        if let Some(at) = self.known.get(&(origin.id, record.kind)) {
            return *at;
        }
        let at = match Signal::of(kind) {
            Some(signal) => self.slot_of_signal(signal),
            None => {
                let key = (kind.name.clone(), columns::of_type(kind));
                self.by_shape.get(&key).copied().unwrap_or_else(|| {
                    let (name, at) = (self.names.of_type(&kind.name), self.slots.len());
                    self.slots.push(Slot::new(name, &common(at, &self.options), key.1.clone()));
                    self.by_shape.insert(key, at);
                    at
                })
            }
        };
        self.known.insert((origin.id, record.kind), at);
        at
    }

    fn slot_of_signal(&mut self, signal: Signal) -> usize {
        let known = self.signals.iter().find(|(of, _)| *of == signal);
        known.map(|(_, at)| *at).unwrap_or_else(|| {
            let at = self.slots.len();
            self.slots.push(Slot::of_signal(signal, &common(at, &self.options)));
            self.signals.push((signal, at));
            at
        })
    }

    fn add(
        &mut self,
        at: usize,
        common_cells: Vec<Value>,
        value: Cow<'_, Value>,
        bytes: usize,
        seq: u64,
    ) -> Result<(), OutputError> {
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        slot.used = seq;
        if slot.columns().is_none() {
            self.waiting += bytes;
            slot.early_oldest.get_or_insert(seq);
            if slot.keep((common_cells, value.into_owned()), bytes) {
                self.found(at)?;
            }
        } else {
            self.start(at)?;
            self.add_to_open(at, &common_cells, &value, seq)?;
        }
        while self.waiting > self.options.memory {
            let largest = (0..self.slots.len()).max_by_key(|at| self.held(*at));
            match largest.filter(|at| self.held(*at) > 0) {
                Some(at) => self.spill(at)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Returns the bytes that wait for one file.
    fn held(&self, at: usize) -> usize {
        self.slots
            .get(at)
            .map_or(0, |slot| slot.early_bytes + slot.table.as_ref().map_or(0, |table| table.bytes))
    }

    /// Writes the rows that wait for one file.
    fn spill(&mut self, at: usize) -> Result<(), OutputError> {
        let Some(slot) = self.slots.get(at) else { return Ok(()) };
        if slot.is_early() {
            return self.found(at).and_then(|()| self.spill(at));
        }
        self.waiting -= self.held(at).min(self.waiting);
        match self.slots.get_mut(at).and_then(|slot| slot.table.as_mut()) {
            Some(table) => table.write().map_err(|error| self.trouble(&error)),
            None => Ok(()),
        }
    }

    /// Determines the columns, and writes the kept rows.
    fn found(&mut self, at: usize) -> Result<(), OutputError> {
        let (held, common) = (self.held(at), common(at, &self.options));
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let seq = slot.early_oldest.unwrap_or_default();
        let rows = slot.find(&common);
        self.waiting -= held.min(self.waiting);
        for (common, value) in &rows {
            self.start(at)?; // a previous row may have finished the file
            self.add_to_open(at, common, value, seq)?;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            slot.early_oldest = None;
        }
        Ok(())
    }

    fn add_to_open(
        &mut self,
        at: usize,
        common: &[Value],
        value: &Value,
        seq: u64,
    ) -> Result<(), OutputError> {
        let rows = self.options.rows;
        let before = self.held(at);
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        slot.add(common, value);
        slot.oldest.get_or_insert(seq);
        slot.unfinished += u64::from(at != LOSSES);
        let table = slot.table.as_ref();
        let (waiting, all) = table.map_or((0, 0), |table| (table.waiting, table.written));
        self.waiting += self.held(at) - before;
        if rows > 0 && all + waiting as u64 >= rows {
            return self.finish(at);
        }
        if waiting >= GROUP { self.spill(at) } else { Ok(()) }
    }

    /// Opens a type's next file, unless one is open.
    fn start(&mut self, at: usize) -> Result<(), OutputError> {
        if self.slots.get(at).is_none_or(|slot| slot.table.is_some()) {
            return Ok(());
        }
        if self.open >= OPEN {
            let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.table.is_some());
            let oldest = open.min_by_key(|(_, slot)| slot.used).map(|(at, _)| at);
            oldest.map_or(Ok(()), |oldest| self.finish(oldest))?;
        }
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let name = match slot.files {
            0 => format!("{}.parquet", slot.name),
            files => format!("{}-{}.parquet", slot.name, u64::from(files) + 1),
        };
        let columns = slot.columns().unwrap_or_default().to_vec();
        let ParquetOptions { path, terms, .. } = &self.options;
        let draft = Draft::beside(&self.output, &path.join(name), true, terms)?;
        let table = Table::new(draft, columns);
        let table = table.map_err(|error| self.options.trouble(&self.output, &error))?;
        slot.table = Some(table);
        self.open += 1;
        Ok(())
    }

    /// Finishes a type's open file.
    fn finish(&mut self, at: usize) -> Result<(), OutputError> {
        let held = self.held(at);
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let Some(table) = slot.table.take() else { return Ok(()) };
        slot.files += 1;
        self.open -= 1;
        self.waiting -= held.min(self.waiting);
        let (records, oldest) = (std::mem::take(&mut slot.unfinished), slot.oldest.take());
        let draft = table.close().map_err(|error| self.trouble(&error))?;
        self.ending.push_back(Ending { draft, records, oldest });
        self.end().map(|_| ())
    }

    /// Finishes the files that are complete. Returns whether there is none left.
    fn end(&mut self) -> Result<bool, OutputError> {
        while let Some(ending) = self.ending.front_mut() {
            if !ending.draft.flush()? {
                return Ok(false);
            }
            ending.draft.finish(Instant::now())?;
            self.figures.delivered += ending.records;
            self.figures.retries += ending.draft.retries;
            self.finished_bytes += ending.draft.written;
            self.figures.bytes = self.finished_bytes;
            self.ending.pop_front();
        }
        Ok(true)
    }

    /// Returns whether a file waits for room on the disk.
    fn is_busy(&mut self) -> Result<bool, OutputError> {
        if !self.end()? {
            return Ok(true);
        }
        for table in self.slots.iter_mut().filter_map(|slot| slot.table.as_mut()) {
            if table.draft().is_busy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn trouble(&self, error: &ParquetError) -> OutputError {
        self.options.trouble(&self.output, error)
    }

    fn record(&mut self, event: &Event<'_>, record: &Rec<'_>) -> Result<(), OutputError> {
        let at = self.slot(event.origin, record);
        let signal = record.kind_of().filter(|_| at != UNTYPED).and_then(Signal::of);
        let common = rows::of_record(event.origin, record, signal, self.options.timestamps);
        let added = self.added.to_record(record);
        let value = match (record.value(), signal) {
            (Some(Ok(value)), Some(signal)) => signal.row(added.as_ref().unwrap_or(value)),
            (Some(Ok(value)), None) => Cow::Borrowed(value),
            (other, _) => Cow::Owned(rows::untyped(
                other.and_then(|value| value.as_ref().err()),
                record.bytes,
            )),
        };
        self.add(at, common, value, 512 + 8 * record.bytes.len(), event.seq)
    }

    fn loss(&mut self, event: &Event<'_>, loss: &Loss) -> Result<(), OutputError> {
        let row = rows::of_loss(event.origin, loss, self.options.timestamps);
        self.add(LOSSES, row, Cow::Owned(Value::Null), 512, event.seq)
    }
}

/// Returns the columns that all rows of a file have.
fn common(at: usize, options: &ParquetOptions) -> [(&'static str, Of); 8] {
    let time = options.timestamps;
    if at == LOSSES { columns::of_losses(time) } else { columns::of_records(time) }
}

impl Output for Parquet {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.added = Added::new(attributes);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.is_busy()? {
            return Ok(Took::Busy);
        }
        match &event.what {
            What::Record(record) => {
                self.figures.taken += 1;
                self.record(event, record)?;
            }
            What::Lost(loss) => self.loss(event, loss)?,
            What::Ended => self.known.retain(|(ring, _), _| *ring != event.origin.id),
            What::Began => {}
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.end().map(|_| ()) // row groups of a few rows are useless
    }

    fn retry(&mut self) -> bool {
        let open = self.slots.iter_mut().filter_map(|slot| Some(slot.table.as_mut()?.draft()));
        let all = open.chain(self.ending.iter_mut().map(|ending| &mut ending.draft));
        all.filter_map(|draft| draft.retry().then_some(())).count() > 0 // also those after the first
    }

    fn unsettled(&mut self) -> Option<u64> {
        let ending = self.ending.iter().filter_map(|ending| ending.oldest);
        let slots = self.slots.iter().flat_map(|slot| [slot.oldest, slot.early_oldest]).flatten();
        slots.chain(ending).min()
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        for at in 0..self.slots.len() {
            let slot = self.slots.get(at);
            if slot.is_some_and(Slot::is_early) {
                self.found(at)?;
            } else if at == LOSSES && slot.is_some_and(|slot| slot.files == 0) {
                self.start(at)?; // also without any rows
            }
            self.finish(at)?;
        }
        while let Some(ending) = self.ending.front_mut() {
            ending.draft.flush_until(deadline)?;
            self.end()?;
        }
        Ok(())
    }

    fn unwritten(&self) -> u64 {
        self.waiting as u64
    }

    fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        let open = self.slots.iter().filter_map(|slot| slot.table.as_ref()).map(Table::written_to);
        let drafts = self.ending.iter().map(|ending| &ending.draft).chain(open);
        for draft in drafts {
            figures.bytes += draft.written;
            draft.report(&mut figures);
        }
        figures
    }
}
