//! What the demo shows once: the last records of the killed producer, and the report at the end,
//! in which a ring's totals, its producer's count and what the sidecar read must agree.

use super::common::{FILES, STATIONS, Station, failed};
use super::records::Pulse;
use super::screen::{Column, Screen, bytes, nanos, titles};
use super::watch::Seen;
use crate::failure::Failure;
use crate::verbosity::Style;
use indicatif::HumanCount;
use perfring_consumer::{Item, Policy, Snapshot, stat::Stat};
use perfring_figures::accounts::Balance;
use perfring_set::MergeFigures;
use std::path::Path;

/// The longest time that a record waits for earlier ones of other rings.
pub(super) const DELAY_MS: u64 = 5;

const PULSES: [Column; 5] = [
    Column("  before kill", -13, 0),
    Column("record", -10, 0),
    Column("position", -12, 60),
    Column("gap", -7, 0),
    Column("woke late", -9, 0),
];

const RINGS: [Column; 6] = [
    Column("ring", 9, 0),
    Column("records", -9, 0),
    Column("per s", -7, 54),
    Column("p50", -6, 62),
    Column("p99", -6, 0),
    Column("lost, by cause", 0, 0),
];

/// Opens a ring whose producer was killed at `killed_ns`, and shows its last records.
pub(super) fn mortem(
    screen: &mut Screen,
    path: &Path,
    pid: u32,
    killed_ns: u64,
) -> Result<(), Failure> {
    const LAST: usize = 6;
    let name = path.file_name().unwrap_or_default().display();
    let snapshot = Snapshot::take(path)?;
    let state = Stat::read(path)?.producer.state.word();
    let pulses = snapshot.iter().filter_map(|item| match item {
        Ok(Item::Record(record)) => Some((record.pos, Pulse::of(record.kind, record.bytes)?)),
        _ => None,
    });
    let pulses: Vec<(u64, Pulse)> = pulses.collect();
    let oldest_ns = pulses.first().map_or(killed_ns, |(_, pulse)| pulse.stamp.time_ns);
    let hit = format!("\nkill -9 hit the producer of {name} (pid {pid}) in mid-stream.");
    screen.say(Style::Bold, &hit)?;
    let text = format!(
        "Its file alone says: producer {state}; {} records intact, the last {} of it; and at the \
         very end:",
        HumanCount(pulses.len() as u64),
        nanos(killed_ns.saturating_sub(oldest_ns))
    );
    screen.say(Style::Plain, &text)?;
    screen.row(Style::Bold, &PULSES, titles(&PULSES))?;
    for (pos, Pulse { stamp, gap_ns, late_ns }) in &pulses[pulses.len().saturating_sub(LAST)..] {
        // Or after the call, while the signal was on its way.
        let sign = if stamp.time_ns > killed_ns { "+" } else { "" };
        let before = stamp.time_ns.abs_diff(killed_ns) as f64 / 1e3;
        let cells = [
            format!("{sign}{before:.1} µs"),
            HumanCount(stamp.seq).to_string(),
            HumanCount(*pos).to_string(),
            nanos(*gap_ns),
            nanos(*late_ns),
        ];
        screen.row(Style::Plain, &PULSES, cells)?;
    }
    screen.say(Style::Plain, "")
}

/// What a producer counted itself: records that it offered, and those that were refused. A killed
/// one has no count.
pub(super) type Own = Option<(u64, u64)>;

/// What each output has delivered, and how the records were merged.
pub(super) type Done = (Vec<(String, u64)>, MergeFigures);

/// Shows the account of every ring, and the files. The inner result is an error if a record is
/// unaccounted for.
pub(super) fn report(
    screen: &mut Screen,
    (seen, why): (&[Seen], &[String]),
    rings: &[(Stat, Own)],
    (delivered, merge): &Done,
    out: &Path,
) -> Result<Result<(), Failure>, Failure> {
    screen.row(Style::Bold, &RINGS, titles(&RINGS))?;
    for (station, seen) in STATIONS.iter().zip(seen) {
        let losses = seen.totals.losses.iter();
        let causes: Vec<String> = losses
            .map(|(cause, records, _)| format!("{} {}", cause.name(), HumanCount(*records)))
            .collect();
        let cells = [
            station.name.to_owned(),
            HumanCount(seen.totals.records).to_string(),
            HumanCount(seen.rate()).to_string(),
            seen.quantile(0.5),
            seen.quantile(0.99),
            if causes.is_empty() { "-".to_owned() } else { causes.join(", ") },
        ];
        screen.row(Style::Plain, &RINGS, cells)?;
    }
    screen.say(Style::Bold, "\nThe account, in records: written = read + lost + present")?;
    let all = seen.iter().map(|seen| seen.totals.records).sum();
    let wrong = delivered.iter().filter(|(_, records)| *records != all);
    let wrong = wrong.map(|(name, records)| format!("{name}: {records} and {all} records"));
    let rings = STATIONS.iter().zip(seen).zip(rings);
    let accounts = rings.map(|((station, seen), (stat, own))| account(station, seen, stat, *own));
    let mut faults = 0;
    for (account, wrong) in accounts.chain([(String::new(), wrong.collect())]) {
        if !account.is_empty() {
            screen.say(Style::Plain, &account)?;
        }
        for fault in wrong {
            faults += 1;
            screen.say(Style::Bad, &format!("    DOES NOT ADD UP: {fault}"))?;
        }
    }
    if faults == 0 {
        let end = "records, each checked by its sequence number.";
        let end = format!("All records accounted for: {} {end}", HumanCount(all));
        screen.say(Style::Good, &end)?;
        let order = match merge.late {
            0 => "All were delivered in the order of time.".to_owned(),
            late => format!(
                "{} of them came too late for the order of time, by up to {}.",
                HumanCount(late),
                nanos(merge.late_most)
            ),
        };
        screen.say(Style::Plain, &order)?;
    }
    screen.say(Style::Bold, "\nWhy, as `perfring why` says of rings and recordings:")?;
    for sentence in why {
        screen.say(Style::Plain, &format!("  {sentence}"))?;
    }
    files(screen, out)?;
    let why = "records are unaccounted for, see the report: please file a bug";
    Ok(if faults == 0 { Ok(()) } else { Err(failed(why)) })
}

/// Returns a ring's account as equations, and the figures that do not agree.
fn account(station: &Station, seen: &Seen, stat: &Stat, own: Own) -> (String, Vec<String>) {
    let is_drop = station.policy == Policy::Drop;
    let totals = stat.totals.unwrap_or_default();
    let Balance { written, freed, present, .. } = Balance::of(station.policy, &totals);
    let [written, freed, present, refused, last] =
        [written, freed, present, totals.producer.refused.total(), totals.unreported()]
            .map(|count| count.records);
    let (read, lapped) = (seen.totals.records, seen.lapped());
    let reported = seen.totals.lost() - lapped;
    // The observer of an overwrite ring frees nothing, and has read to the end.
    let unread = if is_drop { present } else { 0 };
    let mut checks = vec![
        ("wrong records", 0, seen.wrong),
        ("read + lapped + present", written, read + lapped + unread),
        match is_drop {
            true => ("the ring's count of read", freed, read),
            false => ("overwritten + present", written, freed + present),
        },
        ("reported losses", refused, reported),
    ];
    if let Some((offered, own_refused)) = own {
        let missing = seen.missing + offered.saturating_sub(seen.next_seq);
        checks.extend([
            ("offered", offered + seen.resources, written + refused),
            ("refused, by the producer's count", own_refused, refused),
            ("missing sequence numbers", missing, refused + lapped),
        ]);
    } else {
        // What it offered last is unknown; what it wrote is in the ring. No record follows what
        // was refused last.
        let refused = reported.saturating_sub(last);
        checks.push(("missing sequence numbers", seen.missing, refused + lapped));
    }
    let wrong = checks.into_iter().filter(|(_, is, must)| is != must);
    let wrong = match stat.totals {
        Some(_) => wrong.map(|(what, is, must)| format!("{what}: {is} and {must}")).collect(),
        None => vec!["the ring's totals are damaged".to_owned()],
    };
    let sum = |of: &str, sum: u64, a: &str, x: u64, b: &str, y: u64| {
        let [sum, x, y] = [sum, x, y].map(HumanCount);
        format!("{of} {sum} = {a} {x} + {b} {y}")
    };
    let mut lines = Vec::new();
    if let Some((offered, _)) = own.filter(|_| refused > 0) {
        lines.push(sum("offered", offered, "written", written, "refused", refused));
    }
    if is_drop {
        lines.push(sum("written", written, "read", read, "present", present));
    } else {
        lines.push(sum("written", written, "read", read, "lapped", lapped));
        lines.push(sum("written", written, "overwritten", freed, "present", present));
    }
    (format!("{:<9}  {}", station.name, lines.join("\n           ")), wrong)
}

/// Shows the files that the sidecar has left, and how to open them.
fn files(screen: &mut Screen, out: &Path) -> Result<(), Failure> {
    let files = "The sidecar left two files, with each of these records, and each reported loss:";
    screen.say(Style::Bold, &format!("\n{files}"))?;
    let [trace, lines] = FILES.map(|name| out.join(name));
    let size = |path: &Path| bytes(path.metadata().map_or(0, |meta| meta.len()));
    let quoted = quoted(&lines.display().to_string());
    screen.line(&format!("{}  {}", trace.display(), size(&trace)))?;
    screen.line("    open https://ui.perfetto.dev in a browser, there \"Open trace file\":")?;
    screen.line("    the page reads it locally, nothing is uploaded")?;
    screen.line(&format!("{}  {}", lines.display(), size(&lines)))?;
    screen.line(&format!("    head -n 3 {quoted}"))?;
    screen.line(&format!("    jq -c 'select(.lost)' {quoted}"))
}

/// Quotes a path for a shell, if it must be.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}
