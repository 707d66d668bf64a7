//! The loop that `perfring tail` and `perfring consume` share: records of a ring as they arrive.

use crate::args;
use crate::events::untold::{sum, untold};
use crate::failure::{Failure, detail, summary};
use crate::figures::opened::opened;
use crate::output::last::Records;
use crate::output::{FormatArgs, Output};
use crate::records::shapes::Shapes;
use crate::records::time::Since;
use crate::stop::{POLL, Stop};
use perfring_consumer::advanced::Front;
use perfring_consumer::{
    Consumer, Item, Layout, Location, Observer, ReadError,
    stat::{Refused, Stat},
};
use perfring_figures::accounts;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(crate) struct FollowArgs {
    /// Continue with new records until the ring is removed or Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Continue with new records for at most this long, like 10s, then end with code 124
    #[arg(long, value_name = "TIME", value_parser = args::parse_duration)]
    timeout: Option<Duration>,
    /// End with code 5 if records were lost: before the last one that was read, or at the end, where the ring
    /// counts them and its stream does not report them yet. This code goes before 124, 130 and 143
    #[arg(long)]
    pub(crate) fail_on_loss: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

impl FollowArgs {
    pub(crate) fn waits(&self) -> bool {
        self.follow || self.timeout.is_some()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Returns how long to wait now, or an error if the time is over; `left` records are still to
    /// come.
    pub(crate) fn wait(
        &self,
        deadline: Option<Instant>,
        records: Records,
        left: u64,
    ) -> Result<Duration, Failure> {
        let Some(deadline) = deadline else { return Ok(POLL) };
        let rest = deadline.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            return Ok(rest.min(POLL));
        }
        let time = humantime::format_duration(self.timeout.unwrap_or_default());
        Err(Failure::Timeout(match records {
            Records::First(wanted) => {
                format!("{} of {wanted} records came within {time}", wanted - left)
            }
            _ => format!("{time} have passed"),
        }))
    }
}

/// Items that are read between two checks of the signals, and held together by a consumer.
pub(crate) const TURN: u64 = 1024;

pub(crate) enum Source {
    Observer(Observer),
    Consumer(Consumer),
}

/// The result of one turn of reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is no item now.
    Empty,
    /// There may be more items.
    More,
}

pub(crate) fn run(
    args: &FollowArgs,
    records: Records,
    ring: &Location,
    mut source: Source,
    stop: &Stop,
) -> Result<(), Failure> {
    detail(|| opened(ring, source.layout()));
    let since = args.format.since(ring, source.layout())?;
    let since = since.map(Since::before_now).transpose()?;
    let shapes = Shapes::follow(ring, source.layout())?;
    let mut output = Output::new(&args.format, shapes, since);
    output.show(records);
    let ended = follow(args, records, ring, &mut source, &mut output, stop);
    let flushed = match &ended {
        Err(Failure::ClosedPipe) => Ok(()),
        _ => output.end(Some(ring)),
    };
    let (uuid, told) = (source.layout().uuid, source.told());
    drop(source);
    match ended {
        Ok(()) | Err(Failure::Timeout(_) | Failure::Signal(_)) if args.fail_on_loss => {
            match flushed {
                Ok(()) | Err(Failure::Damaged(_)) => {}
                Err(failure) => return Err(failure),
            }
            let lost = output.lost().saturating_add(sum(untold(ring, &uuid, told)));
            if lost > 0 {
                return Err(Failure::Loss(format!(
                    "{lost} records of {ring} were lost: see `perfring stat {ring}`"
                )));
            }
            ended.and(flushed)
        }
        Ok(()) => flushed,
        ended => ended,
    }
}

fn follow(
    args: &FollowArgs,
    records: Records,
    ring: &Location,
    source: &mut Source,
    output: &mut Output<'_>,
    stop: &Stop,
) -> Result<(), Failure> {
    let deadline = args.deadline();
    let (mut left, mut removed) = (records.most(), false);
    // Without -f, a producer that never pauses must not keep the command running for ever.
    let present = head(ring);
    let until = if args.waits() { u64::MAX } else { present };
    loop {
        if left == 0 {
            return Ok(());
        }
        stop.check()?;
        let turn = source.turn(ring, output, &mut left, until)?;
        if turn == Turn::Empty || source.position() >= present {
            output.show_last()?;
        }
        // A reader of stdout sees what was shown, even if the ring is never empty.
        output.flush()?;
        if left == 0 || (turn == Turn::Empty && !args.waits()) {
            return Ok(());
        }
        if args.waits() {
            output.report_unmet();
        }
        let wait = args.wait(deadline, records, left)?;
        if turn == Turn::More {
            continue;
        }
        if !removed {
            source.wait(wait);
            // What it held before is read in one more turn.
            removed = source.is_removed();
        } else if source.is_fed() {
            std::thread::sleep(wait.min(POLL)); // its `wait` only says that it was removed
        } else {
            summary(&format!("{ring} was removed: the end"));
            return Ok(());
        }
    }
}

impl Source {
    /// Writes available items, up to position `until`.
    fn turn(
        &mut self,
        location: &Location,
        output: &mut Output<'_>,
        left: &mut u64,
        until: u64,
    ) -> Result<Turn, Failure> {
        if self.is_over(until).map_err(|error| Failure::corrupt(location, error))? {
            return Ok(Turn::Empty);
        }
        if let Source::Consumer(consumer) = self
            && let Some(pinned) =
                consumer.pinned().map_err(|error| Failure::corrupt(location, error))?
        {
            // Records are held until stdout has taken them, and stay in the ring if it does not.
            let ended = items(location, left, || show(output, pinned.read()));
            let flushed = ended.and_then(|ended| output.flush().map(|()| ended));
            return flushed.unwrap_or_else(|failure| {
                pinned.put_back();
                Err(failure)
            });
        }
        if let Source::Consumer(consumer) = self
            && consumer.is_guarded()
        {
            // Records are copies: the observer advances once stdout has taken them.
            consumer.advanced().hold();
            let ended = items(location, left, || show(output, consumer.read()))?;
            output.flush()?;
            consumer.acknowledge();
            return ended;
        }
        items(location, left, || match self.is_over(until) {
            Ok(false) => match &mut *self {
                Source::Observer(observer) => show(output, observer.read()),
                Source::Consumer(consumer) => show(output, consumer.read()),
            },
            Ok(true) => Ok(Ok(None)),
            Err(error) => Ok(Err(error)),
        })?
    }

    /// Returns whether everything up to position `until` was shown, with the losses until then.
    fn is_over(&mut self, until: u64) -> Result<bool, ReadError> {
        if self.position() < until {
            return Ok(false);
        }
        let front = match self {
            Source::Observer(observer) => observer.advanced().peek(),
            Source::Consumer(consumer) => consumer.advanced().peek(),
        };
        Ok(front? != Front::Lost)
    }

    fn layout(&self) -> &Layout {
        match self {
            Source::Observer(observer) => observer.layout(),
            Source::Consumer(consumer) => consumer.layout(),
        }
    }

    fn position(&self) -> u64 {
        match self {
            Source::Observer(observer) => observer.saved().pos,
            Source::Consumer(consumer) => consumer.position(),
        }
    }

    /// Returns whether a removed ring is still written to. A consumer cannot find out, and ends.
    fn is_fed(&self) -> bool {
        match self {
            Source::Observer(observer) => observer.stat().is_ok_and(|stat| accounts::is_fed(&stat)),
            Source::Consumer(_) => false,
        }
    }

    /// Returns the refused records that it has returned as losses.
    fn told(&self) -> Refused {
        let here = match self {
            Source::Observer(observer) => observer.resume_point(),
            Source::Consumer(consumer) => consumer.resume_point(),
        };
        here.saved().told
    }

    fn wait(&mut self, timeout: Duration) {
        match self {
            Source::Observer(observer) => observer.wait(timeout),
            Source::Consumer(consumer) => consumer.wait(timeout),
        };
    }

    fn is_removed(&mut self) -> bool {
        match self {
            Source::Observer(observer) => observer.advanced().check_removed(),
            Source::Consumer(consumer) => consumer.advanced().check_removed(),
        }
    }
}

/// The number of records shown of an item, one or none; `None` if there is no item.
type Shown = Result<Option<u64>, ReadError>;

fn show(
    output: &mut Output<'_>,
    item: Result<Option<Item<'_>>, ReadError>,
) -> Result<Shown, Failure> {
    match item {
        Ok(Some(item)) => output.item(item).map(|shown| Ok(Some(shown))),
        // Who follows asks for that by itself: an observer goes on while there is a producer.
        Ok(None) | Err(ReadError::Removed) => Ok(Ok(None)),
        Err(error) => Ok(Err(error)),
    }
}

/// Writes the items of a turn. Damage is in the inner result: what precedes it was written.
fn items(
    location: &Location,
    left: &mut u64,
    mut next: impl FnMut() -> Result<Shown, Failure>,
) -> Result<Result<Turn, Failure>, Failure> {
    for _ in 0..TURN {
        if *left == 0 {
            break;
        }
        match next()? {
            Ok(Some(shown)) => *left -= shown,
            Ok(None) => return Ok(Ok(Turn::Empty)),
            Err(error) => return Ok(Err(Failure::corrupt(location, error))),
        }
    }
    Ok(Ok(Turn::More))
}

/// Returns the ring's current head; no limit where it cannot be determined.
fn head(location: &Location) -> u64 {
    Stat::read(location).ok().and_then(|stat| stat.totals).map_or(u64::MAX, |totals| totals.head)
}
