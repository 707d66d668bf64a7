//! One ring: its file, its books, and what is waiting.

use super::files::{self, FileSystem};
use super::machine::about;
use super::owners;
use super::report::Report;
use crate::args::show_size;
use crate::failure::Failure;
use crate::figures::accounts::{self, Balance, is_fed};
use crate::figures::types::TypesUse;
use crate::owner::{count, holding};
use nix::unistd::{AccessFlags, Uid, eaccess};
use perfring_consumer::{Layout, Location, Policy, Producers, Refused, RingTotals, Stat};
use std::fs;
use std::os::unix::fs::MetadataExt;

pub(super) fn check(report: &mut Report, location: &Location) -> Result<(), Failure> {
    let stat = match accounts::read(location) {
        Ok(stat) => stat,
        Err(failure) => return report.refused("layout", failure),
    };
    layout(report, location, &stat.layout)?;
    file(report, location, &stat.layout)?;
    pages(report, &stat.layout)?;
    boot(report, &stat.layout)?;
    types(report, location)?;
    if let Some(totals) = &stat.totals {
        accounts(report, &stat, totals)?;
        owners::check(report, location, &stat)?;
        consumer(report, location, &stat, totals)?;
        losses(report, totals)
    } else {
        let says = format!(
            "{location} is damaged: no producer leaves such figures; `perfring dump {location}` shows what \
             can still be read"
        );
        report.refused("books", Failure::Damaged(says))
    }
}

fn layout(report: &mut Report, location: &Location, layout: &Layout) -> Result<(), Failure> {
    let kind = match layout.producers {
        Producers::One => "one producer at a time".to_owned(),
        Producers::Many => format!("up to {}", count(layout.slots.into(), "producer")),
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
            format!("version {version}, made to be read by this version {known} too; {shape}"),
        ),
        version => report.ok("layout", format!("version {}, {shape}", version.unwrap_or(known))),
    }
}

/// Where it is, who may use it, and whether locks work there.
fn file(report: &mut Report, location: &Location, layout: &Layout) -> Result<(), Failure> {
    let path = location.path();
    let (Ok(meta), Ok(fs)) = (fs::metadata(&path), FileSystem::of(&path)) else {
        return report.note("file", "it was removed a moment ago");
    };
    let place = format!("on {}, {} free", fs.name(), about(fs.free));
    let missing = layout.file_size().saturating_sub(meta.blocks() * 512);
    if fs.is_remote() {
        let todo = "make rings in /dev/shm, and forward what has to travel";
        report.warn("file system", format!("{place}: it is not this machine's memory"), todo)?;
    } else if fs.is_tmpfs() && missing > fs.free {
        let todo = "free some, or a process that writes there is killed by SIGBUS";
        report.warn("file system", format!("{place}: {missing} bytes of it have no page"), todo)?;
    } else if fs.is_memory() {
        report.ok("file system", place)?;
    } else {
        let says =
            format!("{place}: the kernel writes it to disk now and then; /dev/shm is memory");
        report.note("file system", says)?;
    }
    let (mode, owner) = (meta.mode() & 0o777, meta.uid());
    let whose = format!("mode {mode:04o}, owner uid {owner}");
    let me = Uid::effective();
    if eaccess(&path, AccessFlags::R_OK | AccessFlags::W_OK).is_err() {
        let says = format!("{whose}: uid {me} may watch it, and not publish, consume or recover");
        report.note("access", says)?;
    } else if mode & 0o002 != 0 {
        report.note("access", format!("{whose}: every user of this machine may write to it"))?;
    } else {
        report.ok("access", format!("{whose}: uid {me} may do everything"))?;
    }
    match files::locks_work(&path) {
        Ok(true) => report.ok("locks", "open-file-description locks work here"),
        Ok(false) => report.fail(
            "locks",
            "open-file-description locks do not work here: nobody can tell who is alive",
            "make rings on a tmpfs",
        ),
        Err(error) => report.note("locks", format!("cannot be tried: {error}")),
    }
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
    let here = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| uuid::Uuid::try_parse(text.trim()).ok());
    let ring = uuid::Uuid::from_bytes(layout.boot_id);
    match here {
        Some(here) if here == ring => report.ok("boot", "made since this machine started"),
        Some(_) if !ring.is_nil() => report.note(
            "boot",
            "made before this machine started, or on another: the pids in it mean nothing here"
                .to_owned(),
        ),
        _ => report.note("boot", "the kernel does not tell in which boot it was made"),
    }
}

fn types(report: &mut Report, location: &Location) -> Result<(), Failure> {
    let types = match TypesUse::read(location) {
        Ok(types) => types,
        Err(failure) => return report.refused("types", failure),
    };
    if types.size == 0 {
        report.ok("types", "no table, by the wish of its maker: records are bytes")
    } else if !types.damage.is_empty() {
        let says = types.damage.join("; ");
        report.refused("types", Failure::Damaged(format!("{says}; {}", types.used())))
    } else if types.is_nearly_full() {
        let todo = "make the next ring with more (`perfring create --types-size`)";
        report.warn("types", format!("the table is nearly full: {}", types.used()), todo)
    } else {
        report.ok("types", types.used())
    }
}

fn accounts(report: &mut Report, stat: &Stat, totals: &RingTotals) -> Result<(), Failure> {
    let balance = Balance::of(stat.layout.policy, totals);
    let (written, how, gone) = (balance.written.records, balance.how, balance.gone.records);
    let sum = format!("{how} {gone} + still there {}", balance.present.records);
    if balance.holds() {
        report.ok("books", format!("written {written} = {sum}"))
    } else if is_fed(stat) || stat.consumer.alive {
        let says = format!("written {written} ~ {sum}: in use, each figure is of its own moment");
        report.ok("books", says)
    } else {
        report.fail(
            "books",
            format!("written {written} is NOT {sum}"),
            "somebody else wrote to the file; save it (cp) and make a new ring",
        )
    }
}

fn consumer(
    report: &mut Report,
    location: &Location,
    stat: &Stat,
    totals: &RingTotals,
) -> Result<(), Failure> {
    let last = holding(&stat.consumer);
    let waiting = totals.present.records;
    if stat.consumer.alive || stat.layout.policy == Policy::Overwrite || waiting == 0 {
        return report.ok("consumer", last);
    }
    let wait = if waiting == 1 { "waits" } else { "wait" };
    let says = format!("{last}, and {} {wait}", count(waiting, "record"));
    let used = totals.head.saturating_sub(totals.tail);
    if used >= stat.layout.data_size / 10 * 9 {
        let todo = format!("start one, for example `perfring consume {location}`");
        report.warn("consumer", format!("{says}; new ones find no room"), todo)
    } else {
        report.note("consumer", says)
    }
}

fn losses(report: &mut Report, totals: &RingTotals) -> Result<(), Failure> {
    let refused = &totals.producer.refused;
    if *refused == Refused::default() {
        return report.ok("losses", "no record was refused since the ring was made");
    }
    let causes = [
        ("full", refused.full, "a larger ring or a faster consumer helps"),
        ("too_large", refused.too_large, "they are longer than the ring takes"),
        ("contended", refused.contended, "a producer kept the lock; batches help"),
        ("pending", refused.pending, "a producer kept a reservation open"),
    ];
    let causes = causes.iter().filter(|(_, count, _)| count.records > 0);
    let causes: Vec<String> = causes
        .map(|(cause, count, advice)| format!("{cause} {} ({advice})", count.records))
        .collect();
    report.note("losses", format!("refused since the ring was made: {}", causes.join(", ")))
}
