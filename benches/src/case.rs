//! One kind of sample of one contestant: its settings, and what each of its processes does.

use crate::contestant::{Location, Setup};
use crate::cores::{Placed, Places};
use crate::drive::Limit;
use crate::part::{Audience, Duty, Part};
use crate::payload::SMALL;
use crate::player::{Entry, LINE};
use crate::rows::Kind;
use crate::scale::Scale;
use crate::waits::WaitStrategy;
use crate::workload::Workload;
use std::path::Path;

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
    pub entry: Entry,
}

impl Case {
    /// Returns the setup for it.
    pub fn setup(&self, scale: &Scale) -> Setup {
        let Kind { workload, payload, senders, receivers, lossy, .. } = self.kind;
        Setup {
            data_size: scale.data_size,
            payload,
            overwrite: lossy,
            senders,
            receivers,
            pace: if workload == Workload::Latency { WaitStrategy::Latency } else { scale.pace },
            sleeping: workload == Workload::Wakeup,
        }
    }

    fn limit(&self, scale: &Scale) -> Limit {
        let long = if self.kind.payload > SMALL { 8 } else { 1 };
        let records = (scale.max_records / long / self.kind.senders as u64).max(1);
        Limit { seconds: scale.seconds_per_sample, records }
    }

    /// Returns where its ends run.
    pub fn placed(&self, places: Option<&Places>) -> Placed {
        let Some(places) = places else { return Placed::default() };
        let senders = (0..self.kind.senders).map(|index| places.sender(index)).collect();
        let alone = self.entry.is_memcpy();
        Placed { receivers: if alone { Vec::new() } else { vec![places.receivers()] }, senders }
    }

    /// Describes how a receiver waits here, where `own` is its usual strategy.
    pub fn waits(&self, own: &str, placed: &Placed) -> String {
        match (self.kind.workload, self.kind.audience) {
            (Workload::Full, _) => "does not poll before the end".to_owned(),
            (_, Audience::None) => "does not poll before the senders have ended".to_owned(),
            (_, Audience::Slow) => "polls once a millisecond, whatever is there".to_owned(),
            _ if self.yields(placed) => format!("{own}; yields its core after each empty poll"),
            _ => own.to_owned(),
        }
    }

    fn yields(&self, placed: &Placed) -> bool {
        self.kind.receivers > 1 || placed.senders.is_empty()
    }

    /// Returns what each process does, with so many channels where their memory is measured: first
    /// the receivers', then the senders'.
    pub fn processes(&self, scale: &Scale, placed: &Placed, rings: u64, dir: &Path) -> Vec<Part> {
        let (limit, setup) = (self.limit(scale), self.setup(scale));
        let location = self.entry.player().map(|player| (player.about)(&setup).location);
        let workload = self.kind.workload;
        let stream = matches!(workload, Workload::Throughput | Workload::Overwrite);
        let part = |duty, core: Option<&usize>, index| Part {
            duty,
            setup: setup.clone(),
            path: dir.join("ring"),
            index,
            core: core.copied(),
            // Where records may be lost each has its own number; the kernel's programs make theirs.
            pool: stream && !setup.overwrite && location != Some(Location::Kernel),
        };
        let (here, there) = (placed.receivers.first(), placed.senders.first());
        let yields = self.yields(placed);
        let receive =
            |index| part(Duty::Receive { audience: self.kind.audience, yields }, here, index);
        // It stays on its core: less is enough.
        let short = Limit { seconds: limit.seconds / 4.0, ..limit };
        let two = |one, other| vec![part(one, here, 0), part(other, there, 0)];
        match workload {
            _ if self.entry.is_memcpy() => vec![part(Duty::Copy(short), there, 0)],
            _ if self.entry.name == LINE.name => {
                let trips = scale.round_trips;
                two(Duty::AskLine(trips), Duty::AnswerLine(trips))
            }
            Workload::Latency | Workload::Wakeup => {
                let back = dir.join("back");
                let trips = scale.round_trips;
                let (records, warm_up) = if setup.sleeping {
                    (trips.div_ceil(SLEEPING_TRIPS_PART), WARM_UP_SLEEPING)
                } else {
                    (trips, WARM_UP.min(trips))
                };
                let limit = Limit { records, ..limit };
                let ask = Duty::Ask { limit, warm_up, back: back.clone() };
                two(ask, Duty::Answer { back })
            }
            Workload::Full => vec![receive(0), part(Duty::Offer(short), there, 0)],
            Workload::Cold => {
                two(Duty::ColdReceive(scale.cold_starts), Duty::ColdSend(scale.cold_starts))
            }
            Workload::Memory => {
                // Twice around the ring, so that every page has been used.
                let records = 2 * scale.data_size / SMALL as u64;
                two(Duty::HoldReceive { rings, records }, Duty::HoldSend { rings, records })
            }
            Workload::Throughput | Workload::Producers | Workload::Overwrite | Workload::Fanout => {
                let receivers = (0..self.kind.receivers).map(receive);
                let senders = (0..self.kind.senders)
                    .map(|index| part(Duty::Send(limit), placed.senders.get(index), index));
                receivers.chain(senders).collect()
            }
        }
    }
}
