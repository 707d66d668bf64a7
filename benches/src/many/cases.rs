//! The samples that are taken, and which of them take turns.

use super::race::{Placement, Sample, Shape, Way, Who};
use crate::cores::Distance;
use crate::options::Options;
use crate::payload::SMALL;

/// A kind of sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) who: Who,
    pub(crate) shape: Shape,
    pub(crate) way: Way,
    pub(crate) payload: usize,
    pub(crate) producers: usize,
    pub(crate) placement: Placement,
}

/// Cases that are compared with each other and take turns: of one shape, payload and method.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) cases: Vec<(Case, Vec<Sample>)>,
}

impl Group {
    /// Returns whether there are enough samples of every case at some distance.
    pub(crate) fn is_complete(&self, repetitions: usize) -> bool {
        [Distance::Near, Distance::Far, Distance::None].iter().any(|distance| {
            let enough = |samples: &[Sample]| {
                samples.iter().filter(|s| s.distance == *distance).count() >= repetitions
            };
            self.cases.iter().all(|(_, samples)| enough(samples))
        })
    }

    /// Returns the samples of a case.
    pub(crate) fn samples_of(&self, wanted: &Case) -> Option<&[Sample]> {
        self.cases.iter().find(|(case, _)| case == wanted).map(|(_, samples)| samples.as_slice())
    }
}

/// Returns all groups. The kernel's ring takes part where there is one, publishing record by
/// record, but not where producers wait for room, which it does not support.
pub(crate) fn groups(options: &Options, bpf: bool) -> Vec<Group> {
    let mut payloads: Vec<usize> =
        options.payloads.iter().copied().filter(|&payload| payload <= SMALL).collect();
    if payloads.is_empty() {
        payloads.push(SMALL);
    }
    let mut groups = Vec::new();
    for shape in Shape::ALL {
        for &payload in &payloads {
            for way in [Way::Publish, Way::Reserve, Way::Batch] {
                // Producers cannot wait for the room of a batch.
                if (shape, way) != (Shape::Lossless, Way::Batch) {
                    let whos = whos(shape, way, bpf);
                    let of_who = |&who| cases(who, shape, way, payload, &options.producers);
                    let cases = whos.iter().flat_map(of_who);
                    groups.push(Group { cases: cases.map(|case| (case, Vec::new())).collect() });
                }
            }
        }
    }
    groups
}

fn whos(shape: Shape, way: Way, bpf: bool) -> &'static [Who] {
    if bpf && way == Way::Reserve && shape != Shape::Lossless {
        &[Who::Exclusive, Who::Bpf, Who::Shared]
    } else {
        &[Who::Exclusive, Who::Shared]
    }
}

fn cases(who: Who, shape: Shape, way: Way, payload: usize, producers: &[usize]) -> Vec<Case> {
    let case = |producers, placement| Case { who, shape, way, payload, producers, placement };
    if who == Who::Exclusive {
        return vec![case(1, Placement::Apart)];
    }
    let placements = |producers| -> &'static [Placement] {
        match (shape, producers) {
            (_, 1) => &[Placement::Apart],
            (Shape::Alone, _) => &[Placement::Spread],
            _ => &[Placement::Apart, Placement::Spread],
        }
    };
    producers.iter().flat_map(|&n| placements(n).iter().map(move |&at| case(n, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_producers_is_beside_the_ring_of_one() {
        let options = Options { payloads: vec![64, 4096], ..Options::default() };
        let groups = groups(&options, true);
        // Three methods, alone and lossy, and two lossless: large payloads take no part.
        assert_eq!(groups.len(), 3 + 3 + 2);
        for group in &groups {
            let of = |who| group.cases.iter().filter(move |(case, _)| case.who == who);
            let (case, _) = of(Who::Exclusive).next().unwrap();
            assert_eq!((case.producers, case.payload), (1, 64));
            for &n in &options.producers {
                assert!(of(Who::Shared).any(|(case, _)| case.producers == n));
            }
            let kernel = case.way == Way::Reserve && case.shape != Shape::Lossless;
            assert_eq!(of(Who::Bpf).count() > 0, kernel);
        }
    }
}
