//! Descriptions of contestants, kinds and faults.

use crate::CompareError;
use crate::case::Case;
use crate::contestant::{About, Location, Role};
use crate::entrants::{ALL, Entry, Kind as Entrant};
use crate::options::Options;
use crate::part::Audience;
use crate::rows::{Kind, Row};
use crate::workload::{SMALL, Workload};
use std::io::Write;

/// Describes the contestant with the settings of this case.
pub fn about(case: &Case, options: &Options) -> About {
    let bare = |settings: &str| About {
        name: case.entry.name,
        version: "-".to_owned(),
        location: Location::Processes,
        settings: settings.to_owned(),
        waits: "-".to_owned(),
    };
    match case.entry.kind {
        Entrant::Ends(player) => player.about(&case.setup(options)),
        Entrant::Memcpy => bare("one process copies the payload into a buffer of the ring's size"),
        Entrant::Line => bare("one cache line goes back and forth"),
        Entrant::NotBuilt(how) => bare(how),
    }
}

/// Returns its lossless stream of records of 64 bytes, or another case that it supports.
pub fn usual(entry: &'static Entry) -> Case {
    let can = match entry.kind {
        Entrant::Ends(player) => Some(player.can()),
        _ => None,
    };
    let lossy = can.is_some_and(|can| can.lossless.is_err());
    let kind = Kind {
        workload: if lossy { Workload::Overwrite } else { Workload::Throughput },
        payload: SMALL,
        senders: 1,
        receivers: 1,
        audience: Audience::Keen,
        lossy,
    };
    Case { kind, entry, can }
}

/// Describes a kind.
pub fn describe(kind: &Kind) -> String {
    let Kind { workload, payload, senders, receivers, audience, lossy } = kind;
    match workload {
        Workload::Throughput => format!("throughput of {payload} bytes"),
        Workload::Producers => {
            let many = if *senders == 1 { "" } else { "s" };
            let reader = if *lossy { ", no reader" } else { "" };
            format!("{senders} producer{many}{reader}")
        }
        Workload::Overwrite => format!("overwrite, reader {}", audience.name()),
        Workload::Fanout if *lossy => format!("fanout to {receivers}, lossy"),
        Workload::Fanout => format!("fanout to {receivers}, lossless"),
        other => other.name().to_owned(),
    }
}

/// Returns what was lost where nothing may be, damaged, or wrongly reported: sentences.
pub fn faults(rows: &[Row]) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows {
        match row {
            Row::Sample(sample) => {
                let (figures, lossless) = (&sample.figures, sample.lossless);
                let mut fault = |what: String| {
                    let kind = describe(&figures.kind);
                    faults.push(format!("{}, {kind}: {what}", figures.contestant));
                };
                if figures.bad > 0 {
                    fault(format!("{} records damaged or wrongly counted", figures.bad));
                }
                if lossless && figures.lost > 0 {
                    fault(format!("{} records lost where none may be", figures.lost));
                }
                // A refused record is reported as lost by contestants that count those, and was not
                // sent here.
                let reported =
                    figures.reported_lost.filter(|_| figures.kind.workload != Workload::Full);
                if let Some(reported) = reported.filter(|reported| *reported != figures.lost) {
                    fault(format!("{reported} losses reported, and {} were seen", figures.lost));
                }
            }
            Row::Absent(absent) if absent.failed => {
                faults.push(format!("{}: {}", absent.name, absent.reason));
            }
            _ => {}
        }
    }
    faults
}

/// Writes names, roles, and whether they can run here.
///
/// # Errors
/// If `out` fails.
pub fn list(options: &Options, out: &mut dyn Write) -> Result<(), CompareError> {
    for entry in ALL {
        let role = match entry.role {
            Role::Limit => "limit",
            Role::Ours => "ours",
            Role::Rival => "rival",
            Role::Reference => "reference, threads",
        };
        let about = about(&usual(entry), options);
        let absent = match entry.kind {
            Entrant::Ends(player) => player.check().err(),
            Entrant::NotBuilt(how) => Some(how.to_owned()),
            _ => None,
        };
        match absent {
            Some(reason) => writeln!(out, "{} ({role}): absent: {reason}", entry.name)?,
            None => writeln!(out, "{} ({role}): {}", entry.name, about.settings)?,
        }
    }
    Ok(())
}
