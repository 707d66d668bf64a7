//! `perfring replay`: publishes a recording's records again.

use crate::any_producer::{AnyProducer, Line, Report, Watch};
use crate::args;
use crate::events::progress::Progress;
use crate::events::recorded::{Events, Recorded};
use crate::failure::{Failure, note, work_done};
use crate::records::filter::Filter;
use crate::records::select::SelectArgs;
use crate::records::time::{Since, untimed_recording};
use crate::stop::{POLL, Stop};
use perfring_consumer::{AttachError, Location, RecordType};
use perfring_export::{Event, Origin, Rec, Totals, What};
use perfring_figures::owner::count;
use perfring_producer::{Options, ReserveError, error::TypeError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Publish the records of a recording again
///
/// Keeps their types, their payloads, and the times between them. The ring assigns new timestamps,
/// if it has them, and new positions. A ring that does not exist is created.
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
    /// The speed: a multiple of the recording's own; max; or N/s for so many records a second
    #[arg(long, value_name = "N|N/s|max", default_value = "1", value_parser = rate)]
    rate: Rate,
    /// Repeat until Ctrl-C
    #[arg(long = "loop")]
    again: bool,
    /// Only records of the ring of this name in the recording. May be repeated
    #[arg(long, value_name = "NAME")]
    of: Vec<String>,
    /// Wait for space in a full ring, at most this long per record, like 10s. Without it, what
    /// the ring refuses is counted
    #[arg(long, value_name = "TIME", value_parser = args::parse_duration)]
    wait: Option<Duration>,
    /// Size of the data area of a ring that is created. It has timestamps if the recording's
    /// records have, and refuses new records when it is full; `perfring create` makes others
    #[arg(long, default_value = "1M", value_parser = args::parse_size)]
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
    let mut producer = open(args, newest.is_some())?;
    let before = producer.counts();
    let watch = args.wait.map(|_| Watch::start(&stop));
    let mut replay = Replay {
        args,
        filter: Filter::new(&args.select, since),
        producer: &mut producer,
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
    let ended = ended.and(replay.filter.check());
    let report = Report::between(&before, &producer.counts());
    let shared = matches!(producer, AnyProducer::Many(_));
    let mut said = format!("{}; {:.1} s", report.sentence(&args.ring, shared), took.as_secs_f64());
    if totals.lost() > 0 {
        said += &format!("; the recording reports losses: {totals}");
    }
    if untimed > 0 && matches!(args.rate, Rate::Times(_)) {
        let records = count(untimed, "record");
        said += &format!("; {records} without a timestamp followed the previous one at once");
    }
    if foreign > 0 {
        let records = count(foreign, "record");
        said += &format!("; {records} of the kernel's or perfring's own types were left out");
    }
    if producer.has_time() {
        said += "; the ring assigned new timestamps";
    }
    drop(producer);
    work_done(&said, report.lost() > 0 || totals.has_lost());
    match ended {
        Ok(()) | Err(Failure::Signal(_)) if args.fail_on_loss && report.lost() > 0 => {
            Err(Failure::Loss(format!("{} of the records were lost", report.lost())))
        }
        ended => ended,
    }
}

/// Returns the newest timestamp before the first record is published, if there is any: from the
/// beginning; or from the whole recording, if `--since` counts back from the newest record.
fn newest(args: &Args, stop: &Stop) -> Result<Option<u64>, Failure> {
    let mut events = Recorded::open(&args.file)?;
    let mut newest = None;
    let mut nth = 0u64;
    // Damage is reported when it is replayed.
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

/// Attaches to the ring; creates it if it does not exist.
fn open(args: &Args, time: bool) -> Result<AnyProducer, Failure> {
    match AnyProducer::attach(&args.ring, "perfring replay") {
        Err(AttachError::NotFound { .. }) => {
            let options = Options { size: args.size, time, ..Options::default() };
            perfring_producer::files::create(&args.ring, &options)?;
            Ok(AnyProducer::attach(&args.ring, "perfring replay")?)
        }
        producer => Ok(producer?),
    }
}

struct Replay<'a> {
    args: &'a Args,
    filter: Filter<'a>,
    producer: &'a mut AnyProducer,
    watch: Option<Watch>,
    stop: Stop,
    progress: Progress,
    /// For each ring, how many of its types were registered in the new one.
    registered: HashMap<u32, usize>,
    totals: Totals,
    untimed: u64,
    foreign: u64,
    /// A moment, and the recording's time then.
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
                let why = "it has no records to repeat";
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
            Some(wait) => self.producer.publish_timeout(kind, line, wait),
            None => self.producer.publish(kind, line),
        };
        if let Some(watch) = &self.watch {
            watch.count(published.is_ok());
        }
        match published {
            Err(error @ (ReserveError::Corrupt { .. } | ReserveError::Truncated)) => {
                Err(Failure::Damaged(format!("{}: {error}", self.args.ring)))
            }
            Err(error @ (ReserveError::Replaced | ReserveError::NoSpace)) => {
                Err(Failure::General(format!("{}: {error}", self.args.ring)))
            }
            _ => Ok(()), // refusals are counted
        }
    }

    /// Registers the types of a ring of the recording in the new one.
    fn register(&mut self, origin: &Origin) -> Result<(), Failure> {
        let known = self.registered.entry(origin.id).or_default();
        if *known == origin.types.len() {
            return Ok(());
        }
        let from = std::mem::replace(known, origin.types.len());
        for entry in origin.types.entries().skip(from) {
            match self.producer.register(&entry) {
                Ok(()) => {}
                Err(ReserveError::Type(error)) => {
                    let name = entry.name();
                    note(&format!("type {name} of {} is not registered: {error}", origin.name));
                    if error == TypeError::NoTable {
                        break;
                    }
                }
                Err(error) => return Err(Failure::general(error)),
            }
        }
        Ok(())
    }

    /// Waits until a record is due.
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

/// Returns a moment, unless it is out of range.
fn after(then: Instant, seconds: f64) -> Option<Instant> {
    // What is out of range is as good as never.
    let far = Duration::from_secs(1 << 40);
    let distance = Duration::try_from_secs_f64(seconds).unwrap_or(far).min(far);
    then.checked_add(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        assert_eq!(rate("2"), Ok(Rate::Times(2.0)));
        assert_eq!(rate("0.5"), Ok(Rate::Times(0.5)));
        assert_eq!(rate("1000/s"), Ok(Rate::PerSecond(1000.0)));
        assert_eq!(rate("max"), Ok(Rate::Max));
        for text in ["0", "-1", "nan", "inf", "x", "/s", "0/s", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
