//! Publishing behind an open reservation: the ring goes on although nobody needs the space yet.

use crate::shared::owner::Owner;
use crate::shared::sweep::{note_stuck, sweep};
use crate::view::{Peers, Shared};

/// Records published behind the same open reservation before a producer asks whether its owner
/// still lives.
const BEHIND_MAX: u32 = if cfg!(loom) { 1 } else { 64 };

/// Where `data_head` stood at the last publish behind an open reservation, and how many in a row
/// found it there.
#[derive(Debug)]
pub(crate) struct Behind {
    head: u64,
    times: u32,
}

impl Behind {
    pub(crate) fn new() -> Self {
        Behind { head: u64::MAX, times: 0 }
    }

    /// Asks now and then whether the owner of the reservation that holds up the head is alive.
    #[cold]
    pub(crate) fn look<P: Peers>(&mut self, at: Shared<'_>, peers: &P, me: Owner, head: u64) {
        self.times = if self.head == head { self.times + 1 } else { 1 };
        self.head = head;
        if !self.times.is_multiple_of(BEHIND_MAX) {
            return;
        }
        let Some(owner) = at.held_up() else { return };
        if owner != me.index()
            && (owner as usize) < at.slots.len()
            && !peers.is_alive(owner)
            && me.lock(at, peers).is_ok()
        {
            // Again under the lock: its slot may have another holder by now, who has swept it.
            if !peers.is_alive(owner) {
                sweep(at, owner);
            }
            me.unlock(at);
        } else {
            note_stuck(at, peers, head);
        }
    }
}
