//! Many records in a loop of the producer's own, which keeps its place in registers.

use crate::reserve_error::ReserveError;
use crate::sys::futex;
use crate::writer::MappedWriter;
use perfring_abi::RecordType;
use perfring_ring::{Changed, Hot, Reserved, Wake};
use std::time::Duration;

/// What [`MappedWriter::publish_each`] makes of each item.
#[derive(Clone, Copy, Debug)]
pub struct Each {
    /// The type of its record.
    pub kind: RecordType,
    /// The payload's length in bytes.
    pub len: usize,
    /// How many records are published at a time, by one store. In between readers see none of them,
    /// and the positions' cache line stays with the producer. Some may be published earlier: where the
    /// ring is full, a record is refused, or the producer's book is due, each 64 KiB or quarter of a
    /// ring. A consumer that sleeps is woken for each lot.
    pub batch: u32,
    /// How long each waits for space in a full drop ring before it is refused.
    pub timeout: Duration,
}

impl Each {
    /// Records of this type and length, each published at once and refused at once.
    #[must_use]
    pub const fn new(kind: RecordType, len: usize) -> Self {
        Each { kind, len, batch: 1, timeout: Duration::ZERO }
    }
}

impl MappedWriter {
    /// Publishes a record for each item, which `fill` writes in its place. Returns how many were
    /// published: the others were refused, and are counted as such.
    #[inline(always)]
    pub fn publish_each<I: IntoIterator>(
        &mut self,
        each: Each,
        items: I,
        mut fill: impl FnMut(I::Item, &mut [u8]),
    ) -> u64 {
        let Each { kind, len, batch, .. } = each;
        let mut hot = self.writer.lend();
        let mut lent = Lent { lost: true, owner: self };
        // Locals, and by value wherever they go: a compiler that sees nobody look at them keeps them
        // in registers.
        let (mut held, mut published) = (0, 0);
        for item in items {
            let owner = &mut *lent.owner;
            let ring = owner.map.ring();
            let fits = hot.fits(len) || owner.writer.evict_for(ring, &hot, len);
            if fits && !owner.children.forked() {
                let reserved = hot.reserve(ring, kind, len);
                // SAFETY: the writer is this mirror's and the reservation its only open one.
                unsafe { owner.map.zero_last_word(&reserved) };
                // SAFETY: only this writer made it, it has not ended, and the owner is borrowed for
                // as long as the slice lives, so it is the only open one of this mirror.
                fill(item, unsafe { owner.map.reserved(&reserved) });
                hot.commit(reserved);
            } else {
                let Changed { pos, records, head } = hot.changed();
                let (back, reserved) = reserve(owner, pos, records, head, &each);
                hot = back;
                let Ok(reserved) = reserved else { continue };
                // SAFETY: as above.
                fill(item, unsafe { owner.map.reserved(&reserved) });
                if reserved.range().is_none() {
                    hot.commit(reserved);
                } else {
                    hot = end_large(owner, reserved);
                }
            }
            published += 1;
            held += 1;
            if held >= batch {
                held = 0;
                if owner.writer.publish_lent(owner.map.ring(), &mut hot) {
                    let Changed { pos, records, head } = hot.changed();
                    hot = wake(owner, pos, records, head);
                }
            }
        }
        lent.lost = false;
        lent.owner.writer.take_back(hot.changed());
        if held > 0 {
            lent.owner.publish_head(Wake::Auto);
        }
        published
    }
}

/// The producer's own way, with everything in its hands.
#[cold]
#[inline(never)]
fn reserve(
    owner: &mut MappedWriter,
    pos: u64,
    records: u64,
    head: u64,
    each: &Each,
) -> (Hot, Result<Reserved, ReserveError>) {
    owner.writer.take_back(Changed { pos, records, head });
    let reserved = if each.timeout.is_zero() {
        owner.try_reserve_any(each.kind, each.len)
    } else {
        owner.reserve_within(each.kind, each.len, each.timeout)
    };
    (owner.writer.lend(), reserved)
}

/// A payload of the AUX area is published by itself: the slow way reserved it, and lent nothing since.
#[cold]
#[inline(never)]
fn end_large(owner: &mut MappedWriter, reserved: Reserved) -> Hot {
    let len = reserved.len();
    owner.commit_and_publish(reserved, len, Wake::Auto);
    owner.writer.lend()
}

/// Somebody may sleep.
#[cold]
#[inline(never)]
fn wake(owner: &mut MappedWriter, pos: u64, records: u64, head: u64) -> Hot {
    owner.writer.take_back(Changed { pos, records, head });
    if owner.writer.publish(owner.map.ring(), Wake::Auto) {
        futex::wake(owner.map.ring().wait_word());
    }
    owner.writer.lend()
}

/// If an item panics, what the loop had is lost with its registers: the producer finds its place in
/// the ring.
struct Lent<'a> {
    owner: &'a mut MappedWriter,
    lost: bool,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.lost {
            self.owner.writer.find_again(self.owner.map.ring());
        }
    }
}
