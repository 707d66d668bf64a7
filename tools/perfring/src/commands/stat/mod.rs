//! `perfring stat`: a ring's figures.

mod producers;
mod set;
mod text;

use crate::args;
use crate::columns;
use crate::failure::Failure;
use crate::image;
use crate::output::figures_format::FiguresFormat;
use crate::output::json::line;
use crate::stop::Stop;
use perfring_consumer::{Location, stat::Stat};
use perfring_export::Stream;
use perfring_figures::{agreed, json};
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

/// Show a ring's figures: positions, attached processes, and records written, read and lost
///
/// Needs read permission and disturbs no process. For a shared ring it also shows each producer,
/// and the producer that blocks the others, if any. For a directory it shows the sums over its
/// rings, and with --json first each ring. JSON has the names of the ABI.
///
/// Example: perfring stat --json -i 1s /dev/shm/ticks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, a directory of rings, or FILE@0xOFFSET for a ring inside a larger file
    #[arg(value_parser = args::location())]
    ring: Location,
    /// RING is a larger file: the raw image of a disk or of a guest's memory. Find the ring in it
    #[arg(long)]
    image: bool,
    #[command(flatten)]
    format: FiguresFormat,
    /// Repeat after this time, like 1s, until Ctrl-C
    #[arg(long, short, value_name = "TIME", value_parser = args::interval)]
    interval: Option<Duration>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    if let Location::File(dir) = &args.ring
        && dir.is_dir()
        && !args.image
    {
        return set::run(&args.ring, args.format.is_json(), args.interval, &stop);
    }
    let (ring, others) = match args.image || image::is_core(&args.ring) {
        true => image::only_ring(&args.ring, args.format.is_json(), &stop)?,
        false => (Some(args.ring.clone()), Ok(())),
    };
    let Some(ring) = &ring else { return others };
    let mut out = BufWriter::new(Stream::stdout());
    let width = columns::width();
    let mut before: Option<(Instant, Stat)> = None;
    loop {
        let now = Instant::now();
        let (stat, types) = agreed::with_types(ring)?;
        let since = before.as_ref().map(|(then, stat)| (now.duration_since(*then), stat));
        let written = if args.format.is_json() {
            line(&mut out, &json::object(ring, &stat, Some(&types)))
        } else {
            text::Page { out: &mut out, width }.write(ring, &stat, &types, since)
        };
        written.and_then(|()| out.flush()).map_err(Failure::output)?;
        if stat.totals.is_none() {
            return Err(Failure::Damaged(format!(
                "{}: the ring's totals are damaged: no producer writes such figures; `perfring \
                 dump` shows what can still be read",
                ring
            )));
        }
        let Some(interval) = args.interval else { return others };
        before = Some((now, stat));
        stop.pause(now, interval)?;
    }
}
