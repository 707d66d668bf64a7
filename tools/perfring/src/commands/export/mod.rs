//! `perfring export`: converts a recording or rings to formats that other programs read.

mod explainer;
mod formats;

use crate::args;
use crate::events::input;
use crate::events::progress::Progress;
use crate::events::recorded::Events;
use crate::failure::{Failure, note, summary, work_done};
use crate::records::filter::Filter;
use crate::records::select::SelectArgs;
use crate::records::time::{Bound, Since};
use crate::stop::{POLL, Stop};
use explainer::Explainer;
use formats::Format;
use perfring_consumer::Location;
use perfring_export::{Event, Output, Took, Totals, What, later};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Write a recording, or the content of rings, in a format that other programs read
///
/// FILE is a recording, or rings and directories of rings, dead or alive: their present content,
/// merged by time. The inputs are not changed. Ends with a summary: the written and the lost
/// records, and how to open the output.
///
/// Example: perfring export run.perfrec --to perfetto -o run.pftrace
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recording; or rings (FILE@0xOFFSET inside a larger file), and directories of rings
    #[arg(value_name = "FILE|RING|DIR", required = true, value_parser = args::location())]
    inputs: Vec<Location>,
    /// The format of the output
    #[arg(long, value_name = "FORMAT", value_parser = formats::format())]
    to: Format,
    /// The output file or directory, or - for stdout
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// A setting of the format, as in the sidecar's configuration: its name, and its value in JSON
    /// or as text. May be repeated
    ///
    /// Spark reads Parquet files with timestamps=us. jq and JavaScript round integers beyond 2^53,
    /// except in JSON with integers=text.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = formats::option)]
    options: Vec<(String, serde_json::Value)>,
    /// How long the output may go without progress while it waits for something
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = args::parse_duration)]
    patience: Duration,
    /// Explain gaps of 100us and more, losses and late reads on lanes of their own, as `perfring why` does: of a recording
    /// that was made with `perfring record --why`, for --to perfetto
    #[arg(long)]
    why: bool,
    /// End with code 5 if records were lost or could not be written
    #[arg(long)]
    fail_on_loss: bool,
    #[command(flatten)]
    select: SelectArgs,
}

/// How long an output may take to finish once it was asked to stop.
const GRACE: Duration = Duration::from_secs(2);
/// Events between two checks of the signals.
const TURN: u64 = 1024;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let since = match args.select.since {
        Some(since @ Since::Ago(_)) => {
            Some(since.before(input::newest(&args.inputs, "--since", &stop)?))
        }
        Some(since @ Since::At(_)) => Some(since.before(0)),
        None => None,
    };
    let events = input::open(&args.inputs)?;
    let new = args.output.as_deref().filter(|path| path.symlink_metadata().is_err());
    let done = export(args, stop, since, events);
    if done.is_err()
        && let Some(path) = new
    {
        remove_empty(path);
    }
    done
}

/// Removes a file or a directory in which nothing is: this command made it, and could not begin.
fn remove_empty(path: &Path) {
    let Ok(meta) = path.symlink_metadata() else { return };
    // Of a directory, the system finds out. What cannot be removed stays.
    let _ = match meta.is_dir() {
        true => std::fs::remove_dir(path),
        false if meta.is_file() && meta.len() == 0 => std::fs::remove_file(path),
        false => Ok(()),
    };
}

fn export(
    args: &Args,
    stop: Stop,
    since: Option<Bound>,
    events: Box<dyn Events>,
) -> Result<(), Failure> {
    if args.why && !args.to.explains() {
        let what = "--why is for --to perfetto, which has a line of time; `perfring why --json` has the same as JSON";
        return Err(Failure::Usage(what.to_owned()));
    }
    let output = formats::open(args.to, args.output.as_deref(), args.force, &args.options)?;
    Exporter {
        args,
        stop,
        output,
        filter: Filter::new(&args.select, since),
        progress: Progress::bar(),
        totals: Totals::default(),
        explainer: args.why.then(Explainer::default),
    }
    .run(events)
}

struct Exporter<'a> {
    args: &'a Args,
    stop: Stop,
    output: Box<dyn Output>,
    filter: Filter<'a>,
    progress: Progress,
    totals: Totals,
    explainer: Option<Explainer>,
}

impl Exporter<'_> {
    fn run(mut self, mut events: Box<dyn Events>) -> Result<(), Failure> {
        let mut ended = self.write(&mut *events);
        if let (Ok(()), Some(explainer)) = (&ended, self.explainer.take()) {
            ended = self.explain(explainer);
        }
        let took = self.progress.end();
        let closed = match &ended {
            Err(Failure::ClosedPipe) => return Err(Failure::ClosedPipe),
            Err(Failure::General(_)) => {
                // It reports the problem of the output, which need not be waited for.
                let _ = self.output.close(Instant::now());
                return ended;
            }
            _ => {
                // After a signal, do not wait for a reader that does not read.
                let asked = matches!(ended, Err(Failure::Signal(_)));
                let patience = self.args.patience.min(if asked { GRACE } else { Duration::MAX });
                let closed =
                    self.output.close(later(Instant::now(), patience)).map_err(Failure::from);
                if asked && closed.is_err() {
                    return ended;
                }
                closed
            }
        };
        closed?;
        let figures = self.output.figures();
        let left_out = self.filter.end();
        let mut said = format!("exported {}", self.totals);
        if left_out > 0 {
            said += &format!("; {left_out} others were not selected");
        }
        if figures.refused > 0 {
            said += &format!("; {} of them could not be written", figures.refused);
        }
        said += &format!("; {:.1} s", took.as_secs_f64());
        let has_lost = self.totals.has_lost();
        work_done(&said, has_lost || figures.refused > 0);
        if let Some(trouble) = figures.trouble {
            note(&trouble);
        }
        if let Some(path) = &self.args.output
            && path.as_os_str() != "-"
            && let Some(how) = self.args.to.how_to_open(path)
        {
            summary(&how);
        }
        let refused = figures.refused;
        if self.args.fail_on_loss
            && has_lost
            && matches!(ended, Ok(()) | Err(Failure::Signal(_) | Failure::Damaged(_)))
        {
            if let Err(Failure::Damaged(sentence)) = &ended {
                note(sentence);
            }
            return Err(Failure::Loss(match self.totals.lost() {
                0 => "an unknown number of records is lost".to_owned(),
                lost => format!("{lost} records are lost"),
            }));
        }
        match ended {
            Ok(()) | Err(Failure::Signal(_)) if refused > 0 => {
                let what = format!("{refused} records could not be written, and are missing");
                let is_loss = self.args.fail_on_loss;
                Err(if is_loss { Failure::Loss(what) } else { Failure::General(what) })
            }
            ended => ended.and(self.filter.check()),
        }
    }

    fn write(&mut self, events: &mut dyn Events) -> Result<(), Failure> {
        let mut turn = 0;
        loop {
            turn += 1;
            if turn % TURN == 0 {
                self.stop.check()?;
                if self.progress.is_due() {
                    self.progress.show(&self.totals, Some(events.progress()), "");
                }
            }
            let Some(event) = events.next()? else { return Ok(()) };
            let is_due = self.explainer.as_mut().is_none_or(|explainer| explainer.read(&event));
            if is_due && self.filter.takes(&event) {
                self.take(&event)?;
                self.totals.add(&event);
            }
        }
    }

    /// Shows the explanations, and then the ends of the rings.
    fn explain(&mut self, explainer: Explainer) -> Result<(), Failure> {
        for (seq, origin) in explainer.end(&mut *self.output)? {
            self.take(&Event { seq, origin: &origin, what: What::Ended })?;
        }
        Ok(())
    }

    /// Passes on an event, waiting for a busy output.
    fn take(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let mut since: Option<(Instant, u64)> = None;
        while self.output.take(event)? == Took::Busy {
            self.stop.check()?;
            self.output.flush()?;
            let figures = self.output.figures();
            let (then, delivered) = *since.get_or_insert((Instant::now(), figures.delivered));
            if figures.delivered > delivered {
                since = None;
            } else if figures.trouble.is_some() && then.elapsed() >= self.args.patience {
                let what = figures.trouble.unwrap_or_default();
                // Not the hint that follows: this command does not try again.
                let what = what.rsplit_once("; ").map_or(&*what, |(what, _hint)| what);
                return Err(Failure::General(format!("the output makes no progress: {what}")));
            }
            std::thread::sleep(POLL / 10);
        }
        Ok(())
    }
}
