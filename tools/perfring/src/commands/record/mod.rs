//! `perfring record`: writes the records of many rings into one file.

mod open;

use crate::args;
use crate::events::evidence::Evidence;
use crate::events::input::{Input, originals};
use crate::events::live::{How, Live};
use crate::events::progress::Progress;
use crate::events::told::Told;
use crate::failure::{Failure, summary, work_done};
use crate::left_out;
use crate::records::filter::Filter;
use crate::records::select::SelectArgs;
use crate::records::time::Since;
use crate::stop::{POLL, Stop};
use indicatif::HumanBytes;
use open::{Appended, FileArgs, open};
use perfring_consumer::{Cause, Location, Start, advanced::MachineClock};
use perfring_export::{Figures, Loss, LossCause, Output, Rotation, Took, Totals, What};
use perfring_figures::owner::count;
use perfring_kernel::{BpfOptions, BpfRing};
use perfring_set::RingSet;
use perfring_why::is_evidence;
use perfring_witness::Files;
use std::time::{Duration, Instant};

/// Record rings into one file, merged by time
///
/// Reads as an observer, which disturbs no process. Records that a ring overwrites before they were
/// read are reported as lost. A directory is followed: rings in it are recorded as they come and
/// go. Ends with Ctrl-C, and when all named rings are removed; the file is then complete.
///
/// Example: perfring record /dev/shm/perfring-1000 -o run.perfrec --for 10s
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rings (FILE@0xOFFSET inside a larger file), and directories of rings [default: the directory of ring sets; none with --bpf]
    #[arg(value_name = "DIR|RING", value_parser = args::location())]
    rings: Vec<Location>,
    #[command(flatten)]
    file: FileArgs,
    /// Also record the records of BPF programs in a ring-buffer map, as its one consumer: a record leaves the map once it
    /// is in the file. As in `perfring tail`: PATH or id:N, and ,observe or ,time=OFFSET or ,boottime=OFFSET. May be given
    /// several times
    #[arg(long, value_name = "MAP")]
    bpf: Vec<BpfOptions>,
    /// End after this time, like 10s or 5m
    #[arg(long = "for", value_name = "TIME", value_parser = args::parse_duration)]
    time: Option<Duration>,
    /// End after N records
    #[arg(short = 'n', long = "records", value_name = "N")]
    records: Option<u64>,
    /// The first record in existing rings: the oldest, or only new ones. Rings that appear later
    /// are recorded from their beginning
    #[arg(long, default_value = "oldest", value_parser = args::start())]
    from: Start,
    /// Read as the rings' only consumer: what is in the file is released in the rings, and only
    /// what the producers refuse is lost to a slow disk
    #[arg(long, conflicts_with = "from")]
    consume: bool,
    /// How long a record may wait for older ones of other rings: up to a minute
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = delay)]
    delay: Duration,
    /// Record also what `perfring why` needs to name causes: the kernel's context switches, page faults of the
    /// rings' processes, and stops, throttling and deaths of these. Without the permission for all of it, the
    /// command says what is missing, and records the rest
    #[arg(long)]
    why: bool,
    /// End with code 5 if records were lost: those that the recording has, and with -n or --consume those that the
    /// rings count and their streams do not report yet
    #[arg(long)]
    fail_on_loss: bool,
    #[command(flatten)]
    select: SelectArgs,
}

/// Events between two checks of the signals, and between two releases of a consumer.
const TURN: u32 = 1024;

fn delay(text: &str) -> Result<Duration, String> {
    match args::interval(text)? {
        delay if delay > Duration::from_secs(60) => Err("at most 60s".to_owned()),
        delay => Ok(delay),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let how = if args.consume { How::Consume } else { How::Observe(args.from) };
    let delay = args.delay;
    let mut live = Live::new(how, delay)?;
    let since = args.select.since.map(Since::before_now).transpose()?;
    // A long recording is read before the rings are attached to: they would be overwritten meanwhile.
    let mut appended = args.file.append.then(|| Appended::open(&args.file, &stop)).transpose()?;
    live.reached = appended.iter_mut().flat_map(|old| old.told.take_reached()).collect();
    let (recording, told) = match (attach(args, &mut live), appended) {
        (Ok(()), Some(Appended { recording, told, .. })) => (recording, told),
        (Ok(()), None) => (open(&args.file)?, Told::default()),
        (Err(failure), Some(appended)) => return Err(appended.give_up(&args.file.output, failure)),
        (Err(failure), None) => return Err(failure),
    };
    let files = match args.file.rotation.rotation() == Rotation::default() {
        true => Files::One,
        false => Files::Several,
    };
    let witness = args.why.then(|| Evidence::begin(&mut live, files)).transpose()?;
    let mut recorder = Recorder {
        args,
        live,
        recording,
        told,
        totals: Totals::default(),
        filter: Filter::new(&args.select, since),
        progress: Progress::spinner(),
        clock: MachineClock::find().map_err(Failure::general)?,
        delay,
        polls: 0,
        witness,
        is_cut: false,
        evidence: 0,
    };
    let ended = recorder.run(&stop);
    recorder.end(ended)
}

/// Attaches to the rings.
fn attach(args: &Args, live: &mut Live) -> Result<(), Failure> {
    let inputs = match &args.rings[..] {
        [] if !args.bpf.is_empty() => Vec::new(),
        [] => vec![Input::Set(RingSet::default_dir())],
        rings => originals(rings.to_vec()).iter().map(Input::of).collect(),
    };
    for input in inputs {
        match input {
            Input::Ring(location) => live.add(&location)?,
            Input::Set(dir) => live.follow(dir)?,
            Input::Recording(path) => {
                let path = path.display();
                let why = "`perfring export --to recording` copies a selection of one";
                return Err(Failure::Usage(format!("{path} is a recording: {why}")));
            }
        }
    }
    for options in &args.bpf {
        let ring = BpfRing::open(options)?;
        live.add_source(&ring.name(), &options.place.to_string(), Box::new(ring), false);
    }
    Ok(())
}

struct Recorder<'a> {
    args: &'a Args,
    live: Live,
    recording: Box<dyn Output>,
    /// The losses that the file had before.
    told: Told,
    totals: Totals,
    filter: Filter<'a>,
    progress: Progress,
    clock: MachineClock,
    delay: Duration,
    /// Polls after the end.
    polls: usize,
    witness: Option<Evidence>,
    /// It has all N records that it was to record.
    is_cut: bool,
    /// Records of the kernel and of the witness.
    evidence: u64,
}

impl Recorder<'_> {
    /// Records until it is asked to stop, or all rings are removed.
    fn run(&mut self, stop: &Stop) -> Result<(), Failure> {
        let deadline = self.args.time.and_then(|time| Instant::now().checked_add(time));
        // Asked to end: what was published before that moment of the rings' clock is recorded.
        let mut until: Option<(u64, Failure)> = None;
        let mut left = self.args.records.unwrap_or(u64::MAX);
        loop {
            if until.is_none() {
                let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                let ended = match stop.check() {
                    Err(failure) => Some(failure),
                    Ok(()) if over => Some(Failure::Reported(0)),
                    Ok(()) => None,
                };
                if let (Some(_), Some(witness)) = (&ended, &mut self.witness) {
                    witness.end();
                }
                until = ended.map(|why| (self.clock.now_ns(), why));
            }
            self.live.poll_names();
            let look = match (&mut self.witness, &until) {
                (Some(witness), None) => witness.look(&mut self.live),
                _ => POLL,
            };
            let last = until.as_ref().map(|(last, _)| *last);
            let turn = self.turn(&mut left, last)?;
            self.recording.flush()?;
            if self.recording.unsettled().is_some() {
                return Err(self.no_room());
            }
            self.live.release();
            self.filter.report_unmet(&[]);
            self.show();
            match (turn, until.take()) {
                (Turn::Done, None | Some((_, Failure::Reported(_)))) => return Ok(()),
                (Turn::Done, Some((_, why))) => return Err(why),
                (turn, asked) => {
                    until = asked;
                    if turn == Turn::More {
                        continue;
                    }
                }
            }
            if self.live.is_over() && last.is_none() {
                if self.live.damaged == 0 {
                    summary("all rings were removed: end");
                }
                return Ok(());
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            self.live.wait(rest.filter(|_| last.is_none()).unwrap_or(POLL).min(POLL).min(look));
        }
    }

    /// Records available events; up to a moment, if it was asked to end.
    fn turn(&mut self, left: &mut u64, until: Option<u64>) -> Result<Turn, Failure> {
        for _ in 0..TURN {
            if *left == 0 {
                self.is_cut = true;
                return Ok(Turn::Done);
            }
            let Some(event) = self.live.next()? else {
                // What follows was published later, or is too late.
                let wait = self.delay.as_nanos() as u64;
                let over = until.is_some_and(|until| self.clock.now_ns() > until + wait);
                // Except losses: each poll finds those of one cause.
                if over && self.polls < Cause::REFUSED.len() && self.live.has_more() {
                    self.polls += 1;
                    continue;
                }
                return Ok(if over { Turn::Done } else { Turn::Empty });
            };
            let Some(event) = self.told.cut(event) else { continue };
            let is_evidence = is_evidence(event.origin);
            if !is_evidence && !self.filter.takes(&event) {
                continue;
            }
            let mut time = None;
            match &event.what {
                What::Record(record) => {
                    *left -= u64::from(!is_evidence);
                    time = record.time;
                }
                What::Lost(_) | What::Began | What::Ended => {}
            }
            match self.recording.take(&event)? {
                Took::Yes if is_evidence => self.evidence += u64::from(time.is_some()),
                Took::Yes => self.totals.add(&event),
                Took::Busy => return Err(self.no_room()),
            }
            if until.is_some() && time > until {
                return Ok(Turn::Done);
            }
        }
        Ok(Turn::More)
    }

    /// Records the losses that the rings count and that their streams do not report yet.
    fn take_untold(&mut self) -> Result<(), Failure> {
        self.live.find_untold();
        while let Some(event) = self.live.next_untold() {
            let Some(event) = self.told.cut(event) else { continue };
            match self.recording.take(&event)? {
                Took::Yes => self.totals.add(&event),
                Took::Busy => return Err(self.no_room()),
            }
        }
        Ok(())
    }

    /// The failure of a file that takes no more. What it has is intact; who must not stop uses the sidecar, which waits.
    fn no_room(&self) -> Failure {
        let figures = self.recording.figures();
        // Not the hint that follows: this command does not try again.
        let why = figures.trouble.as_deref().unwrap_or_default();
        let why = why.rsplit_once("; ").map_or(why, |(why, _hint)| why);
        let intact = match figures.delivered {
            0 => "nothing was recorded".to_owned(),
            records => format!("the first {} in the file are intact", count(records, "record")),
        };
        Failure::General(format!("{why}; the command has ended, and {intact}"))
    }

    /// Returns the records that were recorded. What was too large is a loss in the recording.
    fn totals(&self, figures: &Figures) -> Totals {
        let mut totals = self.totals.clone();
        let (records, cause) = (figures.refused, LossCause::Ring(Cause::TooLarge));
        if records > 0 {
            totals.records = totals.records.saturating_sub(records);
            totals.lose(&Loss::new(0, records, 0, cause));
        }
        totals
    }

    fn show(&mut self) {
        if self.progress.is_due() {
            let rings = count(self.live.rings() as u64, "ring");
            let more = format!(", {rings}, {}", HumanBytes(self.recording.figures().bytes));
            self.progress.show(&self.totals, None, &more);
        }
    }

    /// Finishes the file, and prints what is in it.
    fn end(mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let took = self.progress.end();
        let asked = matches!(ended, Ok(()) | Err(Failure::Signal(_)));
        // A consumer's are reported to the next one; those behind the last of N records come with the records in between.
        let (ended, untold) = match (asked, self.args.consume || self.is_cut) {
            (true, false) => (self.take_untold().and(ended), 0),
            (true, true) => (ended, self.live.untold()),
            (false, _) => (ended, 0),
        };
        let noted = match asked {
            // A later run continues there.
            true => {
                self.live.read_to().try_for_each(|(ring, at)| self.recording.read_to(ring, &at))
            }
            false => Ok(()),
        };
        let closed = match &ended {
            Err(Failure::ClosedPipe) => Ok(()),
            _ => noted.and_then(|()| self.recording.close(Instant::now())).map_err(Failure::from),
        };
        // What is not in the file stays in its ring.
        if asked && closed.is_ok() {
            self.live.release();
        }
        let left_out = self.filter.end();
        let figures = self.recording.figures();
        let totals = self.totals(&figures);
        let lost = totals.lost().saturating_add(untold);
        if asked && closed.is_ok() {
            let rings = count(u64::from(self.live.ids - self.live.beside), "ring");
            let file = HumanBytes(figures.bytes);
            let mut said =
                format!("recorded {totals}, of {rings} in {:.1} s: {file}", took.as_secs_f64());
            if self.evidence > 0 {
                let events = count(self.evidence, "event");
                said += &format!("; with {events} for `perfring why`");
            }
            if figures.removed.files > 0 {
                let files = count(figures.removed.files, "file");
                said += &format!("; the oldest {files} of that were removed");
            }
            if left_out > 0 {
                said += &format!("; {left_out} others were not selected");
            }
            if untold > 0 {
                let are = "counted by the rings and not yet reported in their streams";
                said += &format!("; {untold} more lost records are {are}");
            }
            work_done(&said, lost > 0 || totals.is_more);
        }
        if asked {
            closed?;
            if self.args.fail_on_loss && lost > 0 {
                return Err(Failure::Loss(format!("{lost} records were lost")));
            }
            if self.args.fail_on_loss && totals.is_more {
                return Err(Failure::Loss("an unknown number of records was lost".to_owned()));
            }
            if self.live.damaged > 0 {
                let rings = count(self.live.damaged, "ring");
                return Err(Failure::Damaged(format!(
                    "{rings} turned out to be damaged: everything before the damage is recorded"
                )));
            }
            if ended.is_ok() && self.live.ids == self.live.beside {
                left_out::none_was_read()?;
            }
        }
        ended.and(self.filter.check())
    }
}

/// The result of one turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is no event now.
    Empty,
    /// There may be more events.
    More,
    /// The recording is at its end.
    Done,
}
