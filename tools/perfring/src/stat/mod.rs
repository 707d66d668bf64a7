//! `perfring stat`: a ring's figures.

mod json;
mod producers;
mod text;
mod types;

use crate::args;
use crate::columns;
use crate::failure::Failure;
use crate::stop::{LOOK, Stop};
use perfring_consumer::{Count, Home, Policy, Stat, Totals};
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

pub(crate) use json::object;
pub(crate) use types::TypesUse;

#[cfg(feature = "top")]
pub(crate) fn counts(
    layout: &perfring_consumer::Layout,
    totals: &Totals,
) -> Vec<(&'static str, Count)> {
    text::counts(layout, totals)
}

/// Show a ring's figures: positions, who is attached, what was written, read and lost
///
/// Needs read permission and disturbs nobody. Of a shared ring it shows each producer, and who
/// holds the others up, if anybody does.
///
/// Example: perfring stat --json -i 1 /dev/shm/ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::home())]
    ring: Home,
    /// One JSON object per line, with the names of the ABI
    #[arg(long)]
    json: bool,
    /// Again and again, every SECONDS, until Ctrl-C
    #[arg(long, short, value_name = "SECONDS", value_parser = args::interval)]
    interval: Option<Duration>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let width = columns::width();
    let mut before: Option<(Instant, Stat)> = None;
    loop {
        let now = Instant::now();
        let stat = read(&args.ring)?;
        let types = TypesUse::read(&args.ring)?;
        let since = before.as_ref().map(|(then, stat)| (now.duration_since(*then), stat));
        let written = if args.json {
            json::write(&mut out, &args.ring, &stat, &types)
        } else {
            text::Page::new(&mut out, width).write(&args.ring, &stat, &types, since)
        };
        written.and_then(|()| out.flush()).map_err(|error| Failure::output(&error))?;
        if stat.totals.is_none() {
            return Err(Failure::Damaged(format!(
                "{}: the ring's books are damaged: no producer leaves such figures; `perfring \
                 dump` shows what can still be read",
                args.ring
            )));
        }
        let Some(interval) = args.interval else {
            return Ok(());
        };
        before = Some((now, stat));
        while now.elapsed() < interval {
            stop.check()?;
            std::thread::sleep(LOOK.min(interval.saturating_sub(now.elapsed())));
        }
    }
}

/// The figures. Those of a ring in use are each of their own moment: a few more looks often find
/// them in agreement.
pub(crate) fn read(home: &Home) -> Result<Stat, Failure> {
    const LOOKS: u32 = 20;
    let mut stat = Stat::read(home)?;
    for _ in 1..LOOKS {
        match &stat.totals {
            Some(totals) if !Balance::of(stat.layout.policy, totals).holds() => {}
            _ => break,
        }
        stat = Stat::read(home)?;
    }
    Ok(stat)
}

/// Whether a producer is attached.
pub(crate) fn is_fed(stat: &Stat) -> bool {
    stat.producer.alive || stat.producers.iter().any(|member| member.alive)
}

/// The ring's own equation: what was written is gone or still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) written: Count,
    /// Drop: released by the consumer. Overwrite: overwritten.
    pub(crate) gone: Count,
    /// What [`Balance::gone`] is called.
    pub(crate) how: &'static str,
    pub(crate) present: Count,
}

impl Balance {
    pub(crate) fn of(policy: Policy, totals: &Totals) -> Self {
        let (gone, how) = match policy {
            Policy::Drop => (totals.consumer.read, "read"),
            Policy::Overwrite => (totals.overwritten, "overwritten"),
        };
        Balance { written: totals.producer.written, gone, how, present: totals.present }
    }

    pub(crate) fn holds(&self) -> bool {
        self.gone.plus(self.present) == self.written
    }
}
