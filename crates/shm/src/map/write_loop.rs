//! Publishing many records in one loop of the exclusive producer.
//!
//! What changes with every record is in a value of its own, which a compiler can keep in registers:
//! nothing else sees it, and the window gets it back wherever it is needed.

use crate::map::reservation::Reservation;
use crate::map::write_window::{End, WriteWindow};
use perfring_abi::RecordType;
use perfring_ring::{Changed, Hot, Reserved, Wake};

/// Publishes a record of `len` bytes for each item, which `fill` writes in place, `batch` of them
/// at a time. Space that needs more than a comparison comes from `reserve`; where that returns an
/// error, the item gets no record. Returns the number of published records.
///
/// If it panics, records that were held back are lost, and the window finds its position in the
/// ring again.
///
/// # Panics
/// If `reserve` returns a reservation of another window.
#[inline(always)]
pub fn publish_each<I: IntoIterator, E>(
    window: &mut WriteWindow,
    kind: RecordType,
    len: usize,
    batch: u32,
    items: I,
    mut fill: impl FnMut(I::Item, &mut [u8]),
    mut reserve: impl FnMut(&mut WriteWindow) -> Result<Reservation<'_>, E>,
) -> u64 {
    let mut hot = window.writer.lend();
    let mut lent = Lent { lost: true, window };
    let (mut held, mut published) = (0, 0);
    for item in items {
        let window = &mut *lent.window;
        let WriteWindow { children, map, writer, .. } = window;
        let ring = map.ring();
        let fits = hot.fits(len) || writer.evict_for(ring, &hot, len);
        if fits && !children.forked() {
            let reserved = hot.reserve(ring, kind, len);
            // SAFETY: this mapping's writer just made the reservation.
            unsafe { map.zero_last_word(&reserved) };
            let mut bytes = map.open_bytes(&reserved);
            // SAFETY: it has not ended, and the window is borrowed for as long as the slice lives: so it
            // is the only open one of this mapping.
            fill(item, unsafe { bytes.as_mut() });
            hot.commit(reserved);
        } else {
            let Changed { pos, records, head } = hot.changed();
            let (back, reserved) = reserve_in_loop(window, pos, records, head, &mut reserve);
            hot = back;
            let Ok(reserved) = reserved else { continue };
            let mut bytes = window.map.open_bytes(&reserved);
            // SAFETY: as above.
            fill(item, unsafe { bytes.as_mut() });
            // SAFETY: as above, and the slice is gone.
            let reserved = unsafe { window.map.settle(reserved, len) };
            if reserved.range().is_none() {
                hot.commit(reserved);
            } else {
                hot = end_in_loop(window, reserved);
            }
        }
        published += 1;
        held += 1;
        if held >= batch {
            held = 0;
            let WriteWindow { map, writer, .. } = &mut *lent.window;
            if writer.publish_lent(map.ring(), &mut hot) {
                let Changed { pos, records, head } = hot.changed();
                hot = wake_in_loop(lent.window, pos, records, head);
            }
        }
    }
    lent.lost = false;
    lent.window.writer.take_back(hot.changed());
    if held > 0 {
        lent.window.publish(Wake::Auto);
    }
    published
}

// One by one, so that they stay in registers: a reference to the whole would keep it in memory.
#[cold]
#[inline(never)]
fn reserve_in_loop<E>(
    window: &mut WriteWindow,
    pos: u64,
    records: u64,
    head: u64,
    reserve: impl FnOnce(&mut WriteWindow) -> Result<Reservation<'_>, E>,
) -> (Hot, Result<Reserved, E>) {
    window.writer.take_back(Changed { pos, records, head });
    let of: *const WriteWindow = window;
    let reserved = reserve(window).map(|reservation| reservation.into_reserved(of));
    (window.writer.lend(), reserved)
}

/// A payload in the AUX area is published by itself.
#[cold]
#[inline(never)]
fn end_in_loop(window: &mut WriteWindow, reserved: Reserved) -> Hot {
    window.end(reserved, reserved.len(), End::Publish(Wake::Auto));
    window.writer.lend()
}

/// A consumer may be asleep.
#[cold]
#[inline(never)]
fn wake_in_loop(window: &mut WriteWindow, pos: u64, records: u64, head: u64) -> Hot {
    window.writer.take_back(Changed { pos, records, head });
    window.publish(Wake::Auto);
    window.writer.lend()
}

/// If a loop panics, its state is lost with its registers.
struct Lent<'a> {
    window: &'a mut WriteWindow,
    lost: bool,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.lost {
            self.window.writer.find_again(self.window.map.ring());
        }
    }
}
