//! The sidecar process: runs the engine, shows a live table, and checks the account.

use super::accounts::{Account, Own, causes};
use super::engine::{DELAY_MS, Done, Engine};
use super::files::Files;
use super::mortem;
use super::screen::{Align, Column, Nanos, Screen, Style, row};
use super::stations::{STATIONS, now_ns};
use super::watch::{Seen, Watch};
use crate::failure::Failure;
use crate::stop::Stop;
use indicatif::HumanCount;
use perfring_consumer::Stat;
use perfring_export::later;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The time between two tables.
const FRAME: Duration = Duration::from_millis(250);
/// The time between two reports in plain lines.
const LINE: Duration = Duration::from_secs(1);
/// The time between two checks whether all is read.
const POLL: Duration = Duration::from_millis(5);
/// Longer than the rest takes to be read, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Frames over which a rate is measured: one second.
const RATE_FRAMES: usize = 4;

const TABLE: [Column; 7] = [
    Column { title: "ring", width: 9, from: 0, align: Align::Left },
    Column { title: "records", width: 9, from: 60, align: Align::Right },
    Column { title: "per s", width: 7, from: 0, align: Align::Right },
    Column { title: "lost", width: 7, from: 0, align: Align::Right },
    Column { title: "p50", width: 6, from: 76, align: Align::Right },
    Column { title: "p99", width: 6, from: 48, align: Align::Right },
    Column { title: "what it says", width: 0, from: 46, align: Align::Rest },
];

const REPORT: [Column; 6] = [
    Column { title: "ring", width: 9, from: 0, align: Align::Left },
    Column { title: "records", width: 9, from: 0, align: Align::Right },
    Column { title: "per s", width: 7, from: 54, align: Align::Right },
    Column { title: "p50", width: 6, from: 62, align: Align::Right },
    Column { title: "p99", width: 6, from: 0, align: Align::Right },
    Column { title: "lost, by cause", width: 0, from: 0, align: Align::Rest },
];

/// How the sidecar ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was asked to, and has reported.
    Reported,
    /// Its stdin closed without that: the parent is dead, even if the kernel has not reparented its
    /// children yet.
    Abandoned,
}

pub(super) fn run(dir: &Path, files: &Files) -> Result<Ended, Failure> {
    // A Ctrl-C goes to all processes; the parent decides what to do.
    let _stop = Stop::patient()?;
    let watch = Watch::new()?;
    let engine = Engine::start(dir, files, &watch);
    let orders = orders();
    let mut screen = Screen::new();
    let mut show = Show::default();
    let began = Instant::now();
    let frame = if screen.terminal { FRAME } else { LINE };
    let mut next = later(began, frame);
    let mut owns = HashMap::new();
    loop {
        match orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {
                if engine.is_over() {
                    // It prints the reason.
                    return engine.finish().map(|_| Ended::Reported);
                }
                show.frame(&mut screen, &watch, began)?;
                next = later(next, frame).max(Instant::now());
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Abandoned),
            Ok(order) => match order.split_whitespace().collect::<Vec<_>>()[..] {
                ["killed", name, pid, at] => {
                    let at = at.parse().unwrap_or_else(|_| now_ns());
                    show.killed = Some((name.to_owned(), at));
                    mortem::show(&mut screen, &dir.join(name), pid, at)?;
                }
                ["own", name, offered, refused] => {
                    if let (Ok(offered), Ok(refused)) = (offered.parse(), refused.parse()) {
                        owns.insert(name.to_owned(), Own { offered, refused });
                    }
                }
                ["finish"] => break,
                _ => {}
            },
        }
    }
    let time = began.elapsed();
    read_all(dir, &watch)?;
    let done = engine.finish()?;
    if screen.terminal {
        show.frame(&mut screen, &watch, began)?;
    }
    let balance = report(&mut screen, dir, &watch, &done, &owns, time)?;
    files.show(&mut screen)?;
    balance.map(|()| Ended::Reported)
}

/// Lets the engine read what the producers have left. After a while the account shows what is
/// missing.
fn read_all(dir: &Path, watch: &Watch) -> Result<(), Failure> {
    let began = Instant::now();
    for (at, station) in STATIONS.iter().enumerate() {
        let stat = Stat::read(dir.join(station.name))?;
        let is_all = || watch.peek().get(at).is_none_or(|seen| Account::is_all_read(&stat, seen));
        while !is_all() && began.elapsed() < PATIENCE {
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// The parent's commands: lines of stdin.
fn orders() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            if line.is_err() || line.is_ok_and(|line| sender.send(line).is_err()) {
                return;
            }
        }
    });
    receiver
}

/// The state of the live table.
#[derive(Default)]
struct Show {
    /// When, and how many records each ring had then: the newest last.
    past: VecDeque<(Instant, Vec<u64>)>,
    killed: Option<(String, u64)>,
}

impl Show {
    fn frame(&mut self, screen: &mut Screen, watch: &Watch, began: Instant) -> Result<(), Failure> {
        let now = Instant::now();
        let mut counts = Vec::new();
        let mut rows = Vec::new();
        let then = self.past.front();
        for (at, (station, seen)) in STATIONS.iter().zip(watch.peek().iter_mut()).enumerate() {
            let (since, before) = match then {
                Some((since, counts)) => (*since, counts.get(at).copied().unwrap_or(0)),
                None => (began, 0),
            };
            let seconds = now.duration_since(since).as_secs_f64().max(0.001);
            let rate = ((seen.records - before) as f64 / seconds).round() as u64;
            let killed = self.killed.as_ref().filter(|(name, _)| name == station.name);
            let says = match killed {
                Some((_, at)) => format!("killed {} ago", Nanos(now_ns().saturating_sub(*at))),
                None => seen.says(),
            };
            let style = if killed.is_some() { Style::Bad } else { Style::Plain };
            counts.push(seen.records);
            rows.push((style, cells(seen, rate, station.name, says)));
        }
        self.past.push_back((now, counts));
        let frames = if screen.terminal { RATE_FRAMES } else { 1 };
        self.past.drain(..self.past.len().saturating_sub(frames));
        let time = now.duration_since(began).as_secs_f64();
        if screen.terminal {
            let width = screen.width();
            let titles = TABLE.map(|column| column.title.to_owned());
            let mut lines = vec![(Style::Bold, row(&TABLE, &titles, width))];
            lines.extend(rows.iter().map(|(style, cells)| (*style, row(&TABLE, cells, width))));
            screen.table(&lines)
        } else {
            let mut text = format!("{time:4.1} s");
            for (_, [name, _, rate, lost, ..]) in &rows {
                match &self.killed {
                    Some((killed, _)) if killed == name => text += &format!("  {name} killed"),
                    _ => text += &format!("  {name} {rate}/s"),
                }
                if lost != "0" {
                    text += &format!(" (lost {lost})");
                }
            }
            screen.say(Style::Plain, &text)
        }
    }
}

fn cells(seen: &Seen, rate: u64, name: &str, says: String) -> [String; 7] {
    [
        name.to_owned(),
        HumanCount(seen.records).to_string(),
        HumanCount(rate).to_string(),
        HumanCount(seen.lost()).to_string(),
        seen.quantile(0.5).to_string(),
        seen.quantile(0.99).to_string(),
        says,
    ]
}

/// Shows the account of every ring. The inner result is an error if a record is unaccounted for.
fn report(
    screen: &mut Screen,
    dir: &Path,
    watch: &Watch,
    done: &Done,
    owns: &HashMap<String, Own>,
    time: Duration,
) -> Result<Result<(), Failure>, Failure> {
    let width = screen.width();
    let seconds = time.as_secs_f64();
    let title = format!(
        "\nReport after {seconds:.1} s. Latency is from a record's timestamp to its reading; up to \
         {DELAY_MS} ms of it is the wait for earlier records of other rings."
    );
    screen.say(Style::Bold, &title)?;
    let titles = REPORT.map(|column| column.title.to_owned());
    screen.say(Style::Bold, &row(&REPORT, &titles, width))?;
    let mut accounts = Vec::new();
    let mut all = 0;
    for (station, seen) in STATIONS.iter().zip(watch.peek().iter()) {
        let stat = Stat::read(dir.join(station.name))?;
        let cells = [
            station.name.to_owned(),
            HumanCount(seen.records).to_string(),
            HumanCount(seen.rate()).to_string(),
            seen.quantile(0.5).to_string(),
            seen.quantile(0.99).to_string(),
            causes(seen),
        ];
        screen.say(Style::Plain, &row(&REPORT, &cells, width))?;
        all += seen.records;
        accounts.push(Account::new(station, &stat, seen, owns.get(station.name).copied()));
    }
    screen.say(Style::Bold, "\nThe account, in records: written = read + lost + present")?;
    let mut faults = 0;
    for account in &accounts {
        screen.say(Style::Plain, &account.lines())?;
        for fault in &account.faults {
            faults += 1;
            screen.say(Style::Bad, &format!("    DOES NOT ADD UP: {fault}"))?;
        }
    }
    for (output, delivered) in done.delivered.iter().filter(|(_, delivered)| *delivered != all) {
        faults += 1;
        let fault = format!("    DOES NOT ADD UP: {output}: {delivered} and {all} records");
        screen.say(Style::Bad, &fault)?;
    }
    if faults > 0 {
        let why = "records are unaccounted for, see the report: please file a bug";
        return Ok(Err(Failure::General(format!("demo: {why}"))));
    }
    let end = format!(
        "All records accounted for: {} records, each checked by its sequence number.",
        HumanCount(all)
    );
    screen.say(Style::Good, &end)?;
    let order = match done.merge.late {
        0 => "All were delivered in the order of time.".to_owned(),
        late => format!(
            "{} of them came too late for the order of time, by up to {}.",
            HumanCount(late),
            Nanos(done.merge.late_most)
        ),
    };
    screen.say(Style::Plain, &order)?;
    Ok(Ok(()))
}
