//! The post-mortem: shows what the file of a killed producer holds.

use super::records::Sample;
use super::screen::{Align, Column, Nanos, Screen, Style, row};
use crate::failure::Failure;
use indicatif::HumanCount;
use perfring_consumer::{Item, Snapshot, Stat};
use std::path::Path;

const LAST: usize = 6;

const COLUMNS: [Column; 5] = [
    Column { title: "  before kill", width: 13, from: 0, align: Align::Right },
    Column { title: "record", width: 10, from: 0, align: Align::Right },
    Column { title: "position", width: 12, from: 60, align: Align::Right },
    Column { title: "gap", width: 7, from: 0, align: Align::Right },
    Column { title: "woke late", width: 9, from: 0, align: Align::Right },
];

/// Opens the ring of a producer that was killed at `killed_ns` and shows its last records.
pub(super) fn show(
    screen: &mut Screen,
    path: &Path,
    pid: &str,
    killed_ns: u64,
) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let snapshot = Snapshot::take(path)?;
    let stat = Stat::read(path)?;
    let mut records = 0u64;
    let mut oldest_ns = killed_ns;
    let mut last = Vec::new();
    for item in &snapshot {
        if let Ok(Item::Record(record)) = item
            && let Some(Sample::Pulse(pulse)) = Sample::decode(record.kind, record.bytes)
        {
            records += 1;
            oldest_ns = oldest_ns.min(pulse.stamp.time_ns);
            last.push((record.pos, *pulse));
            if last.len() > 2 * LAST {
                last.drain(..LAST);
            }
        }
    }
    let state = stat.producer.state.word();
    screen.say(
        Style::Bold,
        &format!("\nkill -9 hit the producer of {name} (pid {pid}) in mid-stream."),
    )?;
    let text = format!(
        "Its file alone says: producer {state}; {} records intact, the last {} of it; and at the \
         very end:",
        HumanCount(records),
        Nanos(killed_ns - oldest_ns)
    );
    screen.say(Style::Plain, &text)?;
    let width = screen.width();
    let titles = COLUMNS.map(|column| column.title.to_owned());
    screen.say(Style::Bold, &row(&COLUMNS, &titles, width))?;
    for (pos, pulse) in &last[last.len().saturating_sub(LAST)..] {
        let cells = [
            before(pulse.stamp.time_ns, killed_ns),
            HumanCount(pulse.stamp.seq).to_string(),
            HumanCount(*pos).to_string(),
            Nanos(pulse.gap_ns).to_string(),
            Nanos(pulse.late_ns).to_string(),
        ];
        screen.say(Style::Plain, &row(&COLUMNS, &cells, width))?;
    }
    screen.say(Style::Plain, "")
}

/// Formats a record's time before the kill; or after the call, while the signal was on its way.
fn before(time_ns: u64, killed_ns: u64) -> String {
    match killed_ns.checked_sub(time_ns) {
        Some(before) => format!("{:.1} µs", before as f64 / 1e3),
        None => format!("+{:.1} µs", (time_ns - killed_ns) as f64 / 1e3),
    }
}
