//! Where a consumer keeps what it was told of refused records: in the ring, with its position.

use crate::counters::Refused;
use crate::seq_latch::{self, SeqLatchWriter};
use perfring_abi::{CONSUMER_TOLD, SeqLatch, consumer_told as t};

/// What the ring has of what a consumer was told.
#[derive(Debug, Default)]
pub(crate) struct ToldLatch {
    /// What the ring has.
    pub(crate) saved: Refused,
    /// The hash of the consumer's name, 0 without one.
    name: u64,
    latch: SeqLatchWriter,
}

impl ToldLatch {
    /// Continues what a consumer of this name, if it has one, has kept.
    pub(crate) fn of(page: &SeqLatch<CONSUMER_TOLD>, name: u64) -> Self {
        let whole = seq_latch::find(page);
        // A program that knows nothing of it leaves what the seat's last name was told.
        let kept = whole.as_ref().filter(|whole| whole.words[t::NAME] == name);
        let saved = kept.map_or(Refused::default(), |w| Refused::get(&w.words, t::REFUSED));
        ToldLatch { saved, name, latch: SeqLatchWriter::after(page, whole.as_ref()) }
    }

    /// Saves what the consumer was told, if that is not saved.
    pub(crate) fn save(&mut self, page: &SeqLatch<CONSUMER_TOLD>, told: Refused) {
        if self.saved != told {
            let mut words = [0; CONSUMER_TOLD];
            told.store_in(&mut words, t::REFUSED);
            words[t::NAME] = self.name;
            self.latch.write(page, &words);
            self.saved = told;
        }
    }
}
