//! The samples of one producer and one reader that `perfring bench` takes.

use crate::case::Case;
use crate::contest::Floor;
use crate::contest::calls::{Calls, Publish, PublishPod, PublishTimeout, ReserveTimeout};
use crate::contest::perfring::{InPlace, Ring};
use crate::contestant::Role;
use crate::cores::Places;
use crate::options::{Options, Part};
use crate::part::Audience;
use crate::payload::SMALL;
use crate::player::{Entry, LINE, MEMCPY};
use crate::rows::Kind;
use crate::turns::{Turn, complete};
use crate::workload::Workload;

/// The bare loop.
pub(crate) const FLOOR: Entry = Entry::of::<Floor>("floor", Role::Limit);
/// The subject: each record is written in the ring, by `reserve_timeout` and `commit`.
pub(crate) const PERFRING: Entry =
    Entry::of::<Ring<InPlace<false>>>("perfring in place", Role::Ours);
/// The same, evicting by halves.
pub(crate) const HALF: Entry = Entry::of::<Ring<InPlace<true>>>("perfring half", Role::Ours);

/// All contestants.
pub(crate) const ENTRIES: [Entry; 9] = [
    MEMCPY,
    LINE,
    FLOOR,
    Entry::of::<Ring<Calls<Publish>>>("perfring publish", Role::Ours),
    Entry::of::<Ring<Calls<PublishTimeout>>>("perfring publish_timeout", Role::Ours),
    Entry::of::<Ring<Calls<ReserveTimeout>>>("perfring reserve_timeout", Role::Ours),
    Entry::of::<Ring<Calls<PublishPod>>>("perfring publish_pod", Role::Ours),
    PERFRING,
    HALF,
];

/// Cases that are compared with each other and take turns.
pub(crate) struct Group {
    pub(crate) part: Part,
    pub(crate) turns: Vec<Turn>,
}

impl Group {
    /// Returns whether there are enough samples of every case at some distance.
    pub(crate) fn is_complete(&self, repetitions: usize) -> bool {
        complete(self.turns.iter(), repetitions)
    }
}

/// Returns all groups.
pub(crate) fn groups(options: &Options, places: Option<&Places>) -> Vec<Group> {
    let mut groups = Vec::new();
    for &part in &options.parts {
        let mut add = |cases: Vec<(Entry, Kind)>| {
            let turn = |(entry, kind)| Turn::new(Case { kind, entry }, places);
            groups.push(Group { part, turns: cases.into_iter().map(turn).collect() });
        };
        match part {
            Part::Throughput => {
                for &payload in &options.payloads {
                    let kind = Kind::of(Workload::Throughput, payload);
                    let all = ENTRIES.iter().filter(|e| ![LINE.name, HALF.name].contains(&e.name));
                    add(all.map(|entry| (*entry, kind)).collect());
                }
            }
            Part::Overwrite => {
                let drop = Kind::of(Workload::Overwrite, SMALL);
                let over = Kind { lossy: true, ..drop };
                let alone = Kind { audience: Audience::None, ..over };
                add(vec![
                    (FLOOR, drop),
                    (FLOOR, alone),
                    (PERFRING, drop),
                    (PERFRING, alone),
                    (HALF, alone),
                    (PERFRING, over),
                ]);
            }
            Part::Latency => {
                let kind = Kind::of(Workload::Latency, SMALL);
                add([LINE, FLOOR, PERFRING].map(|entry| (entry, kind)).to_vec());
            }
            Part::Many => {} // its samples are of another kind
        }
    }
    groups
}
