//! The samples that are taken, and which of them take turns.

use crate::contestant::{Can, Location, Role, Setup};
use crate::entrants::{Entry, Kind as Entrant};
use crate::options::Options;
use crate::part::{Audience, Duty, Limit, Part};
use crate::places::{Placed, Places};
use crate::rows::{Absent, Kind};
use crate::workload::{SMALL, Workload};
use perfring_bench::WaitStrategy;
use std::path::Path;

/// Channels that are measured together, where so many can exist at once.
pub const RINGS: u64 = 8;
/// Trips before those that count.
const WARM_UP: u64 = 1000;
const WARM_UP_SLEEPING: u64 = 20;
/// A sleeper is far slower than a busy reader.
const SLEEPING_TRIPS_PART: u64 = 20;

/// A kind of sample of one contestant.
#[derive(Clone, Copy)]
pub struct Case {
    /// The comparison.
    pub kind: Kind,
    /// The contestant.
    pub entry: &'static Entry,
    /// What it can do.
    pub can: Option<Can>,
}

/// All kinds, in the order of the report.
pub fn kinds(options: &Options) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for &workload in &options.workloads {
        let kind = Kind {
            workload,
            payload: SMALL,
            senders: 1,
            receivers: 1,
            audience: Audience::Keen,
            lossy: false,
        };
        match workload {
            Workload::Throughput => {
                kinds.extend(options.payloads.iter().map(|&payload| Kind { payload, ..kind }));
            }
            Workload::Producers => {
                let all = || options.senders.iter().map(|&senders| Kind { senders, ..kind });
                kinds.extend(all());
                // One reader limits the rate: only without one do senders show what they can do.
                let alone = |kind| Kind { audience: Audience::None, lossy: true, ..kind };
                kinds.extend(all().map(alone));
            }
            Workload::Overwrite => kinds.extend(
                [Audience::None, Audience::Slow, Audience::Keen].map(|audience| Kind {
                    audience,
                    lossy: true,
                    ..kind
                }),
            ),
            // Senders that wait for their readers and senders that do not do different work.
            Workload::Fanout => {
                for payload in payloads_of_fan_out(options) {
                    let receivers = options.receivers.iter();
                    let all = receivers.map(|&receivers| Kind { receivers, payload, ..kind });
                    kinds.extend(all.clone());
                    kinds.extend(all.map(|kind| Kind { lossy: true, ..kind }));
                }
            }
            Workload::Full => kinds.push(Kind { audience: Audience::None, ..kind }),
            Workload::Latency | Workload::Wakeup | Workload::Cold | Workload::Memory => {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// Returns the payloads of [`Workload::Fanout`]: those of its two that are asked for, or else the small one.
fn payloads_of_fan_out(options: &Options) -> Vec<usize> {
    let asked = |payload: &usize| options.payloads.contains(payload);
    let payloads: Vec<usize> = [SMALL, 1024].into_iter().filter(asked).collect();
    if payloads.is_empty() { vec![SMALL] } else { payloads }
}

/// Returns whether this contestant can do that, and if not, why; `None` needs no explanation.
pub fn fits(kind: &Kind, entry: &Entry, can: Option<&Can>) -> Result<(), Option<String>> {
    let reported = |result: Result<(), &'static str>| result.map_err(|why| Some(why.to_owned()));
    let Some(can) = can else {
        // memcpy and the line each serve one purpose.
        let its_own = match entry.kind {
            Entrant::Memcpy => Workload::Throughput,
            _ => Workload::Latency,
        };
        return if kind.workload == its_own { Ok(()) } else { Err(None) };
    };
    if kind.payload > can.payload {
        return Err(Some(format!("records of at most {} bytes", can.payload)));
    }
    if kind.workload != Workload::Latency {
        reported(entry.cannot().but_latency)?;
    }
    match kind.workload {
        Workload::Throughput | Workload::Latency => reported(can.lossless),
        Workload::Wakeup => reported(can.lossless.and(can.sleeping)),
        Workload::Producers if kind.lossy => reported(can.overwrite.and(can.senders)),
        Workload::Producers => reported(can.lossless.and(can.senders)),
        Workload::Overwrite if entry.role == Role::Limit && kind.audience != Audience::None => {
            Err(Some("a bare loop that overwrites has no reader".to_owned()))
        }
        Workload::Overwrite if kind.audience != Audience::None => {
            reported(can.overwrite.and(entry.cannot().follow))
        }
        Workload::Overwrite => reported(can.overwrite.and(entry.cannot().overwrite_alone)),
        Workload::Fanout if kind.lossy => reported(can.receivers.and(can.overwrite)),
        Workload::Fanout => {
            reported(can.receivers.and(can.lossless).and(entry.cannot().wait_for_many))
        }
        Workload::Full => reported(can.lossless.and(can.refuses)),
        Workload::Cold | Workload::Memory => reported(can.lossless),
    }
}

/// Returns an absence of this kind.
pub fn absent(kind: &Kind, entry: &Entry, reason: String, failed: bool) -> Absent {
    let part = match (kind.workload, kind.audience, kind.lossy) {
        (Workload::Producers, _, false) => Some("one reader"),
        (Workload::Producers, ..) => Some("no reader"),
        (Workload::Overwrite, Audience::None, _) => Some("no reader"),
        (Workload::Overwrite, ..) => Some("slow and keen reader"),
        (Workload::Fanout, _, false) => Some("lossless"),
        (Workload::Fanout, ..) => Some("lossy"),
        _ => None,
    };
    let (name, part) = (entry.name.to_owned(), part.map(str::to_owned));
    Absent { name, workload: Some(kind.workload), part, reason, failed }
}

impl Case {
    /// Returns the setup for it.
    pub fn setup(&self, options: &Options) -> Setup {
        let Kind { workload, payload, senders, receivers, lossy, .. } = self.kind;
        Setup {
            data_size: options.data_size,
            payload,
            overwrite: lossy,
            senders,
            receivers,
            pace: if workload == Workload::Latency { WaitStrategy::Latency } else { options.pace },
            sleeping: workload == Workload::Wakeup,
        }
    }

    fn limit(&self, options: &Options) -> Limit {
        let long = if self.kind.payload > SMALL { 8 } else { 1 };
        let records = (options.max_records / long / self.kind.senders as u64).max(1);
        Limit { seconds: options.seconds_per_sample, records }
    }

    /// Returns where its ends run.
    pub fn placed(&self, places: Option<&Places>) -> Placed {
        let Some(places) = places else { return Placed::default() };
        let senders = (0..self.kind.senders).map(|index| places.sender(index)).collect();
        let receivers = match self.entry.kind {
            Entrant::Memcpy => Vec::new(),
            _ => vec![places.receivers()],
        };
        Placed { receivers, senders }
    }

    /// Describes how a receiver waits here, where `own` is its usual strategy.
    pub fn waits(&self, own: &str, placed: &Placed) -> String {
        match (self.kind.workload, self.kind.audience) {
            (Workload::Full, _) => "does not poll before the end".to_owned(),
            (_, Audience::None) => "does not poll before the senders have ended".to_owned(),
            (_, Audience::Slow) => "polls once a millisecond, whatever is there".to_owned(),
            _ if self.yields(placed) => {
                format!("{own}; yields its core after each empty poll")
            }
            _ => own.to_owned(),
        }
    }

    fn yields(&self, placed: &Placed) -> bool {
        self.kind.receivers > 1 || placed.senders.is_empty()
    }

    /// Returns what each process does: first the receivers', then the senders'.
    pub fn processes(
        &self,
        options: &Options,
        placed: &Placed,
        location: Location,
        rings: u64,
        dir: &Path,
    ) -> Vec<Vec<Part>> {
        let (limit, setup) = (self.limit(options), self.setup(options));
        let workload = self.kind.workload;
        let part = |duty, core: Option<&usize>, index| Part {
            duty,
            setup: setup.clone(),
            path: dir.join("ring"),
            index,
            core: core.copied(),
            pool: workload == Workload::Throughput && location != Location::Kernel,
        };
        let (here, there) = (placed.receivers.first(), placed.senders.first());
        let yields = self.yields(placed);
        let receive =
            |index| part(Duty::Receive { audience: self.kind.audience, yields }, here, index);
        let parts: Vec<Part> = match (self.entry.kind, workload) {
            (Entrant::Memcpy, _) => {
                // It stays on its core: less is enough.
                let limit = Limit { seconds: limit.seconds / 4.0, ..limit };
                vec![part(Duty::Copy(limit), there, 0)]
            }
            (Entrant::Line, _) => {
                let trips = options.round_trips;
                vec![part(Duty::AskLine(trips), here, 0), part(Duty::AnswerLine(trips), there, 0)]
            }
            (_, Workload::Latency | Workload::Wakeup) => {
                let back = dir.join("back");
                let (records, warm_up) = if setup.sleeping {
                    (options.round_trips.div_ceil(SLEEPING_TRIPS_PART), WARM_UP_SLEEPING)
                } else {
                    (options.round_trips, WARM_UP)
                };
                let limit = Limit { records, ..limit };
                let ask = Duty::Ask { limit, warm_up, back: back.clone() };
                vec![part(ask, here, 0), part(Duty::Answer { back }, there, 0)]
            }
            (_, Workload::Full) => {
                let limit = Limit { seconds: limit.seconds / 4.0, ..limit };
                vec![receive(0), part(Duty::Offer(limit), there, 0)]
            }
            (_, Workload::Cold) => {
                let times = options.cold_starts;
                vec![part(Duty::ColdReceive(times), here, 0), part(Duty::ColdSend(times), there, 0)]
            }
            (_, Workload::Memory) => {
                // Twice around the ring, so that every page has been used.
                let records = 2 * options.data_size / SMALL as u64;
                vec![
                    part(Duty::HoldReceive { rings, records }, here, 0),
                    part(Duty::HoldSend { rings, records }, there, 0),
                ]
            }
            _ => {
                let receivers = (0..self.kind.receivers).map(receive);
                let senders = (0..self.kind.senders)
                    .map(|index| part(Duty::Send(limit), placed.senders.get(index), index));
                receivers.chain(senders).collect()
            }
        };
        match location {
            Location::Threads => vec![parts],
            Location::Processes | Location::Kernel => {
                parts.into_iter().map(|part| vec![part]).collect()
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::entrants::by_name;
    use std::collections::BTreeSet;

    fn case(name: &str, workload: Workload, wanted: impl Fn(&Kind) -> bool) -> Case {
        let entry = by_name(name).unwrap();
        let Entrant::Ends(player) = entry.kind else { unreachable!("{name} has no ends") };
        let options = Options { senders: vec![1, 4], ..Options::default() };
        let kinds = kinds(&options).into_iter().filter(|kind| kind.workload == workload);
        let kind = kinds.into_iter().find(|kind| wanted(kind)).unwrap();
        Case { kind, entry, can: Some(player.can()) }
    }

    #[test]
    fn senders_are_on_processors_of_their_own_where_there_are_enough() {
        let case = case("perfring shared", Workload::Producers, |kind| kind.senders == 4);
        let cores = |processors: usize| -> Vec<usize> {
            let all: Vec<usize> = (0..processors).collect();
            let places = Places::among(&all, |cpu| BTreeSet::from([cpu])).unwrap();
            let placed = case.placed(Some(&places));
            let location = Location::Processes;
            let parts = case.processes(&Options::default(), &placed, location, 1, Path::new("/"));
            parts.iter().flatten().map(|part| part.core.unwrap()).collect()
        };
        // The receiver first.
        assert_eq!(cores(16), [0, 1, 2, 3, 4]);
        assert_eq!(cores(4), [0, 1, 2, 3, 1]);
        assert_eq!(cores(2), [0, 1, 1, 1, 1]);
    }

    #[test]
    fn who_cannot_be_followed_is_absent_there_only() {
        let fits = |name: &str, workload, wanted: &dyn Fn(&Kind) -> bool| {
            let case = case(name, workload, wanted);
            fits(&case.kind, case.entry, case.can.as_ref())
        };
        for name in ["lttng", "perf overwrite"] {
            for audience in [Audience::Slow, Audience::Keen] {
                let why = fits(name, Workload::Overwrite, &|kind| kind.audience == audience);
                assert!(why.unwrap_err().unwrap().contains("snapshot"), "{name}");
            }
            let alone = fits(name, Workload::Overwrite, &|kind| kind.audience == Audience::None);
            assert_eq!(alone, Ok(()), "{name}");
        }
        assert_eq!(fits("perfring named", Workload::Fanout, &|kind| !kind.lossy), Ok(()));
        assert!(fits("perfring named", Workload::Fanout, &|kind| kind.lossy).is_err());
        // Nothing waits for perfring's observers; a disruptor waits for all its readers.
        assert!(fits("perfring in place", Workload::Fanout, &|kind| !kind.lossy).is_err());
        assert_eq!(fits("perfring in place", Workload::Fanout, &|kind| kind.lossy), Ok(()));
        assert_eq!(fits("disruptor-mp", Workload::Fanout, &|kind| !kind.lossy), Ok(()));
        assert!(fits("disruptor-mp", Workload::Fanout, &|kind| kind.lossy).is_err());
    }

    #[test]
    fn what_a_reader_does_is_reported_of_each_kind() {
        let waits = |wanted: &dyn Fn(&Kind) -> bool, workload| {
            let placed = Placed { receivers: vec![0], senders: vec![1] };
            case("perfring in place", workload, wanted).waits("its own", &placed)
        };
        assert_eq!(waits(&|_| true, Workload::Throughput), "its own");
        let slow = waits(&|kind| kind.audience == Audience::Slow, Workload::Overwrite);
        assert!(slow.contains("once a millisecond"));
        assert!(waits(&|_| true, Workload::Full).contains("does not poll"));
        assert!(waits(&|kind| kind.receivers > 1, Workload::Fanout).contains("yields its core"));
    }
}
