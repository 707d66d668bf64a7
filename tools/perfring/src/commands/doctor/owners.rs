//! The producers of a ring: what dead ones left behind, and which one holds the others up.

use super::report::Report;
use crate::failure::Failure;
use crate::owner::{count, held_up, holding, member, owner};
use perfring_consumer::{HeldUp, Location, Member, Producers, Stat};
use std::fs;
use std::os::unix::fs::MetadataExt;

pub(super) fn check(report: &mut Report, location: &Location, stat: &Stat) -> Result<(), Failure> {
    if stat.layout.producers == Producers::One {
        return report.ok("producer", holding(&stat.producer));
    }
    let alive = stat.producers.iter().filter(|member| member.alive).count() as u64;
    let slots = u64::from(stat.layout.slots);
    let used = format!("{alive} of {} in use", count(slots, "slot"));
    if alive < slots {
        report.ok("producers", used)?;
    } else {
        let advice = "end one before another can attach, or create the ring with more slots";
        report.warn("producers", used, advice)?;
    }
    leftovers(report, location, stat)?;
    match &stat.held_up {
        None => report.ok("held up", "by no producer"),
        Some(held) if held.alive => held_up_alive(report, location, stat, held),
        Some(held) => {
            let how = held_up(location, stat, held);
            let (message, advice) = how.split_once(": ").unwrap_or((&how, ""));
            report.warn("held up", message, advice)
        }
    }
}

/// Reports what dead producers left open.
fn leftovers(report: &mut Report, location: &Location, stat: &Stat) -> Result<(), Failure> {
    let left = |member: &&Member| !member.alive && member.figures.open.records > 0;
    let mut found = false;
    for member in stat.producers.iter().filter(left) {
        found = true;
        let open = &member.figures.open;
        let mut message = format!(
            "{} is dead and left {} open ({} bytes)",
            owner(stat, member.figures.slot),
            count(open.records, "reservation"),
            open.bytes
        );
        let stranded = stat.totals.map_or(0, |totals| totals.stranded.records);
        if stranded > 0 {
            message += &format!("; {} stranded", count(stranded, "record"));
        }
        report.warn("leftovers", message, format!("run `perfring recover {location}`"))?;
    }
    if found {
        return Ok(());
    }
    report.ok("leftovers", "no dead producer left anything open")
}

fn held_up_alive(
    report: &mut Report,
    location: &Location,
    stat: &Stat,
    held: &HeldUp,
) -> Result<(), Failure> {
    let how = held_up(location, stat, held);
    let (message, advice) = how.split_once(": ").unwrap_or((&how, ""));
    let pid = member(stat, held.slot).map(|member| member.figures.owner.pid);
    let (message, advice) = match pid.and_then(|pid| Some((pid, state(pid, location)?))) {
        Some((pid, 'T')) => (
            format!("{message}; it was stopped by a signal"),
            format!("kill -CONT {pid} to continue it, or end it"),
        ),
        Some((_, 't')) => (
            format!("{message}; it is stopped by a debugger"),
            "let the debugger continue it, or end it".to_owned(),
        ),
        Some((pid, 'D')) => (
            format!("{message}; it waits in the kernel (see /proc/{pid}/wchan)"),
            "wait for it; a signal will not end it now".to_owned(),
        ),
        Some((_, 'S')) => (
            format!("{message}; it sleeps, or waits for something"),
            "see what it waits for, or end it".to_owned(),
        ),
        Some((_, 'R')) => {
            (format!("{message}; it is running"), "wait for it, or end it".to_owned())
        }
        _ => (message.to_owned(), advice.to_owned()),
    };
    report.warn("held up", message, advice)
}

/// Returns the state of a process, if it is visible and has this very ring open: a pid of another
/// namespace, or a reused one, is no evidence.
fn state(pid: u32, location: &Location) -> Option<char> {
    let ring = fs::metadata(location.path()).ok()?;
    let process = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?;
    let has_it = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().any(|fd| {
        fs::metadata(fd.path())
            .is_ok_and(|file| (file.dev(), file.ino()) == (ring.dev(), ring.ino()))
    });
    if !has_it {
        return None;
    }
    process.stat().ok().map(|stat| stat.state)
}
