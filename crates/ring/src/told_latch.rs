//! Where a consumer keeps what it was told of refused records: in the ring, with its position.

use crate::counters::Refused;
use crate::seq_latch::{self, SeqLatchWriter};
use perfring_abi::{CONSUMER_TOLD, SeqLatch, consumer_told as t};

/// What the ring has of what a consumer was told.
#[derive(Debug, Default)]
pub(crate) struct ToldLatch {
    /// What the ring has.
    pub(crate) saved: Refused,
    latch: SeqLatchWriter,
}

impl ToldLatch {
    pub(crate) fn of(page: &SeqLatch<CONSUMER_TOLD>) -> Self {
        let whole = seq_latch::find(page);
        let saved =
            whole.as_ref().map_or(Refused::default(), |w| Refused::get(&w.words, t::REFUSED));
        ToldLatch { saved, latch: SeqLatchWriter::after(page, whole.as_ref()) }
    }

    /// Saves what the consumer was told, if that is not saved.
    pub(crate) fn save(&mut self, page: &SeqLatch<CONSUMER_TOLD>, told: Refused) {
        if self.saved != told {
            let mut words = [0; CONSUMER_TOLD];
            told.put(&mut words, t::REFUSED);
            self.latch.write(page, &words);
            self.saved = told;
        }
    }
}
