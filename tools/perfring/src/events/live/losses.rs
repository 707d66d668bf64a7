//! The losses of followed rings that no stream reports, and the positions of the rings' readers.

use super::{Live, Ring};
use crate::events::untold::{sum, untold};
use perfring_consumer::advanced::Saved;
use perfring_consumer::stat::Count;
use perfring_consumer::{Item, Lost};
use perfring_export::{Event, Origin};
use perfring_set::SourceId;

impl Live {
    /// Returns how many losses the rings count that were not returned: a marker that reports them is not counted.
    pub(crate) fn untold(&self) -> u64 {
        let of = |(id, ring): (&SourceId, &Ring)| {
            let told = self.merge.resume_point(*id).unwrap_or_default().saved().told;
            sum(untold(&ring.location, &ring.uuid, told))
        };
        let rings = self.rings.iter().filter(|(_, ring)| !ring.beside);
        rings.map(of).fold(0, u64::saturating_add)
    }

    /// Finds the losses that the rings count, that no marker reports, and that were not returned: [`Live::next_untold`]
    /// returns them.
    pub(crate) fn find_untold(&mut self) {
        for (id, ring) in self.rings.iter().filter(|(_, ring)| !ring.beside) {
            let after = self.merge.resume_point(*id).unwrap_or_default().saved();
            let untold = untold(&ring.location, &ring.uuid, after.told);
            self.untold.extend(untold.map(|(cause, Count { records, bytes })| {
                (*id, Lost { pos: after.pos, records, bytes, cause, at_end: true }, after)
            }));
        }
    }

    /// Returns the next of these losses.
    pub(crate) fn next_untold(&mut self) -> Option<Event<'_>> {
        let id = self.take_untold()?;
        self.seq += 1;
        Some(self.held.event(self.seq - 1, self.rings.get(&id)?.shapes.origin()))
    }

    /// Puts the next of these losses into `held`. Returns its ring.
    pub(super) fn take_untold(&mut self) -> Option<SourceId> {
        let (id, lost, after) = self.untold.pop_front()?;
        let ring = self.rings.get_mut(&id)?; // always present
        self.held.item(&Item::Lost(lost), 0, &mut ring.last);
        self.held.set_after(|| after);
        Some(id)
    }

    /// Returns the rings with a file, and the position up to which each was returned.
    pub(crate) fn read_to(&self) -> impl Iterator<Item = (&Origin, Saved)> {
        let rings =
            self.rings.iter().filter(|(id, ring)| !ring.beside && !self.kernel.contains(id));
        rings.filter_map(|(id, ring)| {
            Some((ring.shapes.origin(), self.merge.resume_point(*id)?.saved()))
        })
    }
}
