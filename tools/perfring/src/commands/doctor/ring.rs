//! One ring: its file, its totals, and its unread records.

use super::consumers;
use super::files;
use super::machine::about;
use super::owners;
use super::read_locks;
use super::remove_ipc;
use super::report::Report;
use crate::args::show_size;
use crate::failure::Failure;
use crate::figures::agreed;
use crate::figures::areas::{metrics_used, types_used};
use crate::figures::boot::{self, Boot};
use nix::unistd::{AccessFlags, Uid, eaccess};
use perfring_consumer::{
    Layout, Location, Observer, Producers, Start,
    files::{FileSystem, RingFile},
    metrics::MetricsFill,
    stat::{Refused, RingTotals, Stat},
};
use perfring_figures::accounts::{Balance, is_fed};
use perfring_figures::areas::TypesUse;
use perfring_figures::named::is_read;
use perfring_figures::owner::count;
use std::fs;
use std::os::unix::fs::MetadataExt;

const ON_TMPFS: &str =
    "create rings in /dev/shm or on another tmpfs, and forward what has to travel";

pub(super) fn check(report: &mut Report, location: &Location) -> Result<(), Failure> {
    let stat = match agreed::read(location) {
        Ok(stat) => stat,
        Err(failure) => return report.refused("layout", failure),
    };
    layout(report, location, &stat.layout)?;
    file(report, location, &stat.layout)?;
    read_locks::check(report, location)?;
    pages(report, &stat.layout)?;
    boot(report, &stat.layout)?;
    areas(report, location, &stat.metrics)?;
    if let Some(totals) = &stat.totals {
        accounts(report, &stat, totals)?;
        owners::check(report, location, &stat)?;
        consumers::check(report, location, &stat, totals)?;
        losses(report, totals)
    } else {
        let message = format!(
            "{location} is damaged: no producer writes such figures; `perfring dump {location}` shows what \
             can still be read"
        );
        report.refused("totals", Failure::Damaged(message))
    }
}

fn layout(report: &mut Report, location: &Location, layout: &Layout) -> Result<(), Failure> {
    let kind = match layout.producers {
        Producers::One => "one producer at a time".to_owned(),
        Producers::Many => format!("up to {}", count(layout.slots.into(), "producer")),
        Producers::Cpu => {
            format!("up to {} on CPU {}", count(layout.slots.into(), "process"), layout.cpu)
        }
    };
    let (policy, mut size) = (layout.policy.name(), show_size(layout.data_size));
    if layout.aux_size != 0 {
        size += &format!(" and {} for large payloads", show_size(layout.aux_size));
    }
    let shape = format!("{policy}, {size}, {kind}");
    let known = perfring_abi::ABI_VERSION;
    match files::layout_version(&location.path()) {
        Some(version) if version > known => report.note(
            "layout",
            format!("version {version}, created to be readable by version {known} too; {shape}"),
        ),
        version => report.ok("layout", format!("version {}, {shape}", version.unwrap_or(known))),
    }
}

/// Reports its file system, who may use it, and whether locks work there.
fn file(report: &mut Report, location: &Location, layout: &Layout) -> Result<(), Failure> {
    let path = location.holder();
    let (Ok(meta), Ok(fs)) = (fs::metadata(&path), FileSystem::of(&path)) else {
        return report.note("file", "it was removed a moment ago");
    };
    let on = format!("on {}, {} free", fs.name(), about(fs.free()));
    let missing = layout.file_size().saturating_sub(meta.blocks() * 512);
    if let Some(warning) = fs.warning() {
        report.warn("file system", format!("{on}: {warning}"), ON_TMPFS)?;
    } else if fs.is_memory() && missing > fs.free() {
        let advice = "free some space, or a process that writes there is killed by SIGBUS";
        report.warn("file system", format!("{on}: {missing} bytes of it have no page"), advice)?;
    } else if fs.is_memory() {
        report.ok("file system", on)?;
    } else {
        let disk = "the kernel writes it to disk now and then; /dev/shm is memory";
        let note = fs.note().map_or_else(String::new, |note| format!("; {note}"));
        report.note("file system", format!("{on}: {disk}{note}"))?;
    }
    overlay(report, location)?;
    let (mode, owner) = (meta.mode() & 0o777, meta.uid());
    let whose = format!("mode {mode:04o}, owner uid {owner}");
    let me = Uid::effective();
    if eaccess(&path, AccessFlags::R_OK | AccessFlags::W_OK).is_err() {
        let message =
            format!("{whose}: uid {me} may observe it, but not publish, consume or recover");
        report.note("access", message)?;
    } else if mode & 0o002 != 0 {
        report.note("access", format!("{whose}: every user of this machine may write to it"))?;
    } else {
        report.ok("access", format!("{whose}: uid {me} may do everything"))?;
    }
    remove_ipc::check(report, &path, owner)?;
    match files::locks_work(&path) {
        Ok(true) => report.ok("locks", "open-file-description locks work here"),
        Ok(false) => report.fail(
            "locks",
            "open-file-description locks do not work here: no process can find out which others are alive",
            "create rings on a tmpfs",
        ),
        Err(error) => report.note("locks", format!("cannot be tested: {error}")),
    }
}

/// Reports a file whose locks say nothing of those who opened it through an overlay.
fn overlay(report: &mut Report, location: &Location) -> Result<(), Failure> {
    let ring = RingFile::inspect(location.clone()).ok();
    let Some(shown) = ring.and_then(|ring| ring.shown_through_overlay()) else { return Ok(()) };
    let path = shown.display();
    report.warn(
        "overlay",
        format!("it is in an overlay's upper directory: who opened it as {path} has locks that are not seen here"),
        format!("use that path: perfring doctor '{path}'"),
    )
}

fn pages(report: &mut Report, layout: &Layout) -> Result<(), Failure> {
    let (ring, here) = (u64::from(layout.page_size), rustix::param::page_size() as u64);
    if ring.is_multiple_of(here) {
        return report.ok("pages", format!("{ring} bytes; {here} on this machine"));
    }
    report.note(
        "pages",
        format!(
            "{ring} bytes; {here} on this machine: it can be observed and dumped here, not \
             produced to or consumed from"
        ),
    )
}

fn boot(report: &mut Report, layout: &Layout) -> Result<(), Failure> {
    match boot::of(layout) {
        Boot::This => report.ok("boot", "created since this machine started"),
        Boot::Other => report.note(
            "boot",
            "created before this machine started, or on another: the pids in it mean nothing here"
                .to_owned(),
        ),
        Boot::Unknown => report.note("boot", "the boot in which it was created is unknown"),
    }
}

fn areas(report: &mut Report, location: &Location, metrics: &MetricsFill) -> Result<(), Failure> {
    let types = match Observer::attach(location, Start::Latest) {
        Ok(observer) => TypesUse::of(&observer),
        Err(error) => return report.refused("types", error.into()),
    };
    self::types(report, &types)?;
    if metrics.size == 0 {
        return Ok(());
    }
    if metrics.damage.is_some() {
        let advice = "the records are not affected; keep a copy of the ring if they matter, remove it and make it again";
        report.damaged("metrics", metrics_used(metrics), advice)
    } else if metrics.unmeasured().is_some() {
        let advice = "create the next ring with more (`perfring create --metrics-size`)";
        report.warn("metrics", metrics_used(metrics), advice)
    } else {
        report.ok("metrics", metrics_used(metrics))
    }
}

fn types(report: &mut Report, types: &TypesUse) -> Result<(), Failure> {
    if types.size == 0 {
        report.ok("types", "no table, as its creator chose: records are bytes")
    } else if !types.damage.is_empty() {
        let message = types.damage.join("; ");
        report.refused("types", Failure::Damaged(format!("{message}; {}", types_used(types))))
    } else if types.is_nearly_full() {
        let advice = "create the next ring with more (`perfring create --types-size`)";
        report.warn("types", format!("the table is nearly full: {}", types_used(types)), advice)
    } else {
        report.ok("types", types_used(types))
    }
}

fn accounts(report: &mut Report, stat: &Stat, totals: &RingTotals) -> Result<(), Failure> {
    let balance = Balance::of(stat.layout.policy, totals);
    let (written, how, freed) = (balance.written.records, balance.how, balance.freed.records);
    let sum = format!("{how} {freed} + present {}", balance.present.records);
    if balance.holds() {
        report.ok("totals", format!("written {written} = {sum}"))
    } else if is_fed(stat) || is_read(stat) {
        let message =
            format!("written {written} ~ {sum}: in use, so the figures are not of one moment");
        report.ok("totals", message)
    } else {
        report.fail(
            "totals",
            format!("written {written} is NOT {sum}"),
            "another program wrote to the file; save it (cp) and create a new ring",
        )
    }
}

fn losses(report: &mut Report, totals: &RingTotals) -> Result<(), Failure> {
    let refused = &totals.producer.refused;
    if *refused == Refused::default() {
        return report.ok("losses", "no record was refused since the ring was created");
    }
    let causes = [
        ("full", refused.full, "a larger ring or a faster consumer helps"),
        ("too_large", refused.too_large, "they are longer than the ring's limit"),
        ("contended", refused.contended, "a producer held the lock; batches help"),
        ("pending", refused.pending, "a producer kept a reservation open"),
    ];
    let causes = causes.iter().filter(|(_, count, _)| count.records > 0);
    let causes: Vec<String> = causes
        .map(|(cause, count, advice)| format!("{cause} {} ({advice})", count.records))
        .collect();
    report.note("losses", format!("refused since the ring was created: {}", causes.join(", ")))
}
