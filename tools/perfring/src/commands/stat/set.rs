//! The sums over the rings of a directory.

use crate::events::input::rings_of;
use crate::failure::Failure;
use crate::figures::agreed;
use crate::figures::areas::metrics_used;
use crate::output::json::line;
use crate::stop::Stop;
use perfring_consumer::{Location, Producers, metrics::MetricsFill, stat::Stat};
use perfring_export::Stream;
use perfring_figures::accounts::{Balance, Fill, is_fed, sums};
use perfring_figures::json;
use perfring_figures::named::is_read;
use perfring_figures::owner::count;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

pub(super) fn run(
    dir: &Location,
    json: bool,
    interval: Option<Duration>,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(Stream::stdout());
    let mut first = true;
    loop {
        let now = Instant::now();
        let mut rings = Vec::new();
        for ring in rings_of(dir)? {
            match agreed::read(&ring) {
                Err(Failure::NotFound(_)) => {} // removed meanwhile
                stat => rings.push((ring, stat?)),
            }
        }
        let written = if json {
            write_json(&mut out, dir, &rings)
        } else {
            write_text(&mut out, dir, &rings, first)
        };
        written.and_then(|()| out.flush()).map_err(Failure::output)?;
        if let Some((ring, _)) = rings.iter().find(|(_, stat)| stat.totals.is_none()) {
            return Err(Failure::Damaged(format!(
                "the totals of {ring} are damaged, and not in the sums; `perfring stat {ring}` says more"
            )));
        }
        first = false;
        let Some(interval) = interval else { return Ok(()) };
        stop.pause(now, interval)?;
    }
}

/// Whether every record of every ring is accounted for.
fn is_balanced(rings: &[(Location, Stat)]) -> bool {
    rings.iter().all(|(_, stat)| {
        stat.totals.as_ref().is_some_and(|totals| Balance::of(stat.layout.policy, totals).holds())
    })
}

fn fill(rings: &[(Location, Stat)]) -> Fill {
    rings.iter().fold(Fill::default(), |sum, (_, stat)| {
        let used = stat.totals.map_or(0, |totals| Fill::of_data(stat, &totals).used);
        Fill {
            used: sum.used.saturating_add(used),
            size: sum.size.saturating_add(stat.layout.data_size),
        }
    })
}

/// Returns how full the metrics areas are together.
fn metrics(rings: &[(Location, Stat)]) -> MetricsFill {
    rings.iter().fold(MetricsFill::default(), |sum, (_, stat)| sum.plus(stat.metrics))
}

fn write_text(
    out: &mut impl Write,
    dir: &Location,
    rings: &[(Location, Stat)],
    first: bool,
) -> io::Result<()> {
    if !first {
        writeln!(out)?;
    }
    let cpus = rings.iter().filter(|(_, stat)| stat.layout.producers == Producers::Cpu).count();
    let kind = match cpus {
        0 => "",
        all if all == rings.len() => ", one for each CPU that published",
        _ => ", some of them of CPUs",
    };
    let fed = rings.iter().filter(|(_, stat)| is_fed(stat)).count();
    let read = rings.iter().filter(|(_, stat)| is_read(stat)).count();
    let held = rings.iter().filter(|(_, stat)| stat.held_up.is_some()).count();
    let Fill { used, size } = fill(rings);
    writeln!(out, "{dir}")?;
    writeln!(out, "  rings        {}{kind}", rings.len())?;
    writeln!(out, "  size         {} full ({used} of {size} bytes)", fill(rings).text(1))?;
    writeln!(
        out,
        "  attached     producers to {}, a consumer to {read}",
        count(fed as u64, "ring")
    )?;
    if held > 0 {
        writeln!(
            out,
            "  held up      {}: see `perfring doctor {dir}`",
            count(held as u64, "ring")
        )?;
    }
    writeln!(out, "\n  {:<12} {:>14} {:>18}", "", "records", "bytes")?;
    for (name, count) in sums(rings.iter().map(|(_, stat)| stat)) {
        writeln!(out, "  {name:<12} {:>14} {:>18}", count.records, count.bytes)?;
    }
    let fill = metrics(rings);
    if fill.size > 0 {
        let damaged = rings.iter().find(|(_, stat)| stat.metrics.damage.is_some());
        let ring = damaged.map(|(ring, _)| format!(" (in {ring})")).unwrap_or_default();
        writeln!(out, "\n  metrics      {}{ring}", metrics_used(&fill))?;
    }
    let balance = match is_balanced(rings) {
        true => "every record of every ring is accounted for",
        false => "not yet, as rings are in use: `perfring ls` lists them",
    };
    writeln!(out, "\n  balance      {balance}")
}

fn write_json(out: &mut impl Write, dir: &Location, rings: &[(Location, Stat)]) -> io::Result<()> {
    for (ring, stat) in rings {
        line(out, &json::object(ring, stat, None))?;
    }
    let Fill { used, size } = fill(rings);
    let mut sum = json!({
        "dir": dir.to_string(),
        "rings": rings.len(),
        "data_size": size,
        "used_bytes": used,
        "balanced": is_balanced(rings),
    });
    json::insert_fill(&mut sum, &metrics(rings));
    for (name, count) in sums(rings.iter().map(|(_, stat)| stat)) {
        sum[format!("{name}_records")] = Value::from(count.records);
        sum[format!("{name}_bytes")] = Value::from(count.bytes);
    }
    line(out, &sum)
}
