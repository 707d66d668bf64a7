//! `perfring ls`: the rings of a directory.

use crate::args::show_size;
use crate::columns;
use crate::failure::{Failure, note};
use crate::left_out;
use crate::output::figures_format::FiguresFormat;
use crate::output::json::line;
use perfring_consumer::{
    AttachError, Location, Policy, Producers,
    files::RingFile,
    stat::{SeatState, Stat},
};
use perfring_export::Stream;
use perfring_figures::accounts::{Fill, is_fed};
use perfring_figures::agreed;
use perfring_figures::json::object;
use perfring_figures::named;
use perfring_figures::owner::{count, printable, producers_state};
use perfring_set::{Listing, RingEntry, RingSet, SetError};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::iter::once;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Names are not truncated below this length.
const NAME_MIN: usize = 12;

/// List the rings of a directory: their producers, how full they are, what was lost
///
/// Without DIR, lists the default directory of rings: $XDG_RUNTIME_DIR/perfring, or without that
/// variable /dev/shm/perfring-UID. Needs read permission and disturbs no process. Files that are no
/// rings are reported on stderr; names that begin with a dot are skipped, and symbolic links are
/// not followed. A directory in DIR that has rings per CPU is listed as these rings, such as
/// requests/cpu3.
///
/// Below a ring with named consumers is a line for each of them.
///
/// LOST counts the records that were refused, and those of an overwrite ring that its consumer read
/// too late; LAST is the age of the newest record, in rings with timestamps. JSON has an
/// object per ring, as of `perfring stat --json`.
///
/// Example: perfring ls /dev/shm/perfring-1000
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory
    dir: Option<PathBuf>,
    #[command(flatten)]
    format: FiguresFormat,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dir = args.dir.clone().unwrap_or_else(RingSet::default_dir);
    let (rings, others) = list(&dir)?;
    let mut rows = Vec::new();
    left_out::report(&others);
    let mut damaged = 0;
    for ring in rings {
        match read(&ring.path) {
            Ok((stat, newest)) => {
                damaged += u64::from(stat.totals.is_none());
                rows.push((ring, stat, newest));
            }
            Err(AttachError::NotFound { .. }) => {} // removed meanwhile
            Err(error) => left_out::ring(&ring.path, &error),
        }
    }
    let mut out = BufWriter::new(Stream::stdout());
    let written = if args.format.is_json() {
        rows.iter().try_for_each(|row| write_json(&mut out, row))
    } else {
        write_table(&mut out, &rows)
    };
    written.and_then(|()| out.flush()).map_err(Failure::output)?;
    if rows.is_empty() {
        note(&format!("{} has no rings", dir.display()));
    }
    match damaged {
        0 => Ok(()),
        _ => Err(Failure::Damaged(format!(
            "{} with damaged totals: `perfring dump` shows what can still be read",
            count(damaged, "ring")
        ))),
    }
}

/// Reads a ring's figures, and the time of its newest record.
fn read(path: &Path) -> Result<(Stat, Option<u64>), AttachError> {
    let stat = agreed::read(&Location::from(path))?;
    Ok((stat, RingFile::inspect(path)?.newest_wall().ok().flatten()))
}

pub(crate) fn list(dir: &Path) -> Result<Listing, Failure> {
    perfring_set::list(dir).map_err(|error| match &error {
        SetError::Dir { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Failure::NotFound(format!(
                "{} does not exist, so there are no rings: name another directory, or create a ring \
                 with `perfring create`",
                dir.display()
            ))
        }
        SetError::Dir { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
            let file = dir.display();
            Failure::General(format!(
                "{file} is no directory: `perfring stat {file}` shows a ring, and `perfring dump --image {file}` finds the \
                 rings in an image"
            ))
        }
        _ => Failure::general(error),
    })
}

type Row = (RingEntry, Stat, Option<u64>);

fn write_table(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let titles = ["PRODUCER", "CONSUMER", "POLICY", "SIZE", "FULL", "LOST", "LAST"];
    let mut table = vec![titles.map(str::to_owned)];
    table.extend(rows.iter().map(|(_, stat, newest)| cells(stat, *newest)));
    let width = |at: usize| table.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let names: Vec<String> = rows.iter().map(|(ring, ..)| printable(&ring.name)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    let rest: usize = widths.iter().map(|width| width + 2).sum();
    let room = columns::width().map_or(longest, |all| all.saturating_sub(rest).max(NAME_MIN));
    let room = room.min(longest);
    let none = (Location::from(""), [].as_slice());
    let consumers =
        rows.iter().map(|(ring, stat, _)| (Location::from(&ring.path), &stat.consumers[..]));
    let title = "NAME".to_owned();
    let lines = once(&title).chain(&names).zip(&table);
    for ((name, cells), (location, consumers)) in lines.zip(once(none).chain(consumers)) {
        write!(out, "{:<room$}", truncated(name, room))?;
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Text is aligned left, numbers right.
            line += &match at {
                0..3 => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
        for consumer in consumers {
            writeln!(out, "  {}", named::line(consumer, &location))?;
        }
    }
    Ok(())
}

/// Removes the middle of a long name: its beginning names the program, and its end distinguishes
/// it.
fn truncated(name: &str, room: usize) -> String {
    let len = name.chars().count();
    if len <= room {
        return name.to_owned();
    }
    let (head, tail) = ((room - 1).div_ceil(2), (room - 1) / 2);
    let start: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(len - tail).collect();
    format!("{start}…{end}")
}

fn cells(stat: &Stat, newest: Option<u64>) -> [String; 7] {
    let layout = &stat.layout;
    let producer = match layout.producers {
        Producers::Many | Producers::Cpu if is_fed(stat) => {
            let alive = stat.producers.iter().filter(|member| member.is_alive()).count();
            format!("{alive} alive")
        }
        _ => holder(producers_state(stat), stat.producer.owner.pid),
    };
    let consumer = match layout.consumers {
        0 => holder(stat.consumer.state, stat.consumer.owner.pid),
        seats => {
            let alive = stat.consumers.iter().filter(|consumer| consumer.is_alive()).count();
            format!("{alive} of {seats} named")
        }
    };
    let (full, lost) = match &stat.totals {
        Some(totals) => {
            let fill = Fill::of_data(stat, totals);
            (fill.text(0), lost(stat).to_string())
        }
        None => ("damaged".to_owned(), "?".to_owned()),
    };
    [
        producer,
        consumer,
        layout.policy.name().to_owned(),
        show_size(layout.data_size),
        full,
        lost,
        newest.map_or_else(|| "-".to_owned(), |newest| age(ago(newest))),
    ]
}

fn holder(state: SeatState, pid: u32) -> String {
    match state {
        SeatState::Alive => format!("pid {pid}"),
        SeatState::Free => "none yet".to_owned(),
        state => state.word().to_owned(),
    }
}

fn lost(stat: &Stat) -> u64 {
    stat.totals.as_ref().map_or(0, |totals| {
        let lapped = match stat.layout.policy {
            Policy::Drop => 0,
            Policy::Overwrite => totals.consumer.lapped.records,
        };
        totals.producer.refused.total().records.saturating_add(lapped)
    })
}

/// Returns the time since a moment of the wall clock; zero for a future one.
fn ago(ns: u64) -> Duration {
    let then = UNIX_EPOCH + Duration::from_nanos(ns);
    SystemTime::now().duration_since(then).unwrap_or_default()
}

/// Formats a length of time in a few characters.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn write_json(out: &mut impl Write, (ring, stat, newest): &Row) -> io::Result<()> {
    let mut object = object(&Location::from(&ring.path), stat, None);
    object["name"] = json!(ring.name);
    object["newest_ns"] = json!(newest);
    object["file_size"] = json!(stat.layout.file_size());
    line(out, &object)
}

impl From<SetError> for Failure {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Attach(error) => error.into(),
            SetError::Create(error) => error.into(),
            SetError::Name { .. } => Failure::Usage(error.to_string()),
            _ => Failure::general(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ages_fit() {
        assert_eq!(truncated("shop.4711.1.9f30", 16), "shop.4711.1.9f30");
        assert_eq!(truncated("shop.4711.1.9f30", 9), "shop…9f30");
        assert_eq!(truncated("shop.4711.1.9f30", 8), "shop…f30");
        let ages = [(0, "0 ms"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")];
        for (seconds, text) in ages {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
