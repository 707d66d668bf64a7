//! A ring's figures as text for people.

use super::producers;
use crate::args::show_size;
use crate::columns::paragraph;
use crate::figures::areas::{metrics_used, types_used};
use crate::figures::boot;
use perfring_abi::Lead;
use perfring_consumer::{
    Evict, Layout, Location, Policy, Producers, Report,
    stat::{ConsumerFigures, OwnerInfo, RingTotals, Seat, Stat},
};
use perfring_figures::accounts::{Balance, Fill, counts, is_fed};
use perfring_figures::areas::TypesUse;
use perfring_figures::named::{is_read, lag, state};
use perfring_figures::owner::{held_up, name, user};
use perfring_figures::process::State;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes the figures to stdout.
pub(super) struct Page<'a, W> {
    pub(super) out: &'a mut W,
    pub(super) width: Option<usize>,
}

impl<W: Write> Page<'_, W> {
    /// Writes the figures; with earlier ones, also the rates.
    pub(super) fn write(
        &mut self,
        location: &Location,
        stat: &Stat,
        types: &TypesUse,
        since: Option<(Duration, &Stat)>,
    ) -> io::Result<()> {
        let layout = &stat.layout;
        if since.is_some() {
            writeln!(self.out)?;
        }
        writeln!(self.out, "{location}")?;
        self.line("policy", &policy(layout))?;
        self.line("kind", &kind(stat))?;
        let fill = stat.totals.map(|totals| Fill::of_data(stat, &totals));
        self.line("size", &full(layout.data_size, fill))?;
        if layout.aux_size != 0 {
            self.line("aux area", &aux(layout, stat.totals.as_ref()))?;
        }
        self.line("types", &types_line(types))?;
        if layout.metrics_size != 0 {
            self.line("metrics", &metrics_used(&stat.metrics))?;
        }
        let timestamps = match layout.lead() {
            Lead::None => "no timestamps",
            Lead::Time => "each record has a timestamp",
            Lead::SampleId => "each record has a timestamp, and the pid and tid of its writer",
        };
        self.line("time", timestamps)?;
        self.line("uuid", &uuid::Uuid::from_bytes(layout.uuid).to_string())?;
        let creator = format!("by pid {}, uid {}", layout.creator_pid, layout.creator_uid);
        self.line("created", &format!("{} {creator}", utc(layout.created_ns)))?;
        if let Some(boot) = boot::sentence(layout) {
            self.line("boot", &format!("{boot}: its processes are not here"))?;
        }
        if layout.producers == Producers::One {
            self.line("producer", &holding(&stat.producer, location))?;
        }
        if layout.consumers == 0 {
            self.line("consumer", &holding(&stat.consumer, location))?;
        } else {
            let (had, all) = (stat.consumers.len(), layout.consumers);
            self.line("consumers", &format!("named ones: {had} of {all} seats were taken so far"))?;
        }
        for consumer in &stat.consumers {
            self.line(&format!("seat {}", consumer.number), &named(consumer, location))?;
        }
        if let Some(held) = &stat.held_up {
            self.line("held up", &held_up(location, stat, held))?;
        }
        if let Some(totals) = &stat.totals {
            self.line("data_head", &totals.head.to_string())?;
            self.line("data_tail", &totals.tail.to_string())?;
            if layout.aux_size != 0 {
                self.line("aux_head", &totals.aux_head.to_string())?;
                self.line("aux_tail", &totals.aux_tail.to_string())?;
            }
            writeln!(self.out)?;
            writeln!(self.out, "  {:<12} {:>14} {:>18}", "", "records", "bytes")?;
            for (name, count) in counts(layout, totals) {
                writeln!(self.out, "  {name:<12} {:>14} {:>18}", count.records, count.bytes)?;
            }
        } else {
            self.line("totals", "damaged")?;
        }
        if !stat.producers.is_empty() {
            writeln!(self.out)?;
            let kind = layout.producers;
            producers::write(self.out, location, kind, &stat.producers, self.width)?;
        }
        let Some(totals) = &stat.totals else { return Ok(()) };
        writeln!(self.out)?;
        self.line("balance", &balance(stat, totals))?;
        if let Some((time, before)) = since
            && let Some(before) = &before.totals
        {
            self.line("rate", &rate(time, before, totals))?;
        }
        Ok(())
    }

    fn line(&mut self, name: &str, value: &str) -> io::Result<()> {
        writeln!(self.out, "{}", paragraph(&format!("  {name:<12} "), value, self.width))
    }
}

/// Formats how many producers at a time, and how often one has attached.
fn kind(stat: &Stat) -> String {
    let epoch = stat.epoch();
    match stat.layout.producers {
        Producers::One => format!("one producer at a time, epoch {epoch}"),
        Producers::Many => {
            let alive = stat.producers.iter().filter(|member| member.is_alive()).count();
            format!("many producers: {alive} of {} slots in use, epoch {epoch}", stat.layout.slots)
        }
        Producers::Cpu => {
            let alive = stat.producers.iter().filter(|member| member.is_alive()).count();
            let (cpu, slots) = (stat.layout.cpu, stat.layout.slots);
            format!("the producers of CPU {cpu}: {alive} of {slots} slots in use, epoch {epoch}")
        }
    }
}

fn policy(layout: &Layout) -> String {
    let report = match layout.report {
        Report::InStream => "losses reported in the stream",
        Report::CountersOnly => "losses reported in the counters alone",
    };
    match (layout.policy, layout.evict) {
        (Policy::Drop, _) => format!("drop, {report}"),
        (Policy::Overwrite, Evict::Exact) => format!("overwrite, {report}"),
        (Policy::Overwrite, Evict::Half) => format!("overwrite (half at a time), {report}"),
    }
}

/// Formats the AUX area's size, and how much of it large payloads take.
fn aux(layout: &Layout, totals: Option<&RingTotals>) -> String {
    let fill = |totals: &RingTotals| Fill::of(layout.aux_size, totals.aux_tail, totals.aux_head);
    let longest = format!("payloads of up to {} bytes", layout.max_len());
    format!("{}; {longest}", full(layout.aux_size, totals.map(fill)))
}

fn full(size: u64, fill: Option<Fill>) -> String {
    let Some(fill) = fill else { return show_size(size) };
    format!("{}, {} full ({} of {size} bytes)", show_size(size), fill.text(1), fill.used)
}

fn types_line(types: &TypesUse) -> String {
    match &types.damage[..] {
        _ if types.size == 0 => "no table".to_owned(),
        [] => types_used(types),
        damage => format!("damaged, {}: {}", types_used(types), damage.join("; ")),
    }
}

fn named(consumer: &Seat<ConsumerFigures>, location: &Location) -> String {
    let (who, state) = (identity(&consumer.owner), state(consumer, location));
    let (read, lag) = (consumer.figures.totals.read.records, lag(consumer));
    let left = if consumer.figures.waited_for { "" } else { "; not waited for" };
    format!("{state}: {who}; read {read}, {lag}{left}")
}

fn holding(holding: &Seat, location: &Location) -> String {
    let owner = &holding.owner;
    if owner.epoch == 0 {
        return if holding.is_alive() { "attaching" } else { "none so far" }.to_owned();
    }
    let state = State::of(holding.state, owner, location).word();
    format!("{state}: {}", identity(owner))
}

fn identity(owner: &OwnerInfo) -> String {
    let OwnerInfo { epoch, attached_ns, pid, .. } = owner;
    let (name, user, since) = (name(owner), user(owner), utc(*attached_ns));
    format!("{name}, pid {pid}{user}, attached {since} (attach {epoch})")
}

/// Formats a time of `CLOCK_REALTIME`, to the millisecond.
fn utc(ns: u64) -> String {
    let time: SystemTime = UNIX_EPOCH + Duration::from_nanos(ns);
    humantime::format_rfc3339_millis(time).to_string()
}

fn balance(stat: &Stat, totals: &RingTotals) -> String {
    let balance = Balance::of(stat.layout.policy, totals);
    let sum =
        format!("{} {} + present {}", balance.how, balance.freed.records, balance.present.records);
    let written = balance.written.records;
    if balance.holds() {
        format!("written {written} = {sum}")
    } else if is_fed(stat) || is_read(stat) {
        format!("written {written} ~ {sum} (in use: the figures are not of one moment)")
    } else {
        format!("written {written} is NOT {sum}")
    }
}

fn rate(time: Duration, before: &RingTotals, now: &RingTotals) -> String {
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
