//! The producer processes, their common start, and one sample after the other.

use super::audit::{Begin, Losses, Seen, Tally};
use super::cases::{Case, Group, groups};
use super::consume::{Core, Kernel, Source, consume, consumer, post_mortem, totals};
use super::produce::{Ran, now_ns};
use super::race::{Placement, Race, Sample, Shape, Who};
use crate::bpf;
use crate::contest::floor::Waits;
use crate::contest::ring::{Contestant, failed};
use crate::cores::{Distance, Pinned};
use crate::drive::Limit;
use crate::error::BenchError;
use crate::options::{MAX_ROUNDS, Options};
use crate::payload::sized;
use crate::peer::{Peer, StartLine, Step, watch};
use perfring_producer::{Policy, Producers};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Time from the announcement to the start: all producers have seen it by then.
const COUNT_DOWN: Duration = Duration::from_millis(1);
/// Time between two checks whether producers without a reader have finished: both cores are theirs.
const NAP: Duration = Duration::from_millis(1);

/// The results, and the reason why the kernel's ring is not among them, if it is not.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) groups: Vec<Group>,
    pub(crate) no_bpf: Option<String>,
}

impl Found {
    fn samples(&self) -> impl Iterator<Item = (&Case, &Sample)> {
        let cases = self.groups.iter().flat_map(|group| &group.cases);
        cases.flat_map(|(case, samples)| samples.iter().map(move |sample| (case, sample)))
    }

    /// Returns what was lost by producers that wait for room.
    pub(crate) fn lost_while_waiting(&self) -> u64 {
        let waited = self.samples().filter(|(case, _)| case.shape == Shape::Lossless);
        waited.map(|(_, sample)| sample.refused.total()).sum()
    }

    /// Returns what was damaged, or counted wrongly.
    pub(crate) fn bad(&self) -> u64 {
        self.samples().map(|(_, sample)| sample.bad).sum()
    }
}

/// Takes all samples.
pub(crate) fn run(
    options: &Options,
    cores: Option<[usize; 2]>,
    log: &mut dyn Write,
) -> Result<Found, BenchError> {
    let _pinned = cores.map(|[here, _]| Pinned::to(here)).transpose()?;
    let no_bpf = bpf_works(options.data_size).err().map(|error| error.to_string());
    let mut groups = groups(options, no_bpf.is_none());
    let mut crew = Crew::start(options, cores)?;
    for round in 0..options.repetitions * MAX_ROUNDS {
        let mut open: Vec<&mut Group> =
            groups.iter_mut().filter(|group| !group.is_complete(options.repetitions)).collect();
        if open.is_empty() {
            break;
        }
        writeln!(log, "many producers, round {}", round + 1)?;
        for (case, samples) in open.iter_mut().flat_map(|group| &mut group.cases) {
            samples.push(crew.sample(case, round)?);
        }
    }
    Ok(Found { groups, no_bpf })
}

/// Checks whether the kernel's ring can be used.
fn bpf_works(data_size: u64) -> Result<(), BenchError> {
    let map = bpf::Map::create(data_size)?;
    let feeder = bpf::Feeder::load(&map, 8)?;
    drop(bpf::Map::open(map.id()?, data_size)?);
    feeder.feed(0).map(drop)
}

struct Crew<'a> {
    options: &'a Options,
    cores: Option<[usize; 2]>,
    peers: Vec<Peer>,
    line: StartLine,
    line_path: PathBuf,
    races: u64,
}

impl<'a> Crew<'a> {
    fn start(options: &'a Options, cores: Option<[usize; 2]>) -> Result<Self, BenchError> {
        let core = cores.map(|[_, there]| there);
        let most = options.producers.iter().copied().max().unwrap_or(1);
        let mut first = Peer::start(core)?;
        let line_path = first.new_path();
        let line = StartLine::create(&line_path)?;
        let mut peers = vec![first];
        for _ in 1..most {
            peers.push(Peer::start(core)?);
        }
        Ok(Crew { options, cores, peers, line, line_path, races: 0 })
    }

    /// Takes one sample, with the hop before and after it.
    fn sample(&mut self, case: &Case, round: usize) -> Result<Sample, BenchError> {
        let before = self.hop_ns()?;
        let mut sample = match case.shape {
            Shape::Alone => self.alone(case)?,
            Shape::Lossy | Shape::Lossless => self.consumed(case)?,
        };
        let after = self.hop_ns()?;
        sample.round = round;
        sample.hops_ns = [before, after];
        if self.cores.is_some() {
            sample.distance = Distance::of(before, after);
        }
        Ok(sample)
    }

    fn hop_ns(&mut self) -> Result<f64, BenchError> {
        self.peers.first_mut().map_or(Ok(f64::NAN), |peer| peer.hop_ns(self.options))
    }

    /// Returns the core of a producer; see [`Placement`].
    fn core(&self, case: &Case, producer: usize) -> Option<usize> {
        self.cores.map(|[here, there]| match case.placement {
            Placement::Spread if producer % 2 == 1 => here,
            Placement::Spread | Placement::Apart => there,
        })
    }

    /// Attaches the producers and waits until they are ready to start.
    fn line_up(&mut self, case: &Case, path: &Path, bpf: u32) -> Result<(), BenchError> {
        self.races += 1;
        for producer in 0..case.producers {
            let race = Race {
                who: case.who,
                shape: case.shape,
                way: case.way,
                payload: case.payload,
                data_size: self.options.data_size,
                path: path.to_owned(),
                bpf,
                producer,
                core: self.core(case, producer),
                limit: Limit {
                    seconds: self.options.seconds_per_sample,
                    records: (self.options.max_records / case.producers as u64).max(1),
                },
                line: self.line_path.clone(),
                number: self.races,
            };
            if let Some(peer) = self.peers.get_mut(producer) {
                peer.ask(&Step::Race(race))?;
            }
        }
        Ok(())
    }

    /// Announces when the race starts, by the clock that all share.
    fn start_race(&self) -> Result<u64, BenchError> {
        let start = now_ns() + COUNT_DOWN.as_nanos() as u64;
        self.line.start(self.races, start);
        Ok(start)
    }

    fn results(&mut self, case: &Case) -> Result<Vec<Ran>, BenchError> {
        self.peers.iter_mut().take(case.producers).map(Peer::ran).collect()
    }

    /// Runs producers alone; what they leave is verified.
    fn alone(&mut self, case: &Case) -> Result<Sample, BenchError> {
        let ring = OpenRing::create(case, self.options, self.new_path())?;
        self.line_up(case, &ring.path, ring.id()?)?;
        let start = self.start_race()?;
        let (done, mut alive) = watch(self.peers.get_mut(..case.producers).unwrap_or_default());
        while !done() {
            sleep(NAP);
            alive()?;
        }
        drop((done, alive));
        let ran = self.results(case)?;
        let tallies: Vec<Tally> = ran.iter().map(|ran| ran.tally).collect();
        let wrong = match &ring.map {
            // Its records are all of one size, and have no other writer.
            Some(map) => {
                let size = (case.payload as u64).next_multiple_of(8) + 8;
                (map.producer_pos() / size).abs_diff(Tally::sum(&tallies).published)
            }
            None => sized!(case.payload, N => post_mortem::<N>(&ring.path, &tallies))?,
        };
        ring.remove()?;
        let end = ran.iter().map(|ran| ran.end_ns).max().unwrap_or(start);
        let bad = wrong + ran.iter().map(|ran| ran.bad).sum::<u64>();
        let sum = Tally::sum(&tallies);
        Ok(sample(sum.published, end.saturating_sub(start), sum.refused, bad))
    }

    /// Runs producers, and a consumer that verifies every record.
    fn consumed(&mut self, case: &Case) -> Result<Sample, BenchError> {
        let mut ring = OpenRing::create(case, self.options, self.new_path())?;
        let id = ring.id()?;
        match ring.map.take() {
            Some(map) => {
                let waits = Waits::new(self.options.reader);
                let mut source = Kernel { reader: bpf::Reader::new(map), waits };
                self.read(case, &ring, id, &mut source)
            }
            None => {
                let mut source = consumer(&ring.path, self.options.reader)?;
                self.read(case, &ring, id, &mut source)
            }
        }
    }

    fn read(
        &mut self,
        case: &Case,
        ring: &OpenRing,
        id: u32,
        source: &mut impl Source,
    ) -> Result<Sample, BenchError> {
        self.line_up(case, &ring.path, id)?;
        let start = self.start_race()?;
        let mut seen = Seen::new(Begin::First);
        let alone = self.cores.is_some() && case.placement == Placement::Apart;
        let core = if alone { Core::Own } else { Core::Shared };
        let (done, mut alive) = watch(self.peers.get_mut(..case.producers).unwrap_or_default());
        sized!(case.payload, N => consume::<N>(source, core, &mut seen, &done, &mut alive))?;
        drop((done, alive));
        let end = now_ns();
        let ran = self.results(case)?;
        let tallies: Vec<Tally> = ran.iter().map(|ran| ran.tally).collect();
        source.finish();
        let (wrong, unreported) = if case.who == Who::Bpf {
            // It reports no losses.
            (0, Tally::sum(&tallies).refused)
        } else {
            (totals(&ring.path, &seen, &tallies)?, Losses::default())
        };
        seen.settle(&tallies, unreported);
        ring.remove()?;
        let bad = seen.bad + wrong + ran.iter().map(|ran| ran.bad).sum::<u64>();
        let refused = Tally::sum(&tallies).refused;
        Ok(sample(seen.records, end.saturating_sub(start), refused, bad))
    }

    fn new_path(&mut self) -> PathBuf {
        self.peers.first_mut().map(Peer::new_path).unwrap_or_default()
    }
}

fn sample(records: u64, ns: u64, refused: Losses, bad: u64) -> Sample {
    Sample {
        round: 0,
        records,
        records_per_s: records as f64 * 1e9 / ns.max(1) as f64,
        refused,
        bad,
        hops_ns: [f64::NAN; 2],
        distance: Distance::None,
    }
}

/// A ring for one sample: a file, or a BPF map.
struct OpenRing {
    path: PathBuf,
    map: Option<bpf::Map>,
}

impl OpenRing {
    fn create(case: &Case, options: &Options, path: PathBuf) -> Result<Self, BenchError> {
        if case.who == Who::Bpf {
            return Ok(OpenRing { path, map: Some(bpf::Map::create(options.data_size)?) });
        }
        let producers = if case.who == Who::Shared { Producers::Many } else { Producers::One };
        let policy = if case.shape == Shape::Alone { Policy::Overwrite } else { Policy::Drop };
        let options = perfring_producer::Options {
            size: options.data_size,
            policy,
            producers,
            ..perfring_producer::Options::default()
        };
        perfring_producer::files::create(&path, &options)
            .map_err(|source| failed(Contestant::Perfring)(Box::new(source)))?;
        Ok(OpenRing { path, map: None })
    }

    fn id(&self) -> Result<u32, BenchError> {
        self.map.as_ref().map_or(Ok(0), bpf::Map::id)
    }

    fn remove(&self) -> Result<(), BenchError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}
