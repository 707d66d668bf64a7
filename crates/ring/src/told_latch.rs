//! The refused records that a consumer has returned as losses: it keeps them in the ring, with its position.

use crate::counters::Refused;
use crate::seq_latch::{self, SeqLatchWriter};
use perfring_abi::{CONSUMER_TOLD, SeqLatch, consumer_told as t};

/// The place in the ring where a consumer saves the refused records that it has returned.
#[derive(Debug, Default)]
pub(crate) struct ToldLatch {
    /// The saved value in the ring.
    pub(crate) saved: Refused,
    /// The hash of the consumer's name, 0 without a name.
    name: u64,
    latch: SeqLatchWriter,
}

impl ToldLatch {
    /// Continues from the value that the last consumer with this name (0 without a name) has saved.
    pub(crate) fn of(page: &SeqLatch<CONSUMER_TOLD>, name: u64) -> Self {
        let whole = seq_latch::find(page);
        // A program that does not know these words leaves the value of the seat's last name.
        let kept = whole.as_ref().filter(|whole| whole.words[t::NAME] == name);
        let saved = kept.map_or(Refused::default(), |w| Refused::get(&w.words, t::REFUSED));
        ToldLatch { saved, name, latch: SeqLatchWriter::after(page, whole.as_ref()) }
    }

    /// Saves the refused records that the consumer has returned, if they differ from the saved value.
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
