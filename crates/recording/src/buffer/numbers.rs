//! The numbers of rings in a buffer.

use std::collections::HashMap;

/// The numbers of rings by their ids. A ring that only an earlier process read gets one that no
/// other has.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    all: HashMap<[u8; 16], u32>,
    /// How many were given here, from the greatest number downwards.
    given: u32,
}

impl Numbers {
    /// Sets the number of a ring that is read.
    pub(super) fn set(&mut self, uuid: [u8; 16], number: u32) {
        self.all.insert(uuid, number);
    }

    pub(super) fn of(&mut self, uuid: &[u8; 16]) -> u32 {
        let given = &mut self.given;
        *self.all.entry(*uuid).or_insert_with(|| {
            *given += 1;
            u32::MAX - *given
        })
    }
}
