//! Records on stdout, in one of three formats.

mod json;
mod raw;
mod text;

use crate::failure::{Failure, note};
use clap::ValueEnum;
use perfring_consumer::{Item, Lost};
use std::io::{self, BufWriter, StdoutLock, Write};

/// How records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line per record: its payload, control characters and bytes that are not UTF-8 as \xNN
    #[default]
    Text,
    /// One object per line: pos, type, len, and text or base64; a loss is {"lost": {...}}
    Json,
    /// The payloads, exactly, one after another with nothing in between: what `publish` read as
    /// lines has no line ends here
    Raw,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FormatArgs {
    /// How records are written to stdout
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Begin each line of text with the record's position and type
    #[arg(long, short)]
    positions: bool,
}

/// Stdout, buffered, with the losses that went by.
#[derive(Debug)]
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    format: Format,
    positions: bool,
    lost: u64,
}

impl Output {
    pub(crate) fn new(args: &FormatArgs) -> Result<Self, Failure> {
        if args.positions && args.format != Format::Text {
            return Err(Failure::Usage(
                "--positions is for --format text: json has the positions, raw has none".to_owned(),
            ));
        }
        let out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
        Ok(Output { out, format: args.format, positions: args.positions, lost: 0 })
    }

    /// Writes a record to stdout. A loss goes to stderr, in JSON to stdout as well as all data.
    pub(crate) fn item(&mut self, item: Item<'_>) -> Result<(), Failure> {
        let written = match (item, self.format) {
            (Item::Record(record), Format::Text) => {
                text::record(&mut self.out, &record, self.positions)
            }
            (Item::Record(record), Format::Json) => json::record(&mut self.out, &record),
            (Item::Record(record), Format::Raw) => raw::record(&mut self.out, &record),
            (Item::Lost(lost), format) => {
                self.lost = self.lost.saturating_add(lost.records);
                if format == Format::Json {
                    json::lost(&mut self.out, &lost)
                } else {
                    self.tell(&lost)
                }
            }
        };
        written.map_err(|error| Failure::output(&error))
    }

    /// A loss on stderr, where it stands between the records when both are the same terminal.
    fn tell(&mut self, lost: &Lost) -> io::Result<()> {
        self.out.flush()?;
        note(&format!(
            "LOST {} records ({} bytes) before position {}: {}",
            lost.records,
            lost.bytes,
            lost.pos,
            lost.cause.name()
        ));
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::output(&error))
    }

    /// Records that were told as lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}
