//! The samples of many producers, one after the other.

use super::cases::{Case, Group, groups};
use super::consume::{self, post_mortem};
use super::produce;
use super::race::{Placement, Race, Sample, Shape, Who};
use crate::audit::{Losses, Tally};
use crate::bpf;
use crate::conductor::{Play, memory_dir, perform};
use crate::contest::perfring::error;
use crate::contestant::{Role, Setup};
use crate::cores::{Distance, Placed};
use crate::drive::Limit;
use crate::error::{BenchError, Result};
use crate::options::Options;
use crate::part::{Duty, Found as PartFound, Part};
use crate::payload::sized;
use crate::player::{Entry, Kind};
use crate::stage::Stage;
use crate::turns::{Bench, MAX_ROUNDS, failed};
use perfring_producer::{Policy, Producers};
use std::io::Write;
use std::path::Path;

/// All that take part here: the task says which of them a process is.
pub(crate) const ENTRY: Entry = Entry { name: "many", role: Role::Ours, kind: Kind::Bare(play) };

/// Plays the part of a producer, or of the consumer.
fn play(part: &Part, stage: &Stage<'_>) -> Result<()> {
    let Duty::Race(race) = &part.duty else {
        return Err(BenchError::Cannot("do anything but race"));
    };
    let race: Race = serde_json::from_str(race)?;
    stage.created()?;
    stage.done(match race.producer {
        Some(producer) => produce::run(&race, producer, stage)?,
        None => consume::run(&race, stage)?,
    })
}

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
pub(crate) fn run(options: &Options, bench: &Bench, log: &mut dyn Write) -> Result<Found> {
    let no_bpf = bpf_works(options.data_size).err().map(|error| error.to_string());
    let mut groups = groups(options, no_bpf.is_none());
    for round in 0..options.repetitions * MAX_ROUNDS {
        let mut open: Vec<&mut Group> =
            groups.iter_mut().filter(|group| !group.is_complete(options.repetitions)).collect();
        if open.is_empty() {
            break;
        }
        writeln!(log, "many producers, round {}", round + 1)?;
        for (case, samples) in open.iter_mut().flat_map(|group| &mut group.cases) {
            samples.push(sample(bench, case, round)?);
        }
    }
    Ok(Found { groups, no_bpf })
}

/// Checks whether the kernel's ring can be used.
fn bpf_works(data_size: u64) -> Result<()> {
    let map = bpf::Map::create(data_size)?;
    let feeder = bpf::Feeder::load(&map, 8)?;
    drop(bpf::Map::open(map.id()?, data_size)?);
    feeder.feed(0).map(drop)
}

/// Takes one sample, with the hop before and after it.
fn sample(bench: &Bench, case: &Case, round: usize) -> Result<Sample> {
    let two = bench.places.as_ref().map(crate::cores::Places::two);
    let placed = two.map_or_else(Placed::default, |[here, there]| Placed {
        receivers: vec![here],
        senders: vec![there],
    });
    let before = bench.hop_ns(&placed)?;
    let mut sample = race(bench, case, two)?;
    let after = bench.hop_ns(&placed)?;
    sample.round = round;
    sample.hops_ns = [before, after];
    if let (Some(before), Some(after)) = (before, after) {
        sample.distance = Distance::of(before, after);
    }
    Ok(sample)
}

/// Runs the producers, and a consumer that verifies every record; if there is none, what the
/// producers leave is verified.
fn race(bench: &Bench, case: &Case, two: Option<[usize; 2]>) -> Result<Sample> {
    let (scale, dir) = (&bench.scale, memory_dir()?);
    let path = dir.path().join("ring");
    let map = create(case, scale.data_size, &path)?;
    let race = Race {
        who: case.who,
        shape: case.shape,
        way: case.way,
        payload: case.payload,
        data_size: scale.data_size,
        path: path.clone(),
        bpf: map.as_ref().map_or(Ok(0), bpf::Map::id)?,
        producers: case.producers,
        producer: None,
        limit: Limit {
            seconds: scale.seconds_per_sample,
            records: (scale.max_records / case.producers as u64).max(1),
        },
        reader: scale.pace,
        shares: two.is_none() || case.placement == Placement::Spread,
    };
    let alone = case.shape == Shape::Alone;
    let consumer = (!alone).then_some(None);
    let parts = consumer.into_iter().chain((0..case.producers).map(Some)).map(|producer| {
        let core = two.map(|[here, there]| match (producer, case.placement) {
            (None, _) => here,
            (Some(producer), Placement::Spread) if producer % 2 == 1 => here,
            (Some(_), _) => there,
        });
        part(&Race { producer, ..race.clone() }, core)
    });
    let processes = parts.map(|part| Ok(vec![part?])).collect::<Result<_>>()?;
    let play = Play { contestant: ENTRY.name, processes, patience: bench.patience(), weigh: false };
    let found = perform(&play, dir.path()).map_err(|failure| failed(ENTRY.name, failure))?.found;
    let (readers, producers) = found.split_at(usize::from(!alone));
    let tally =
        |found: &PartFound| Tally { published: found.records, refused: Losses::from(found.causes) };
    let tallies: Vec<Tally> = producers.iter().map(tally).collect();
    let sum = Tally::sum(&tallies);
    let wrong = match &map {
        _ if !alone => 0,
        // Its records are all of one size, and have no other writer.
        Some(map) => {
            let size = (case.payload as u64).next_multiple_of(8) + 8;
            (map.producer_pos() / size).abs_diff(sum.published)
        }
        None => sized!(case.payload, N => post_mortem::<N>(&path, &tallies))?,
    };
    let records = readers.first().map_or(sum.published, |reader| reader.records);
    let start = producers.iter().map(|found| found.start_ns).min().unwrap_or_default();
    let last = if alone { producers } else { readers };
    let end = last.iter().map(|found| found.end_ns).max().unwrap_or_default();
    let ns = end.saturating_sub(start).max(1);
    Ok(Sample {
        round: 0,
        records,
        records_per_s: records as f64 * 1e9 / ns as f64,
        refused: sum.refused,
        bad: wrong + found.iter().map(|found| found.bad).sum::<u64>(),
        hops_ns: [None; 2],
        distance: Distance::None,
    })
}

fn part(race: &Race, core: Option<usize>) -> Result<Part> {
    Ok(Part {
        duty: Duty::Race(serde_json::to_string(race)?),
        setup: Setup {
            data_size: race.data_size,
            payload: race.payload,
            overwrite: race.shape == Shape::Alone,
            senders: race.producers,
            receivers: 1,
            pace: race.reader,
            sleeping: false,
        },
        path: race.path.clone(),
        index: race.producer.unwrap_or_default(),
        core,
        pool: false,
    })
}

/// Creates the ring: a file, or a BPF map.
fn create(case: &Case, data_size: u64, path: &Path) -> Result<Option<bpf::Map>> {
    if case.who == Who::Bpf {
        return bpf::Map::create(data_size).map(Some);
    }
    let producers = if case.who == Who::Shared { Producers::Many } else { Producers::One };
    let policy = if case.shape == Shape::Alone { Policy::Overwrite } else { Policy::Drop };
    let options = perfring_producer::Options {
        size: data_size,
        policy,
        producers,
        ..perfring_producer::Options::default()
    };
    perfring_producer::files::create(path, &options).map_err(error)?;
    Ok(None)
}
