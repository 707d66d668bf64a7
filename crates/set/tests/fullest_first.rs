//! The fullest ring has the next turn, and so less is lost than in turns.

use perfring_consumer::{Consumer, Item, Report, stat::Stat};
use perfring_producer::{Options, Producer, ReserveError};
use perfring_set::{FullestFirst, SourceId};
use std::path::PathBuf;

const SIZE: u64 = 4096;

struct Rings {
    _dir: tempfile::TempDir,
    paths: Vec<PathBuf>,
    producers: Vec<Producer>,
}

impl Rings {
    fn new(sizes: &[u64]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..sizes.len()).map(|at| dir.path().join(at.to_string())).collect();
        let create = |(path, size): (&PathBuf, &u64)| {
            let report = Report::CountersOnly; // no losses in the stream
            let options = Options { size: *size, report, ..Options::default() };
            Producer::create(path, &options).unwrap()
        };
        let producers = paths.iter().zip(sizes).map(create).collect();
        Rings { _dir: dir, paths, producers }
    }

    /// A sixteenth of the smallest ring: a turn in it.
    fn publish(&mut self, at: usize) -> bool {
        match self.producers[at].publish(&[0; 248]) {
            Ok(()) => true,
            Err(ReserveError::Full) => false,
            Err(other) => panic!("{other}"),
        }
    }

    /// How full a ring is, in thousandths.
    fn fill(&self, at: usize) -> u64 {
        let stat = Stat::read(&self.paths[at]).unwrap();
        let totals = stat.totals.unwrap();
        (totals.head - totals.tail) * 1000 / stat.layout.data_size
    }
}

#[test]
fn each_turn_is_the_fullest_rings() {
    let sizes = [SIZE, 2 * SIZE, SIZE, SIZE];
    let mut rings = Rings::new(&sizes);
    let mut fullest = FullestFirst::new();
    let ids: Vec<SourceId> = rings
        .paths
        .iter()
        .map(|path| fullest.add(Box::new(Consumer::attach(path).unwrap())))
        .collect();
    let mut random = 1u64;
    let mut turns = 0;
    let (mut written, mut offered, mut told) = (0, 0, 0);
    for _ in 0..2000 {
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            written += u64::from(rings.publish((random >> 33) as usize % sizes.len()));
            offered += 1;
        }
        for _ in 0..2 {
            let fills: Vec<_> = (0..sizes.len()).map(|at| rings.fill(at)).collect();
            let Some(merged) = fullest.next().unwrap() else { break };
            if let Item::Lost(lost) = merged.item {
                told += lost.records;
                continue; // it takes no turn
            }
            let source = merged.source;
            let at = ids.iter().position(|id| *id == source).unwrap();
            // In the larger ring a turn has up to two records.
            if at != 1 {
                assert_eq!(fills[at], *fills.iter().max().unwrap(), "{at} of {fills:?}");
                turns += 1;
            }
            let resume_point = fullest.resume_point(source).unwrap();
            fullest.release(source, &resume_point);
        }
    }
    let mut read = 0;
    while let Some(merged) = fullest.next().unwrap() {
        match merged.item {
            Item::Record(_) => read += 1,
            Item::Lost(lost) => told += lost.records,
        }
    }
    println!("{written} of {offered} written, {turns} turns, {read} left, {told} reported as lost");
    assert!(turns > 500);
    assert_eq!(told, offered - written);
}

#[test]
fn a_loss_of_a_ring_that_is_empty_is_returned_though_another_one_never_is() {
    let mut rings = Rings::new(&[SIZE; 2]);
    let mut fullest = FullestFirst::new();
    let ids: Vec<SourceId> = rings
        .paths
        .iter()
        .map(|path| fullest.add(Box::new(Consumer::attach(path).unwrap())))
        .collect();
    rings.producers[1].publish(&[0; 2 * SIZE as usize]).unwrap_err();
    for _ in 0..40 {
        assert!(rings.publish(0) && rings.publish(0));
        let merged = fullest.next().unwrap().unwrap();
        let source = merged.source;
        if let Item::Lost(lost) = merged.item {
            assert_eq!((source, lost.records, lost.pos), (ids[1], 1, 0));
            return;
        }
        fullest.next().unwrap().unwrap();
        let resume_point = fullest.resume_point(source).unwrap();
        fullest.release(source, &resume_point);
    }
    panic!("it waits for the other ring to be empty");
}

/// One ring gets seven records, seven get one each; eight are read each round.
fn lost(mut next: impl FnMut(usize, &mut [Consumer]) -> usize, fullest: bool) -> u64 {
    let mut rings = Rings::new(&[SIZE; 8]);
    let mut drain = FullestFirst::new();
    let mut consumers = Vec::new();
    for path in &rings.paths {
        let consumer = Consumer::attach(path).unwrap();
        match fullest {
            true => drop(drain.add(Box::new(consumer))),
            false => consumers.push(consumer),
        }
    }
    let mut lost = 0;
    for round in 0..1000 {
        for _ in 0..7 {
            lost += u64::from(!rings.publish(0));
        }
        for at in 1..8 {
            lost += u64::from(round % 7 == 0 && !rings.publish(at));
        }
        for turn in 0..8 {
            match fullest {
                true => {
                    if let Some(source) = drain.next().unwrap().map(|merged| merged.source) {
                        let resume_point = drain.resume_point(source).unwrap();
                        drain.release(source, &resume_point);
                    }
                }
                false => {
                    let at = next(round * 8 + turn, &mut consumers);
                    let _ = consumers[at].read().unwrap();
                    consumers[at].release();
                }
            }
        }
    }
    lost
}

#[test]
fn less_is_lost_than_in_turns() {
    let in_turns = lost(|turn, consumers| turn % consumers.len(), false);
    let fullest = lost(|_, _| 0, true);
    println!("of 8,001 records {in_turns} are lost in turns, {fullest} from the fullest first");
    assert_eq!(fullest, 0);
    assert!(in_turns > 1000);
}
