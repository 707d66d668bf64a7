//! The sidecar's process: starts the producers, follows their rings, and shows what it reads.

use super::common::{FILES, STATIONS, VICTIM, failed, now_ns, spawn};
use super::report::{DELAY_MS, Done, Own, mortem, report};
use super::screen::{Column, Screen, nanos, row, titles};
use super::watch::Watch;
use super::why::Why;
use crate::failure::{Failure, note};
use crate::stop::{POLL, Stop};
use crate::verbosity::Style;
use indicatif::HumanCount;
use nix::unistd::getppid;
use perfring_consumer::stat::Stat;
use perfring_export::json::{JsonLines, Options as JsonOptions};
use perfring_export::{Perfetto, PerfettoOptions, later};
use perfring_sidecar::config::{Delivery, Input, InputSource, OutputConfig};
use perfring_sidecar::{Config, End, Level, Message, Sidecar, Signals};
use signal_hook::consts::SIGTERM;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const TABLE: [Column; 7] = [
    Column("ring", 9, 0),
    Column("records", -9, 60),
    Column("per s", -7, 0),
    Column("lost", -7, 0),
    Column("p50", -6, 76),
    Column("p99", -6, 48),
    Column("what it says", 0, 46),
];

const PANICKED: &str = "the sidecar's thread panicked";

/// Runs the demo for this long. The inner result says whether the account adds up.
pub(super) fn run(
    parent: i32,
    dir: &Path,
    out: &Path,
    time: Duration,
) -> Result<Result<(), Failure>, Failure> {
    // A Ctrl-C goes to all processes; the parent decides what to do.
    let _stop = Stop::patient()?;
    let mut producers = Vec::new();
    for station in &STATIONS {
        producers.push(spawn(dir, |command| {
            command.args(["--ring", station.name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        })?);
    }
    // The sidecar finds their names once they have attached.
    for child in &mut producers {
        let attached = child.stdout.as_mut().map(|stdout| stdout.read_exact(&mut [0]));
        if !matches!(attached, Some(Ok(()))) {
            return Err(failed("a producer does not attach"));
        }
    }
    let (watch, signals, (end, ended)) = (Watch::new(), Signals::default(), channel());
    let (rings, files) = (dir.to_owned(), FILES.map(|name| out.join(name)));
    let (output, asked) = (watch.clone(), signals.clone());
    std::thread::spawn(move || end.send(follow(rings, files, output, &asked)));
    let (screen, began) = (Screen::new(), Instant::now());
    // A table, or else a line each second.
    let every = Duration::from_millis(if screen.terminal { 250 } else { 1000 });
    let (next, past, killed_ns) = (later(began, every), VecDeque::new(), None);
    let mut live =
        Live { parent, producers, watch, ended, screen, began, every, next, past, killed_ns };
    let owns = live.play(dir, time)?;
    let seconds = began.elapsed().as_secs_f64();
    let stats = || STATIONS.iter().map(|station| Ok(Stat::read(dir.join(station.name))?));
    let written = stats().collect::<Result<Vec<Stat>, Failure>>()?;
    // What comes next is the report, after a while also if something is missing.
    live.next = later(live.next, 2 * PATIENCE);
    live.until(PATIENCE, |live| {
        let seen = live.watch.peek();
        seen.iter().zip(&written).all(|(seen, stat)| seen.is_all(stat.totals.as_ref()))
    })?;
    signals.stop(SIGTERM);
    let done = live.ended.recv().map_err(|_| failed(PANICKED))??;
    if live.screen.terminal {
        live.frame()?;
    }
    let title = format!(
        "\nReport after {seconds:.1} s. Latency is from a record's timestamp to its reading; up to \
         {DELAY_MS} ms of it is the wait for earlier records of other rings."
    );
    live.screen.say(Style::Bold, &title)?;
    let rings = stats().zip(owns).map(|(stat, own)| Ok((stat?, own)));
    let rings = rings.collect::<Result<Vec<(Stat, Own)>, Failure>>()?;
    let why = std::mem::replace(&mut *live.watch.why(), Why::new()).end();
    report(&mut live.screen, (&live.watch.peek()[..], &why), &rings, &done, out)
}

/// Runs the sidecar with the demo's outputs, until it is asked to end.
fn follow(
    rings: PathBuf,
    [trace, lines]: [PathBuf; 2],
    watch: Watch,
    signals: &Signals,
) -> Result<Done, Failure> {
    let mut config = Config::default();
    config.settings.delay = Duration::from_millis(DELAY_MS);
    config.settings.log_interval = Duration::ZERO;
    config.add_input(Input::new(InputSource::Dir(rings)));
    let lines = JsonOptions { path: lines, ..JsonOptions::default() };
    let trace = PerfettoOptions::new(trace);
    // Each output must deliver a record before the record leaves its ring.
    let required = Delivery::Required;
    config.outputs = vec![
        OutputConfig::new("watch", required, move |_| Ok(Box::new(watch.clone()))),
        OutputConfig::new("json lines", required, move |name| {
            Ok(Box::new(JsonLines::open(name, &lines)?))
        }),
        OutputConfig::new("trace", required, move |name| {
            Ok(Box::new(Perfetto::open(name, &trace)?))
        }),
    ];
    let mut sidecar = Sidecar::start(config)?;
    // No signal makes it read its configuration again.
    let mut reload = || Ok(Config::default());
    // The screen shows rings and their losses; this says what is wrong with an output.
    let mut say = |message: &Message<'_>| {
        if message.level < Level::Info && (message.output.is_some() || message.level < Level::Warn)
        {
            note(&message.to_string());
        }
    };
    match sidecar.run(signals, &mut reload, &mut say) {
        End::Signal(_) => {}
        End::Failed(error) => return Err(failed(error)),
        other => return Err(failed(format!("the sidecar ended: {other:?}"))),
    }
    let outputs = sidecar.engine().outputs();
    let delivered = outputs.map(|output| (output.name.to_owned(), output.figures.delivered));
    Ok((delivered.collect(), sidecar.engine().merge_figures()))
}

/// The demo while it runs.
struct Live {
    /// The process that ends this one.
    parent: i32,
    producers: Vec<Child>,
    watch: Watch,
    /// How the sidecar's thread has ended.
    ended: Receiver<Result<Done, Failure>>,
    screen: Screen,
    began: Instant,
    /// The time between two tables, or lines,
    every: Duration,
    /// and when the next one is due.
    next: Instant,
    /// When, and how many records each ring had then: the newest first.
    past: VecDeque<(Instant, [u64; STATIONS.len()])>,
    killed_ns: Option<u64>,
}

impl Live {
    /// Has the producers publish for this long, and kills one in the middle. Returns their counts.
    fn play(&mut self, dir: &Path, time: Duration) -> Result<Vec<Own>, Failure> {
        if !self.until(PATIENCE, |live| live.watch.peek().iter().all(|seen| seen.began))? {
            return Err(failed("the sidecar does not attach"));
        }
        for child in &mut self.producers {
            // One that is dead has no count, and the account says so.
            let _ = child.stdin.as_mut().map(|stdin| writeln!(stdin, "go"));
        }
        self.watch.why().look(dir);
        let began = Instant::now();
        self.until(time / 2, |_| false)?;
        let names = STATIONS.iter().map(|station| station.name);
        for (_, child) in names.zip(&mut self.producers).filter(|(name, _)| *name == VICTIM) {
            let failed = |error| failed(format!("cannot kill a process: {error}"));
            child.kill().map_err(failed)?;
            let killed_ns = now_ns();
            child.wait().map_err(failed)?;
            self.killed_ns = Some(killed_ns);
            self.watch.why().look(dir);
            mortem(&mut self.screen, &dir.join(VICTIM), child.id(), killed_ns)?;
        }
        self.until(time.saturating_sub(began.elapsed()), |_| false)?;
        // The end of its stdin ends a producer.
        self.producers.iter_mut().for_each(|child| child.stdin = None);
        self.until(PATIENCE, |live| {
            live.producers.iter_mut().all(|child| !matches!(child.try_wait(), Ok(None)))
        })?;
        // A producer that was killed has no count; the account does without it.
        let own = |child: &mut Child| {
            let mut text = String::new();
            child.stdout.as_mut()?.read_to_string(&mut text).ok()?;
            let (offered, refused) = text.trim().split_once(' ')?;
            Some((offered.parse().ok()?, refused.parse().ok()?))
        };
        Ok(self.producers.iter_mut().map(own).collect())
    }

    /// Shows the rings until this is so, for at most `limit`. Returns whether it is.
    fn until(
        &mut self,
        limit: Duration,
        mut is_so: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, Failure> {
        let end = later(Instant::now(), limit);
        while !is_so(self) {
            // It is dead: nobody waits for a report.
            if getppid().as_raw() != self.parent {
                return Err(Failure::ClosedPipe);
            }
            let now = Instant::now();
            if now >= self.next {
                self.frame()?;
                self.next = later(self.next, self.every).max(Instant::now());
            } else if now >= end {
                return Ok(false);
            }
            let rest = self.next.min(end).saturating_duration_since(Instant::now());
            match self.ended.recv_timeout(rest.min(POLL)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(failure)) => return Err(failure),
                _ => return Err(failed(PANICKED)),
            }
        }
        Ok(true)
    }

    /// Shows how many records of each ring were read, and what they say.
    fn frame(&mut self) -> Result<(), Failure> {
        let (now, width) = (Instant::now(), self.screen.width());
        let (then, before) = self.past.back().copied().unwrap_or((self.began, Default::default()));
        let seconds = now.duration_since(then).as_secs_f64().max(0.001);
        let mut counts = [0; STATIONS.len()];
        let mut text = format!("{:4.1} s", now.duration_since(self.began).as_secs_f64());
        let mut table = vec![(Style::Bold, row(&TABLE, titles(&TABLE), width))];
        for (at, seen) in self.watch.peek().iter_mut().enumerate() {
            let (name, lost) = (STATIONS[at].name, HumanCount(seen.totals.lost()).to_string());
            counts[at] = seen.totals.records;
            let rate = ((counts[at] - before[at]) as f64 / seconds).round() as u64;
            let rate = HumanCount(rate).to_string();
            let (style, says) = match self.killed_ns.filter(|_| name == VICTIM) {
                Some(ns) => {
                    (Style::Bad, format!("killed {} ago", nanos(now_ns().saturating_sub(ns))))
                }
                None => (Style::Plain, seen.says(name)),
            };
            text += &match style {
                Style::Bad => format!("  {name} killed"),
                _ => format!("  {name} {rate}/s"),
            };
            if lost != "0" {
                text += &format!(" (lost {lost})");
            }
            let (p50, p99) = (seen.quantile(0.5), seen.quantile(0.99));
            let records = HumanCount(counts[at]).to_string();
            let cells = [name, &records, &rate, &lost, &p50, &p99, &says];
            table.push((style, row(&TABLE, cells, width)));
        }
        self.past.push_front((now, counts));
        // A rate is measured over one second.
        self.past.truncate((1000 / self.every.as_millis()) as usize);
        match self.screen.terminal {
            true => self.screen.table(&table),
            false => self.screen.say(Style::Plain, &text),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // A producer would create a removed ring again.
        for child in &mut self.producers {
            // Fails only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
