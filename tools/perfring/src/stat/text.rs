//! A ring's figures for people.

use super::Balance;
use crate::args::show_size;
use perfring_consumer::{Count, Evict, Holding, Home, Layout, Policy, Stat, Tell, Totals};
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes the figures; with those of a while ago, also the rates.
pub(super) fn write(
    out: &mut impl Write,
    home: &Home,
    stat: &Stat,
    since: Option<(Duration, &Stat)>,
) -> io::Result<()> {
    let layout = &stat.layout;
    if since.is_some() {
        writeln!(out)?;
    }
    writeln!(out, "{home}")?;
    line(out, "policy", &policy(layout))?;
    line(out, "size", &size(layout, stat.totals.as_ref()))?;
    line(out, "uuid", &uuid::Uuid::from_bytes(layout.uuid).to_string())?;
    let creator = format!("by pid {}, uid {}", layout.creator_pid, layout.creator_uid);
    line(out, "created", &format!("{} {creator}", utc(layout.created_ns)))?;
    line(out, "producer", &holding(&stat.producer))?;
    line(out, "consumer", &holding(&stat.consumer))?;
    let Some(totals) = &stat.totals else {
        return line(out, "books", "damaged");
    };
    line(out, "data_head", &totals.head.to_string())?;
    line(out, "data_tail", &totals.tail.to_string())?;
    writeln!(out)?;
    writeln!(out, "  {:<12} {:>14} {:>18}", "", "records", "bytes")?;
    for (name, count) in counts(layout.policy, totals) {
        writeln!(out, "  {name:<12} {:>14} {:>18}", count.records, count.bytes)?;
    }
    writeln!(out)?;
    line(out, "balance", &balance(stat, totals))?;
    if let Some((time, before)) = since
        && let Some(before) = &before.totals
    {
        line(out, "rate", &rate(time, before, totals))?;
    }
    Ok(())
}

fn line(out: &mut impl Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "  {name:<12} {value}")
}

fn policy(layout: &Layout) -> String {
    let tell = match layout.tell {
        Tell::InStream => "losses told in the stream",
        Tell::CountersOnly => "losses in the counters alone",
    };
    match (layout.policy, layout.evict) {
        (Policy::Drop, _) => format!("drop, {tell}"),
        (Policy::Overwrite, Evict::Exact) => format!("overwrite, {tell}"),
        (Policy::Overwrite, Evict::Half) => format!("overwrite (half at a time), {tell}"),
    }
}

fn size(layout: &Layout, totals: Option<&Totals>) -> String {
    let size = show_size(layout.data_size);
    match totals {
        Some(totals) => {
            let used = totals.head.saturating_sub(totals.tail);
            let percent = used as f64 * 100.0 / layout.data_size as f64;
            format!("{size}, {percent:.1}% full ({used} of {} bytes)", layout.data_size)
        }
        None => size,
    }
}

fn holding(holding: &Holding) -> String {
    let who = &holding.who;
    if who.epoch == 0 {
        return if holding.alive { "attaching" } else { "none so far" }.to_owned();
    }
    let name = if who.name.is_empty() { "unnamed" } else { &who.name };
    let state = if holding.alive { "alive" } else { "gone" };
    let since = utc(who.attached_ns);
    let nth = who.epoch;
    format!("{state}: {name}, pid {}, uid {}, attached {since} (attach {nth})", who.pid, who.uid)
}

/// A time of `CLOCK_REALTIME`, to the millisecond.
fn utc(ns: u64) -> String {
    let time: SystemTime = UNIX_EPOCH + Duration::from_nanos(ns);
    humantime::format_rfc3339_millis(time).to_string()
}

/// The counts that say something on a ring of this policy.
fn counts(policy: Policy, totals: &Totals) -> Vec<(&'static str, Count)> {
    let producer = &totals.producer;
    let mut counts = vec![("written", producer.written)];
    if policy == Policy::Overwrite {
        counts.push(("overwritten", totals.overwritten));
    }
    counts.push(("still there", totals.present));
    counts.push(("read", totals.consumer.read));
    if policy == Policy::Overwrite {
        counts.push(("lapped", totals.consumer.lapped));
    }
    if policy == Policy::Drop {
        counts.push(("full", producer.refused.full));
    }
    counts.push(("too_large", producer.refused.too_large));
    counts.push(("untold", totals.untold()));
    counts.push(("discarded", producer.discarded));
    counts
}

fn balance(stat: &Stat, totals: &Totals) -> String {
    let balance = Balance::of(stat.layout.policy, totals);
    let sum = format!(
        "{} {} + still there {}",
        balance.how, balance.gone.records, balance.present.records
    );
    let written = balance.written.records;
    if balance.holds() {
        format!("written {written} = {sum}")
    } else if stat.producer.alive || stat.consumer.alive {
        format!("written {written} ~ {sum} (in use: each figure is of its own moment)")
    } else {
        format!("written {written} is NOT {sum}")
    }
}

fn rate(time: Duration, before: &Totals, now: &Totals) -> String {
    let seconds = time.as_secs_f64();
    let written = now.producer.written.since(before.producer.written);
    let read = now.consumer.read.since(before.consumer.read);
    format!(
        "written {:.0} records/s, {:.2} MB/s; read {:.0} records/s",
        written.records as f64 / seconds,
        written.bytes as f64 / seconds / 1e6,
        read.records as f64 / seconds
    )
}
