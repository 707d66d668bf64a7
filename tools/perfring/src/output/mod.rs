//! Records on stdout, in one of three formats.

pub(crate) mod figures_format;
pub(crate) mod json;
pub(crate) mod last;
mod log;
mod text;

use crate::failure::{Failure, note};
use crate::records::filter::Filter;
use crate::records::select::SelectArgs;
use crate::records::shapes::Shapes;
use crate::records::time::{self, Bound, Since};
use crate::records::typed::Seen;
use clap::ValueEnum;
use json::Missing;
use last::{Held, Last, Records};
use perfring_consumer::{Anchors, Item, Layout, Location, Lost};
use perfring_export::{Event, Loss, Stream, What};
use perfring_figures::owner::count;
use std::io::{self, BufWriter, Stdout, Write};

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
    /// base64; time in a ring with timestamps; a loss is {"lost": {...}}. jq and JavaScript round
    /// integers beyond 2^53: `export RING --to json --option integers=text` writes them as text
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
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Begin each line of text with the record's position and type
    #[arg(long, short)]
    positions: bool,
    /// Show the payloads without their types
    #[arg(long)]
    untyped: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// Stdout, and the rings of which records are shown there.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    writer: Writer<'a>,
    /// One for each ring.
    shapes: Vec<Shapes>,
}

/// Stdout, buffered, with the counts of what was written.
#[derive(Debug)]
struct Writer<'a> {
    out: BufWriter<Stream<Stdout>>,
    args: &'a FormatArgs,
    filter: Filter<'a>,
    /// The last records, while more may come of those that are there at the start.
    last: Option<Last>,
    /// There were losses of records that nobody counted.
    lost_uncounted: bool,
    /// Records that were reported as lost so far,
    lost: u64,
    /// and those of them that no marker reported.
    lost_at_end: u64,
    /// Records that were read.
    seen: u64,
    shown: u64,
    bad: u64,
}

impl FormatArgs {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format() == Format::Json
    }

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
        let sentence = match self.format() {
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
        let out = BufWriter::with_capacity(64 << 10, Stream::stdout());
        let filter = Filter::new(&args.select, since);
        Output {
            writer: Writer {
                out,
                args,
                filter,
                last: None,
                lost_uncounted: false,
                lost: 0,
                lost_at_end: 0,
                seen: 0,
                shown: 0,
                bad: 0,
            },
            shapes,
        }
    }

    /// Sets how many of the records are shown. Of the last ones, none is written before [`Output::show_last`].
    pub(crate) fn show(&mut self, records: Records) {
        if let Records::Last(most) = records {
            self.writer.last = Some(Last { most, ..Last::default() });
        }
    }

    /// Writes the last records, and from now on all that follow.
    pub(crate) fn show_last(&mut self) -> Result<(), Failure> {
        let Some(last) = self.writer.last.take() else { return Ok(()) };
        last.held.into_iter().try_for_each(|held| self.writer.write(held))
    }

    /// Writes a record to stdout, if it is selected. A loss goes to stderr, and in JSON also to
    /// stdout like all data. Returns how many records were shown: one or none.
    pub(crate) fn item(&mut self, item: Item<'_>) -> Result<u64, Failure> {
        self.item_of(0, item)
    }

    /// Writes an item like [`Output::item`], for the ring with this index.
    pub(crate) fn item_of(&mut self, ring: usize, item: Item<'_>) -> Result<u64, Failure> {
        let Some(shapes) = self.shapes.get_mut(ring) else { return Ok(0) };
        match item {
            Item::Record(record) => self.writer.record(shapes.see(record)),
            Item::Lost(Lost { pos, records, bytes, cause, at_end }) => {
                let records = Some(records).filter(|records| *records > 0 || bytes == 0);
                let lost = Missing { pos, records, bytes, cause: cause.name(), at_end };
                self.writer.lost(None, shapes.name.as_deref(), lost)
            }
        }
    }

    /// Writes an event of one of several rings, with the ring's name.
    pub(crate) fn event(&mut self, event: &Event<'_>) -> Result<u64, Failure> {
        let ring = Some(&*event.origin.name);
        match &event.what {
            What::Record(record) => self.writer.record(Seen { ring, ..Seen::of(record) }),
            What::Lost(loss) => {
                let &Loss { pos, bytes, cause, at_end, .. } = loss;
                let records = loss.counted();
                let lost = Missing { pos, records, bytes, cause: cause.name(), at_end };
                self.writer.lost(ring, ring, lost)
            }
            What::Began | What::Ended => Ok(0),
        }
    }

    /// Reports once that no record of the types so far can be selected: for a command that waits for more.
    pub(crate) fn report_unmet(&mut self) {
        self.writer.filter.report_unmet(&self.shapes);
    }

    /// Returns how many of the lost records were reported at the end of a stream: no marker reports them.
    pub(crate) fn lost_at_end(&self) -> u64 {
        self.writer.lost_at_end
    }

    /// Returns how many records were reported as lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.writer.lost
    }

    /// Returns that records were lost, and how many if that is known, as the beginning of a sentence.
    pub(crate) fn lost_in_words(&self) -> Option<String> {
        match (self.writer.lost, self.writer.lost_uncounted) {
            (0, false) => None,
            (0, true) => Some("an unknown number of records was lost".to_owned()),
            (lost, false) => Some(format!("{lost} records were lost")),
            (lost, true) => Some(format!("{lost} records and an unknown number more were lost")),
        }
    }

    /// Returns how many records were read.
    pub(crate) fn seen(&self) -> u64 {
        self.writer.seen
    }

    /// Sets the anchors that convert this ring's timestamps from now on.
    pub(crate) fn set_anchors(&mut self, ring: usize, anchors: Anchors) {
        if let Some(shapes) = self.shapes.get_mut(ring) {
            shapes.set_anchors(anchors);
        }
    }

    /// Reports records that did not match their types, after everything was shown.
    pub(crate) fn end(&mut self, location: Option<&Location>) -> Result<(), Failure> {
        self.show_last()?;
        self.flush()?;
        let Writer { args, filter, bad, .. } = &self.writer;
        if *bad > 0 {
            let (do_not, are) = if *bad == 1 { ("does not", "is") } else { ("do not", "are") };
            let records = count(*bad, "record");
            note(&format!("{records} {do_not} match the type table, and {are} shown as bytes"));
        }
        filter.report_undated("no wall-clock time any more");
        args.select.report_unknown(location, &self.shapes);
        filter.check()?;
        let Some(location) = location else { return Ok(()) };
        if self.shapes.iter().all(|shapes| shapes.damage().is_empty()) {
            return Ok(());
        }
        let what = "its type table is damaged, so records of some types are shown as bytes";
        Err(Failure::Damaged(format!("{location}: {what}")))
    }

    /// Formats how many records were shown, and of how many if some were not.
    pub(crate) fn sum(&self) -> String {
        let Writer { args, seen, shown, .. } = &self.writer;
        match shown {
            shown if args.select.is_any() => format!("{shown} of {seen} records shown"),
            shown => format!("{shown} records shown"),
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.writer.out.flush().map_err(Failure::output)
    }
}

impl Writer<'_> {
    /// Writes a record, if it is selected. Returns whether it was, as a number.
    fn record(&mut self, seen: Seen<'_>) -> Result<u64, Failure> {
        let args = self.args;
        let shown = args.format() != Format::Raw && !args.untyped;
        self.seen += 1;
        let Some(mut seen) = self.filter.choose(seen, shown) else { return Ok(0) };
        self.shown += 1;
        if !shown {
            seen.value = None;
        }
        self.bad += u64::from(seen.bad().is_some());
        let Some(last) = &mut self.last else {
            return format(args, &mut self.out, &seen).map(|()| 1).map_err(Failure::output);
        };
        let mut record = Vec::new();
        format(args, &mut record, &seen).map_err(Failure::output)?;
        last.held.push_back(Held::Record(record));
        last.records += 1;
        self.let_go()?;
        Ok(1)
    }

    /// Lets go of records before the last ones. Losses before these are written.
    fn let_go(&mut self) -> Result<(), Failure> {
        while let Some(last) = &mut self.last
            && last.records > last.most
            && let Some(held) = last.held.pop_front()
        {
            match held {
                Held::Record(_) => {
                    last.records -= 1;
                    self.shown -= 1;
                }
                lost => self.write(lost)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, held: Held) -> Result<(), Failure> {
        match held {
            Held::Record(record) => self.out.write_all(&record),
            Held::Lost { ring, name, lost } => match self.args.format() {
                Format::Json => json::lost(&mut self.out, ring.as_deref(), lost),
                // Between the records when both are the same terminal.
                _ => self.out.flush().map(|()| report(name.as_deref(), lost)),
            },
        }
        .map_err(Failure::output)
    }

    /// Reports a loss: in JSON by an object, of this ring; else on stderr, by this name.
    fn lost(
        &mut self,
        ring: Option<&str>,
        name: Option<&str>,
        lost: Missing,
    ) -> Result<u64, Failure> {
        let records = lost.records.unwrap_or(0);
        self.lost = self.lost.saturating_add(records);
        self.lost_uncounted |= lost.records.is_none();
        if lost.at_end {
            self.lost_at_end = self.lost_at_end.saturating_add(records);
        }
        let [ring, name] = [ring, name].map(|text| text.map(str::to_owned));
        let held = Held::Lost { ring, name, lost };
        match &mut self.last {
            // Those before the last records are written when these are known.
            Some(last) if last.records > 0 => last.held.push_back(held),
            _ => self.write(held)?,
        }
        Ok(0)
    }
}

/// Writes a record.
fn format(args: &FormatArgs, out: &mut impl Write, seen: &Seen<'_>) -> io::Result<()> {
    match args.format() {
        Format::Text => text::record(out, seen, args.positions),
        Format::Json => json::record(out, seen),
        Format::Raw => out.write_all(seen.record.bytes),
    }
}

/// Writes a loss on stderr.
fn report(name: Option<&str>, lost: Missing) {
    let Missing { pos, records, bytes, cause, at_end } = lost;
    let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
    let plural = |count| if count == 1 { "" } else { "s" };
    // The kernel does not report how many bytes.
    let size = if bytes == 0 { String::new() } else { format!(" ({bytes} byte{})", plural(bytes)) };
    let place = match cause {
        _ if at_end => format!("by position {pos}, the end"),
        "lapped" | "ring damaged" => format!("from position {pos} on"),
        _ => format!("before position {pos}"),
    };
    // An overwritten BPF map does not report how many records.
    let unknown = || "an unknown number of records".to_owned();
    let records = records.map_or_else(unknown, |records| count(records, "record"));
    note(&format!("LOST {records}{of}{size} {place}: {cause}"));
}
