//! Records on stdout, in one of three formats.

pub(crate) mod escape;
pub(crate) mod json;
mod log;
mod text;

use crate::failure::{Failure, note};
use crate::owner::count;
use crate::records::filter::Filter;
use crate::records::select::SelectArgs;
use crate::records::shapes::Shapes;
use crate::records::time::{self, Bound, Since};
use clap::ValueEnum;
use perfring_consumer::{Anchors, Item, Layout, Location, Lost, Record};
use std::io::{self, BufWriter, StdoutLock, Write};

/// The format of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line per record, after its time if the ring has timestamps. Records of a known type are
    /// shown by name and fields; log records and spans with the level, the target and the message
    /// first. Other payloads are shown as text, with control characters and bytes that are not
    /// UTF-8 as \xNN
    #[default]
    Text,
    /// One object per line: pos, type, len; type_name and fields for a known type, else text or
    /// base64; time in a ring with timestamps; a loss is {"lost": {...}}
    Json,
    /// The exact payloads, one after another without separators: lines read by `publish` have no
    /// line ends here
    Raw,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FormatArgs {
    /// The format of records on stdout
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Begin each line of text with the record's position and type
    #[arg(long, short)]
    positions: bool,
    /// Show the payloads without their types
    #[arg(long)]
    untyped: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// Stdout, buffered, with the counts of what was written.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    out: BufWriter<StdoutLock<'static>>,
    args: &'a FormatArgs,
    /// One for each ring.
    shapes: Vec<Shapes>,
    filter: Filter<'a>,
    /// Records that were reported as lost so far.
    pub(crate) lost: u64,
    /// Records that were read.
    pub(crate) seen: u64,
    shown: u64,
    bad: u64,
}

impl FormatArgs {
    /// Returns the bound of `--since` for a ring, if it was given.
    pub(crate) fn since(
        &self,
        location: &Location,
        layout: &Layout,
    ) -> Result<Option<Since>, Failure> {
        match self.select.since {
            Some(_) if !layout.time => Err(time::untimed(location)),
            since => Ok(since),
        }
    }

    /// Checks that the options can be combined.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let sentence = match self.format {
            Format::Text => return Ok(()),
            _ if self.positions => {
                "--positions is for --format text: json has the positions, raw has none"
            }
            Format::Raw if self.untyped => "--untyped is for the other formats: raw has no types",
            _ => return Ok(()),
        };
        Err(Failure::Usage(sentence.to_owned()))
    }
}

impl<'a> Output<'a> {
    /// Creates the output for a ring with these types. Reports at once what of them cannot be read.
    ///
    /// Records older than `since` are left out.
    pub(crate) fn new(args: &'a FormatArgs, shapes: Shapes, since: Option<Bound>) -> Self {
        Self::of_many(args, vec![shapes], since)
    }

    pub(crate) fn of_many(args: &'a FormatArgs, shapes: Vec<Shapes>, since: Option<Bound>) -> Self {
        let damage = shapes.iter().flat_map(Shapes::damage);
        damage.for_each(|damage| note(&damage.to_string()));
        let out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
        let filter = Filter::new(&args.select, since);
        Output { out, args, shapes, filter, lost: 0, seen: 0, shown: 0, bad: 0 }
    }

    /// Writes a record to stdout, if it is selected. A loss goes to stderr, and in JSON also to
    /// stdout like all data. Returns how many records were shown: one or none.
    pub(crate) fn item(&mut self, item: Item<'_>) -> Result<u64, Failure> {
        self.item_of(0, item)
    }

    /// Writes an item like [`Output::item`], for the ring with this index.
    pub(crate) fn item_of(&mut self, ring: usize, item: Item<'_>) -> Result<u64, Failure> {
        let before = self.shown;
        let written = match item {
            Item::Record(record) => self.record(ring, record),
            Item::Lost(lost) => {
                self.lost = self.lost.saturating_add(lost.records);
                if self.args.format == Format::Json {
                    json::lost(&mut self.out, &lost)
                } else {
                    self.report(ring, &lost)
                }
            }
        };
        written.map_err(Failure::output)?;
        Ok(self.shown - before)
    }

    /// Sets the anchors that convert this ring's timestamps from now on.
    pub(crate) fn set_anchors(&mut self, ring: usize, anchors: Anchors) {
        if let Some(shapes) = self.shapes.get_mut(ring) {
            shapes.set_anchors(anchors);
        }
    }

    fn record(&mut self, ring: usize, record: Record<'_>) -> io::Result<()> {
        let args = self.args;
        let shown = args.format != Format::Raw && !args.untyped;
        self.seen += 1;
        let Some(shapes) = self.shapes.get_mut(ring) else { return Ok(()) };
        let Some(mut seen) = self.filter.choose(shapes.see(record), shown) else { return Ok(()) };
        self.shown += 1;
        if !shown {
            seen.value = None;
        }
        self.bad += u64::from(seen.bad().is_some());
        match args.format {
            Format::Text => text::record(&mut self.out, &seen, args.positions),
            Format::Json => json::record(&mut self.out, &seen),
            Format::Raw => self.out.write_all(seen.record.bytes),
        }
    }

    /// Reports records that did not match their types, after everything was shown.
    pub(crate) fn end(&mut self, location: Option<&Location>) -> Result<(), Failure> {
        self.flush()?;
        if self.bad > 0 {
            let (do_not, are) = if self.bad == 1 { ("does not", "is") } else { ("do not", "are") };
            let records = count(self.bad, "record");
            note(&format!("{records} {do_not} match the type table, and {are} shown as bytes"));
        }
        self.filter.report_undated("no wall-clock time any more");
        self.args.select.report_unknown(location, &self.shapes);
        let Some(location) = location else { return Ok(()) };
        if self.shapes.iter().all(|shapes| shapes.damage().is_empty()) {
            return Ok(());
        }
        let what = "its type table is damaged, so records of some types are shown as bytes";
        Err(Failure::Damaged(format!("{location}: {what}")))
    }

    /// Formats how many records were shown, and of how many if some were not.
    pub(crate) fn sum(&self) -> String {
        match self.shown {
            shown if self.args.select.is_any() => {
                format!("{shown} of {} records shown", self.seen)
            }
            shown => format!("{shown} records shown"),
        }
    }

    /// Writes a loss on stderr, between the records when both are the same terminal.
    fn report(&mut self, ring: usize, lost: &Lost) -> io::Result<()> {
        self.out.flush()?;
        let (records, pos, cause) = (lost.records, lost.pos, lost.cause.name());
        note(&match self.shapes.get(ring).and_then(|shapes| shapes.name.as_deref()) {
            // The kernel does not report how many bytes.
            Some(name) if lost.bytes == 0 => {
                format!("LOST {records} records of {name} before position {pos}: {cause}")
            }
            _ => {
                let bytes = lost.bytes;
                format!("LOST {records} records ({bytes} bytes) before position {pos}: {cause}")
            }
        });
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}
