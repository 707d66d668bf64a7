//! Channels one after the other: time until the first record, and memory.

use super::patience::Patience;
use crate::contestant::{Contestant, Receiver, Sender};
use crate::error::Result;
use crate::part::{Found, Part};
use crate::payload::SMALL;
use crate::payload::{Check, fill};
use crate::stage::{Mark, Stage, now_ns};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Returns the path of the channel with this number.
fn nth(path: &Path, turn: u64) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{turn}"));
    path.with_file_name(name)
}

/// Reads until so many records have arrived.
fn read(receiver: &mut impl Receiver, check: &mut Check, records: u64) -> Result<()> {
    let (mut count, mut patience) = (0, Patience::default());
    while count < records {
        let found = receiver.drain::<SMALL>(|bytes| check.see(bytes))?;
        count += found;
        if found == 0 {
            receiver.wait();
            patience.lose();
        }
    }
    Ok(())
}

fn add(found: &mut Found, check: &Check) {
    found.records += check.good();
    found.lost += check.lost;
    found.bad += check.bad;
}

/// Creates a channel, opens it and reads the first record; repeatedly, each time a new one. Both
/// processes are running already.
pub fn cold_receive<C: Contestant>(part: &Part, times: u64, stage: &Stage<'_>) -> Result<()> {
    stage.created()?;
    let start_ns = stage.ready()?;
    let mut found = Found { start_ns, ..Found::default() };
    for turn in 1..=times {
        let path = nth(&part.path, turn);
        let mut check = Check::default();
        let start = Instant::now();
        let held = C::create(&path, &part.setup)?;
        stage.mark(Mark::Created, turn);
        let mut receiver = C::receiver(&path, &part.setup, 0)?;
        stage.mark(Mark::Opened, turn);
        read(&mut receiver, &mut check, 1)?;
        found.cold_ns.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        stage.mark(Mark::Read, turn);
        stage.until(Mark::Closed, turn);
        drop(receiver);
        drop(held);
        check.finish(1);
        add(&mut found, &check);
    }
    found.end_ns = now_ns()?;
    stage.done(found)
}

/// The other side of [`cold_receive`].
pub fn cold_send<C: Contestant>(part: &Part, times: u64, stage: &Stage<'_>) -> Result<()> {
    stage.created()?;
    let start_ns = stage.ready()?;
    for turn in 1..=times {
        stage.until(Mark::Created, turn);
        let mut sender = C::sender(&nth(&part.path, turn), &part.setup, 0)?;
        // What is sent before the reader has opened may be lost.
        stage.until(Mark::Opened, turn);
        sender.send::<SMALL>(0..1, fill)?;
        stage.until(Mark::Read, turn);
        drop(sender);
        stage.mark(Mark::Closed, turn);
    }
    stage.done(Found { records: times, start_ns, end_ns: now_ns()?, ..Found::default() })
}

/// Creates channels, sends records through each, and holds them until the end of the sample.
pub fn hold_receive<C: Contestant>(
    part: &Part,
    rings: u64,
    records: u64,
    stage: &Stage<'_>,
) -> Result<()> {
    stage.created()?;
    let start_ns = stage.ready()?;
    let mut held = Vec::new();
    let mut found = Found { start_ns, ..Found::default() };
    for turn in 1..=rings {
        let path = nth(&part.path, turn);
        let channel = C::create(&path, &part.setup)?;
        stage.mark(Mark::Created, turn);
        let mut receiver = C::receiver(&path, &part.setup, 0)?;
        stage.mark(Mark::Opened, turn);
        let mut check = Check::default();
        read(&mut receiver, &mut check, records)?;
        stage.mark(Mark::Read, turn);
        check.finish(records);
        add(&mut found, &check);
        held.push((receiver, channel));
    }
    found.end_ns = now_ns()?;
    stage.done(found)
}

/// The other side of [`hold_receive`].
pub fn hold_send<C: Contestant>(
    part: &Part,
    rings: u64,
    records: u64,
    stage: &Stage<'_>,
) -> Result<()> {
    stage.created()?;
    let start_ns = stage.ready()?;
    let mut held = Vec::new();
    for turn in 1..=rings {
        stage.until(Mark::Created, turn);
        let mut sender = C::sender(&nth(&part.path, turn), &part.setup, 0)?;
        stage.until(Mark::Opened, turn);
        sender.send::<SMALL>(0..records, fill)?;
        stage.until(Mark::Read, turn);
        held.push(sender);
    }
    let records = rings * records;
    stage.done(Found { records, start_ns, end_ns: now_ns()?, ..Found::default() })
}
