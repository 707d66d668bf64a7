//! The order of the measurements, and their number.

use crate::case::{Case, Group, Quantiles, Sample, groups};
use crate::contest::ring::{Audience, Contestant, Policy, Ring, Setup};
use crate::contest::ringed;
use crate::cores::{Distance, Pinned, two_cores};
use crate::drive::{Limit, ask, ask_line, consume, copy};
use crate::error::BenchError;
use crate::machine::Machine;
use crate::many::crew::{self, Found};
use crate::options::{MAX_ROUNDS, Options, Part, SMALL};
use crate::payload::{Check, sized};
use crate::peer::{Peer, Step};
use crate::report;
use hdrhistogram::Histogram;
use std::io::Write;
use std::time::Instant;

/// Implements [`crate::run`].
pub(crate) fn run(
    options: &Options,
    out: &mut dyn Write,
    log: &mut dyn Write,
) -> Result<(), BenchError> {
    options.check()?;
    let cores = two_cores()?;
    let _pinned = cores.map(|[here, _]| Pinned::to(here)).transpose()?;
    let machine = Machine::of(options, cores)?;
    let mut bench =
        Bench { options, peer: Peer::start(cores.map(|[_, there]| there))?, two: cores.is_some() };
    let mut groups = groups(options);
    for round in 0..options.repetitions * MAX_ROUNDS {
        let mut open: Vec<&mut Group> =
            groups.iter_mut().filter(|group| !group.is_complete(options.repetitions)).collect();
        if open.is_empty() {
            break;
        }
        writeln!(log, "round {}", round + 1)?;
        for (case, samples) in open.iter_mut().flat_map(|group| &mut group.cases) {
            samples.push(bench.sample(case, round)?);
        }
    }
    drop(bench);
    let found = if options.parts.contains(&Part::Many) {
        crew::run(options, cores, log)?
    } else {
        Found::default()
    };
    report::write(&machine, options, &groups, &found, out)?;
    judge(&groups, &found)
}

/// Checks that nothing was lost where producers wait, and nothing damaged.
fn judge(groups: &[Group], found: &Found) -> Result<(), BenchError> {
    let all = || {
        groups.iter().flat_map(|group| {
            group.cases.iter().flat_map(|(case, samples)| samples.iter().map(move |s| (case, s)))
        })
    };
    let mut lost: u64 =
        all().filter(|(case, _)| case.policy == Policy::Drop).map(|(_, sample)| sample.lost).sum();
    let mut bad: u64 = all().map(|(_, sample)| sample.bad).sum();
    lost += found.lost_while_waiting();
    bad += found.bad();
    if lost == 0 && bad == 0 { Ok(()) } else { Err(BenchError::Damaged { lost, bad }) }
}

struct Bench<'a> {
    options: &'a Options,
    peer: Peer,
    two: bool,
}

impl Bench<'_> {
    fn limit(&self) -> Limit {
        Limit { seconds: self.options.seconds_per_sample, records: self.options.max_records }
    }

    /// Takes one sample, with the hop before and after it.
    fn sample(&mut self, case: &Case, round: usize) -> Result<Sample, BenchError> {
        if case.contestant == Contestant::Memcpy {
            return self.copy(case, round);
        }
        let before = self.peer.hop_ns(self.options)?;
        let mut sample = match (case.part, case.contestant) {
            (Part::Latency, Contestant::Line) => self.line(round)?,
            (Part::Latency, _) => self.round_trips(case, round)?,
            _ => self.stream(case, round)?,
        };
        let after = self.peer.hop_ns(self.options)?;
        sample.hops_ns = Some([before, after]);
        sample.distance = if self.two { Distance::of(before, after) } else { Distance::None };
        Ok(sample)
    }

    fn setup(&self, case: &Case) -> Setup {
        Setup {
            data_size: self.options.data_size,
            policy: case.policy,
            payload: case.payload,
            reader: self.options.reader,
        }
    }

    fn copy(&self, case: &Case, round: usize) -> Result<Sample, BenchError> {
        let mut buffer = vec![0; usize::try_from(self.options.data_size).unwrap_or(1 << 20)];
        let mut limit = self.limit();
        limit.seconds /= 4.0; // it stays on its core: less is enough
        let (records, ns) = sized!(case.payload, N => Ok(copy::<N>(&mut buffer, limit)))?;
        Ok(plain(round, records, ns))
    }

    /// The child produces; this process reads meanwhile, or afterwards.
    fn stream(&mut self, case: &Case, round: usize) -> Result<Sample, BenchError> {
        let setup = self.setup(case);
        let limit = self.limit();
        let path = self.peer.new_path();
        ringed!(case.contestant, R => {
            R::create(&path, &setup)?;
            let step =
                Step::Produce { contestant: case.contestant, setup, limit, path: path.clone() };
            let mut check = Check::default();
            let (sample, sent) = if case.audience == Audience::Keen {
                let mut receiver = R::receiver(&path, &setup)?;
                self.peer.ask(&step)?;
                let start = Instant::now();
                let (done, mut alive, _) = self.peer.go();
                sized!(case.payload, N => {
                    if setup.has_pool() {
                        check = Check::of_pool::<N>();
                    }
                    consume::<N>(&mut receiver, &mut check, &done, &mut alive)
                })?;
                drop((done, alive));
                let ns = start.elapsed().as_nanos();
                let sent = self.peer.done()?;
                check.finish(sent.records);
                let mut sample = plain(round, check.good(), u64::try_from(ns).unwrap_or(u64::MAX));
                sample.ns_per_record = sent.ns as f64 / sent.records.max(1) as f64;
                (sample, sent)
            } else {
                self.peer.ask(&step)?;
                drop(self.peer.go());
                let sent = self.peer.done()?;
                let mut receiver = R::receiver(&path, &setup)?;
                sized!(case.payload, N => {
                    consume::<N>(&mut receiver, &mut check, || true, &mut || Ok(()))
                })?;
                check.finish(sent.records);
                (plain(round, sent.records, sent.ns), sent)
            };
            std::fs::remove_file(&path)?;
            Ok(Sample { lost: check.lost, bad: check.bad + sent.bad, ..sample })
        })
    }

    fn line(&mut self, round: usize) -> Result<Sample, BenchError> {
        let trips = self.options.round_trips + self.options.warm_up();
        self.peer.ask(&Step::Line { trips })?;
        let mut histogram = Trips::new(self.options, self.peer.tick_ns())?;
        let start = Instant::now();
        let (_, mut alive, line) = self.peer.go();
        ask_line(line, trips, &mut alive, |ticks| histogram.add(ticks))?;
        drop(alive);
        let ns = start.elapsed().as_nanos();
        self.peer.done()?;
        let sample = plain(round, u64::from(trips), u64::try_from(ns).unwrap_or(u64::MAX));
        Ok(Sample { latency: Some(histogram.quantiles()), ..sample })
    }

    fn round_trips(&mut self, case: &Case, round: usize) -> Result<Sample, BenchError> {
        let setup = self.setup(case);
        let trips = self.options.round_trips + self.options.warm_up();
        let (ping, pong) = (self.peer.new_path(), self.peer.new_path());
        ringed!(case.contestant, R => {
            R::create(&ping, &setup)?;
            R::create(&pong, &setup)?;
            let mut sender = R::sender(&ping, &setup)?;
            let mut receiver = R::receiver(&pong, &setup)?;
            self.peer.ask(&Step::Answer {
                contestant: case.contestant,
                setup,
                trips,
                ping: ping.clone(),
                pong: pong.clone(),
            })?;
            let mut histogram = Trips::new(self.options, self.peer.tick_ns())?;
            let start = Instant::now();
            let (_, mut alive, _) = self.peer.go();
            let check = ask::<SMALL>(&mut sender, &mut receiver, trips, &mut alive, |ticks| {
                histogram.add(ticks);
            })?;
            drop(alive);
            let ns = start.elapsed().as_nanos();
            let answered = self.peer.done()?;
            for path in [ping, pong] {
                std::fs::remove_file(path)?;
            }
            let sample = plain(round, check.good(), u64::try_from(ns).unwrap_or(u64::MAX));
            Ok(Sample {
                lost: check.lost,
                bad: check.bad + answered.bad,
                latency: Some(histogram.quantiles()),
                ..sample
            })
        })
    }
}

/// Returns a sample of so many records in so much time, with nothing else filled in.
fn plain(round: usize, records: u64, ns: u64) -> Sample {
    let ns_per_record = ns as f64 / records.max(1) as f64;
    Sample {
        round,
        records,
        records_per_s: records as f64 * 1e9 / ns.max(1) as f64,
        ns_per_record,
        lost: 0,
        bad: 0,
        latency: None,
        hops_ns: None,
        distance: Distance::None,
    }
}

/// The round trips of one sample, in ticks.
struct Trips {
    histogram: Histogram<u64>,
    /// Trips that do not count yet.
    uncounted: u32,
    tick_ns: f64,
}

impl Trips {
    fn new(options: &Options, tick_ns: f64) -> Result<Self, BenchError> {
        let histogram = Histogram::new_with_bounds(1, 1 << 36, 3)
            .map_err(|error| BenchError::Usage(error.to_string()))?;
        Ok(Trips { histogram, uncounted: options.warm_up(), tick_ns })
    }

    fn add(&mut self, ticks: u64) {
        if self.uncounted > 0 {
            self.uncounted -= 1;
        } else {
            self.histogram.saturating_record(ticks);
        }
    }

    /// Returns one-way times, in nanoseconds.
    fn quantiles(&self) -> Quantiles {
        let [p50, p99, p999] = [0.5, 0.99, 0.999]
            .map(|q| self.histogram.value_at_quantile(q) as f64 * self.tick_ns / 2.0);
        Quantiles { p50, p99, p999 }
    }
}
