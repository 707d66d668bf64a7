//! How a reader goes on over damage in a file of a buffer, and what that took.

use super::counts::{Count, Counts, RingCount};
use super::error::Missing;
use super::rings::Rings;
use perfring_events::{Loss, LossCause};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a reader of a file counts, to know what damage took.
#[derive(Debug, Default)]
pub(super) struct Over {
    /// What was returned of rings, by their numbers in the file, or counted as lost.
    counted: HashMap<u32, Count>,
    /// What is to be returned before anything else, with the ring's number in the file: a loss, or, if
    /// `None`, that the ring has ended.
    owed: VecDeque<(u32, Option<Loss>)>,
    /// `events` once all of that is returned, and how many events of the file must be delivered before all
    /// of that is.
    after: u64,
    needs: u64,
    /// Rings whose origin is in a block that could not be read, and what they have up to there.
    unclaimed: BTreeMap<u32, RingCount>,
    /// How many events of the file are returned, or lost with the loss returned.
    pub(super) events: u64,
    /// How many must be delivered before the last one that was returned is.
    pub(super) through: u64,
    /// What is damaged.
    pub(super) damage: Option<String>,
    /// Whether that is new.
    pub(super) is_news: bool,
    /// Whether it took more than is known.
    pub(super) is_unknown: bool,
}

impl Over {
    /// Returns what is counted of a ring.
    pub(super) fn of(&mut self, id: u32) -> &mut Count {
        self.counted.entry(id).or_default()
    }

    /// Notes that an event of the file is returned.
    pub(super) fn returned(&mut self) {
        self.events += 1;
        self.through = self.events;
    }

    /// Takes what is owed next.
    pub(super) fn take_owed(&mut self) -> Option<(u32, Option<Loss>)> {
        let owed = self.owed.pop_front()?;
        self.through = self.needs;
        if self.owed.is_empty() {
            self.events = self.after;
        }
        Some(owed)
    }

    /// Goes over a block that cannot be read: with it, the file has this.
    pub(super) fn skip(&mut self, counts: &Counts, rings: &mut Rings) {
        self.compare(counts, rings);
        (self.after, self.needs) = (counts.events, counts.events);
        if self.owed.is_empty() {
            self.events = self.after;
        }
    }

    /// Compares what was returned with what the file has up to here, at the end of a block.
    pub(super) fn check(&mut self, counts: &Counts, rings: &mut Rings) {
        self.compare(counts, rings);
        self.owe_late();
    }

    /// What is owed was found late: it counts as delivered once the next event of the file is.
    fn owe_late(&mut self) {
        (self.after, self.needs) = (self.events, self.events + 1);
    }

    fn compare(&mut self, counts: &Counts, rings: &mut Rings) {
        for ring in &counts.rings {
            if rings.get(ring.id).is_some() {
                rings.expect_types(ring.id, ring.types);
                self.owe(ring);
            } else if ring.count != *self.of(ring.id) {
                self.unclaimed.insert(ring.id, *ring);
            }
        }
    }

    fn owe(&mut self, ring: &RingCount) {
        let counted = self.of(ring.id);
        let records = ring.count.records.saturating_sub(counted.records);
        let bytes = ring.count.bytes.saturating_sub(counted.bytes);
        *counted = ring.count;
        if records > 0 {
            let (pos, cause) = (ring.count.end, LossCause::Damaged);
            let loss = Loss::new(pos, records, bytes, cause);
            self.owed.push_back((ring.id, Some(loss)));
        }
        if ring.has_ended {
            self.owed.push_back((ring.id, None));
        }
    }

    /// A ring has an origin now.
    pub(super) fn claim(&mut self, id: u32) {
        if let Some(ring) = self.unclaimed.remove(&id) {
            self.owe(&ring);
            self.owe_late();
        }
    }

    /// The file is over, and these rings have no origin. Returns whether there are any.
    pub(super) fn claim_all(&mut self, rings: &mut Rings) -> bool {
        for (id, ring) in std::mem::take(&mut self.unclaimed) {
            rings.invent(id, ring.uuid);
            self.owe(&ring);
        }
        self.owe_late();
        !self.owed.is_empty()
    }

    /// Nothing that follows can be read or counted: any ring may have more, and if there is only one,
    /// these are its.
    pub(super) fn give_up(&mut self, rings: &mut Rings, missing: Missing) {
        self.claim_all(rings);
        let all = rings.all();
        let (records, cause) = match missing {
            Missing::Exactly(0) => return,
            Missing::Exactly(records) if all.len() == 1 => (records, LossCause::Damaged),
            Missing::AtLeast(records) if all.len() == 1 => (records, LossCause::UnknownDamage),
            _ => (0, LossCause::UnknownDamage),
        };
        self.is_unknown = cause == LossCause::UnknownDamage;
        for id in all {
            let pos = self.of(id).end;
            let loss = Loss::new(pos, records, 0, cause);
            self.owed.push_back((id, Some(loss)));
        }
        self.owe_late();
    }
}
