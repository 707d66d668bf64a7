//! `perfring replay`: a recording's records, published again.

use crate::args;
use crate::door::{Door, Line, Report, Watch};
use crate::events::progress::Progress;
use crate::events::recorded::{Events, Recorded};
use crate::failure::{Failure, note};
use crate::owner::count;
use crate::records::filter::Filter;
use crate::records::select::SelectArgs;
use crate::records::time::{Since, untimed_recording};
use crate::stop::{POLL, Stop};
use perfring_consumer::{AttachError, Location, RecordType};
use perfring_export::{Event, Origin, Rec, Totals, What};
use perfring_producer::{Options, ReserveError, TypeError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Publish the records of a recording again
///
/// With their types, their payloads, and the distances that they had in time. The ring stamps them
/// anew, if it has time; positions are its own, too. A ring that is not there is made.
///
/// Example: perfring replay run.perfrec /dev/shm/again --rate 10
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A path, or shm:NAME
    #[arg(value_parser = args::location())]
    ring: Location,
    /// How fast: times the recording's own speed; max; or N/s for so many records a second
    #[arg(long, value_name = "N|N/s|max", default_value = "1", value_parser = rate)]
    rate: Rate,
    /// Again and again, until Ctrl-C
    #[arg(long = "loop")]
    again: bool,
    /// Only records of the ring of this name in the recording. Of several, any
    #[arg(long, value_name = "NAME")]
    of: Vec<String>,
    /// Wait for space in a full ring, at most so long per record. Else what it refuses is counted
    #[arg(long, value_name = "SECONDS", value_parser = args::seconds)]
    wait: Option<Duration>,
    /// Of a ring that is made: bytes for records. It has time stamps if the recording's records have,
    /// and refuses new ones when it is full; `perfring create` makes others
    #[arg(long, default_value = "1M", value_parser = args::size)]
    size: u64,
    /// End with code 5 if a record was lost
    #[arg(long)]
    fail_on_loss: bool,
    #[command(flatten)]
    select: SelectArgs,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    Times(f64),
    PerSecond(f64),
    Max,
}

fn rate(text: &str) -> Result<Rate, String> {
    let what = "write how many times as fast, like 1 or 0.5; so many a second, like 1000/s; or max";
    let number = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(what.to_owned()),
    };
    match text.strip_suffix("/s") {
        _ if text == "max" => Ok(Rate::Max),
        Some(each) => number(each).map(Rate::PerSecond),
        None => number(text).map(Rate::Times),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let newest = newest(args, &stop)?;
    let since = match args.select.since {
        Some(_) if newest.is_none() => return Err(untimed_recording(&args.file)),
        since => since.map(|since: Since| since.before(newest.unwrap_or(0))),
    };
    let mut door = open(args, newest.is_some())?;
    let before = door.counts();
    let watch = args.wait.map(|_| Watch::start(&stop));
    let mut replay = Replay {
        args,
        filter: Filter::new(&args.select, since),
        door: &mut door,
        watch,
        stop,
        progress: Progress::bar(),
        registered: HashMap::new(),
        totals: Totals::default(),
        untimed: 0,
        foreign: 0,
        origin: None,
    };
    let ended = replay.run();
    let took = replay.progress.end();
    let (totals, untimed, foreign) = (replay.totals.clone(), replay.untimed, replay.foreign);
    replay.filter.end();
    let report = Report::between(before, door.counts());
    let shared = matches!(door, Door::Many(_));
    let mut said = format!("{}; {:.1} s", report.sentence(&args.ring, shared), took.as_secs_f64());
    if totals.lost() > 0 {
        said += &format!("; the recording tells of losses: {totals}");
    }
    if untimed > 0 && matches!(args.rate, Rate::Times(_)) {
        let records = count(untimed, "record");
        said += &format!("; {records} without a stamp came right after the one before");
    }
    if foreign > 0 {
        let records = count(foreign, "record");
        said += &format!("; {records} of the kernel's or perfring's own types were left out");
    }
    if door.has_time() {
        said += "; the ring stamped them anew";
    }
    drop(door);
    note(&said);
    match ended {
        Ok(()) | Err(Failure::Signal(_)) if args.fail_on_loss && report.lost() > 0 => {
            Err(Failure::Loss(format!("{} of the records were lost", report.lost())))
        }
        ended => ended,
    }
}

/// The newest stamp that is found before the first record is published, if there is any: at the
/// beginning; or in all of it, if `--since` counts back from the newest record.
fn newest(args: &Args, stop: &Stop) -> Result<Option<u64>, Failure> {
    let mut events = Recorded::open(&args.file)?;
    let mut newest = None;
    let mut nth = 0u64;
    // Damage is told when it is replayed.
    while let Ok(Some(event)) = events.next() {
        nth += 1;
        if nth.is_multiple_of(1024) {
            stop.check()?;
        }
        let What::Record(record) = &event.what else { continue };
        newest = newest.max(record.time);
        if args.select.since.is_none() {
            break;
        }
    }
    Ok(newest)
}

/// The ring, made if it is not there.
fn open(args: &Args, time: bool) -> Result<Door, Failure> {
    match Door::attach(&args.ring, "perfring replay") {
        Err(AttachError::NotFound { .. }) => {
            let options = Options { size: args.size, time, ..Options::default() };
            perfring_producer::create(&args.ring, &options)?;
            Ok(Door::attach(&args.ring, "perfring replay")?)
        }
        door => Ok(door?),
    }
}

struct Replay<'a> {
    args: &'a Args,
    filter: Filter<'a>,
    door: &'a mut Door,
    watch: Option<Watch>,
    stop: Stop,
    progress: Progress,
    /// Of each ring, how many of its types were offered to the new one.
    registered: HashMap<u32, usize>,
    totals: Totals,
    untimed: u64,
    foreign: u64,
    /// A moment, and the recording's then.
    origin: Option<(Instant, u64)>,
}

impl Replay<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            self.stop.check()?;
            let mut events = Recorded::open(&self.args.file)?;
            let before = self.totals.records;
            (self.origin, self.registered) = (None, HashMap::new());
            let mut turn = 0u32;
            while let Some(event) = events.next()? {
                self.event(&event)?;
                turn += 1;
                if turn.is_multiple_of(256) {
                    self.stop.check()?;
                    if self.progress.is_due() {
                        self.progress.show(&self.totals, Some(events.progress()), "");
                    }
                }
            }
            if !self.args.again {
                return Ok(());
            }
            if self.totals.records == before {
                let why = "there is nothing in it to be replayed again and again";
                return Err(Failure::General(format!("{}: {why}", self.args.file.display())));
            }
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let of = &self.args.of;
        if !(of.is_empty() || of.contains(&event.origin.name)) || !self.filter.takes(event) {
            return Ok(());
        }
        self.totals.add(event);
        let What::Record(record) = &event.what else { return Ok(()) };
        let Some(kind) = RecordType::new(record.kind) else {
            self.foreign += 1;
            return Ok(());
        };
        self.register(event.origin)?;
        self.wait_for(record)?;
        let line = Line::Whole(record.bytes);
        let published = match self.args.wait {
            Some(wait) => self.door.publish_timeout(kind, line, wait),
            None => self.door.publish(kind, line),
        };
        if let Some(watch) = &self.watch {
            watch.count(published.is_ok());
        }
        match published {
            Err(error @ ReserveError::Corrupt { .. }) => {
                Err(Failure::Damaged(format!("{}: {error}", self.args.ring)))
            }
            _ => Ok(()), // what is refused is counted
        }
    }

    /// Puts the types of a ring of the recording into the new one.
    fn register(&mut self, origin: &Origin) -> Result<(), Failure> {
        let known = self.registered.entry(origin.id).or_default();
        if *known == origin.types.len() {
            return Ok(());
        }
        let from = std::mem::replace(known, origin.types.len());
        for entry in origin.types.entries().skip(from) {
            match self.door.register(&entry) {
                Ok(()) => {}
                Err(ReserveError::Type(error)) => {
                    let name = entry.name();
                    note(&format!("type {name} of {} is not told: {error}", origin.name));
                    if error == TypeError::NoTable {
                        break;
                    }
                }
                Err(error) => return Err(Failure::general(error)),
            }
        }
        Ok(())
    }

    /// Waits until a record's time has come.
    fn wait_for(&mut self, record: &Rec<'_>) -> Result<(), Failure> {
        self.untimed += u64::from(record.time.is_none());
        let due = match (self.args.rate, record.time) {
            (Rate::Max, _) | (Rate::Times(_), None) => return Ok(()),
            (Rate::PerSecond(each), _) => {
                let nth = self.totals.records - 1;
                let (then, first) = *self.origin.get_or_insert((Instant::now(), nth));
                after(then, (nth - first) as f64 / each)
            }
            (Rate::Times(times), Some(time)) => {
                let (then, first) = *self.origin.get_or_insert((Instant::now(), time));
                after(then, time.saturating_sub(first) as f64 / 1e9 / times)
            }
        };
        let left = |due: Instant| due.saturating_duration_since(Instant::now());
        while let Some(left) = due.map(left).filter(|left| !left.is_zero()) {
            self.stop.check()?;
            if self.progress.is_due() {
                self.progress.show(&self.totals, None, "");
            }
            std::thread::sleep(left.min(POLL));
        }
        Ok(())
    }
}

/// A moment, if there ever is such a one.
fn after(then: Instant, seconds: f64) -> Option<Instant> {
    // What is too far away to be told is as good as never.
    let far = Duration::from_secs(1 << 40);
    let distance = Duration::try_from_secs_f64(seconds).unwrap_or(far).min(far);
    then.checked_add(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_written() {
        assert_eq!(rate("2"), Ok(Rate::Times(2.0)));
        assert_eq!(rate("0.5"), Ok(Rate::Times(0.5)));
        assert_eq!(rate("1000/s"), Ok(Rate::PerSecond(1000.0)));
        assert_eq!(rate("max"), Ok(Rate::Max));
        for text in ["0", "-1", "nan", "inf", "x", "/s", "0/s", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
