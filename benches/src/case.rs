//! The samples that are taken of one producer and one reader, and their results.

use crate::contest::ring::{Audience, Contestant, Policy};
use crate::cores::Distance;
use crate::options::{Options, Part, SMALL};

/// A kind of sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) part: Part,
    pub(crate) contestant: Contestant,
    pub(crate) payload: usize,
    pub(crate) policy: Policy,
    pub(crate) audience: Audience,
}

/// Round trips, halved, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// The result of one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The round it belongs to: other samples of the same round were taken next to it.
    pub(crate) round: usize,
    /// Verified records; without a reader, those that the producer published.
    pub(crate) records: u64,
    /// By the reader's clock; without a reader, by the producer's.
    pub(crate) records_per_s: f64,
    /// By the producer's clock.
    pub(crate) ns_per_record: f64,
    pub(crate) lost: u64,
    pub(crate) bad: u64,
    pub(crate) latency: Option<Quantiles>,
    pub(crate) hops_ns: Option<[f64; 2]>,
    pub(crate) distance: Distance,
}

impl Sample {
    /// Returns the figure that ratios are computed from.
    pub(crate) fn figure(&self, part: Part) -> f64 {
        match part {
            Part::Throughput => self.records_per_s,
            Part::Overwrite => self.ns_per_record,
            Part::Latency => self.latency.map_or(f64::NAN, |latency| latency.p50),
            Part::Many => f64::NAN,
        }
    }
}

/// Cases that are compared with each other and take turns.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) cases: Vec<(Case, Vec<Sample>)>,
}

impl Group {
    fn new(cases: impl IntoIterator<Item = Case>) -> Self {
        Group { cases: cases.into_iter().map(|case| (case, Vec::new())).collect() }
    }

    /// Returns whether there are enough samples of every case at some distance.
    pub(crate) fn is_complete(&self, repetitions: usize) -> bool {
        [Distance::Near, Distance::Far, Distance::None].iter().any(|distance| {
            self.cases.iter().filter(|(case, _)| case.contestant != Contestant::Memcpy).all(
                |(_, samples)| {
                    samples.iter().filter(|sample| sample.distance == *distance).count()
                        >= repetitions
                },
            )
        })
    }
}

/// Returns all groups.
pub(crate) fn groups(options: &Options) -> Vec<Group> {
    use Audience::{Keen, Nobody};
    use Contestant::{
        Floor, Line, Memcpy, Perfring, Publish, PublishPod, PublishTimeout, ReserveTimeout,
    };
    let mut groups = Vec::new();
    for part in &options.parts {
        let case = |contestant, payload, policy, audience| Case {
            part: *part,
            contestant,
            payload,
            policy,
            audience,
        };
        match part {
            Part::Throughput => groups.extend(options.payloads.iter().map(|&payload| {
                let all =
                    [Memcpy, Floor, Publish, PublishTimeout, ReserveTimeout, PublishPod, Perfring];
                Group::new(all.map(|who| case(who, payload, Policy::Drop, Keen)))
            })),
            Part::Overwrite => groups.push(Group::new(
                [
                    (Floor, Policy::Drop, Keen),
                    (Floor, Policy::Overwrite, Nobody),
                    (Perfring, Policy::Drop, Keen),
                    (Perfring, Policy::Overwrite, Nobody),
                    (Perfring, Policy::OverwriteHalf, Nobody),
                    (Perfring, Policy::Overwrite, Keen),
                ]
                .map(|(who, policy, audience)| case(who, SMALL, policy, audience)),
            )),
            Part::Latency => groups.push(Group::new(
                [Line, Floor, Perfring].map(|who| case(who, SMALL, Policy::Drop, Keen)),
            )),
            Part::Many => {} // its samples are of another kind
        }
    }
    groups
}
