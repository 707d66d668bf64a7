//! The records that an observer has copied, on the common path.

use crate::counters::Count;
use crate::observer::copy::CopyReader;
use crate::record::{Frame, RecordAt, payload_of, split_body};
use perfring_abi::RecordWord;

impl CopyReader {
    /// The fast path of [`CopyReader::next_in`]: returns the next record if all of it is in the copy and its payload
    /// is not in the AUX area. In any other case returns `None`, and `next_in` handles it.
    #[inline(always)]
    pub fn next_copied(&mut self) -> Option<Frame> {
        let (pos, ready) = (self.cursor, self.upto - self.cursor);
        let at = ((pos - self.from) / 8) as usize;
        let word = RecordWord::from_raw(*self.copy.get(at).filter(|_| ready != 0)?);
        let len = payload_of(word, ready).filter(|_| word.is_plain())?;
        let record = RecordAt { pos, word, len };
        let body = self.copy.get(at + 1..at + (word.size() / 8) as usize)?;
        let (frame, _) = split_body(self.shape.lead, record, body)?;
        self.cursor += word.size();
        self.laps_in_a_row = 0;
        self.passed.add(word.size());
        Some(frame)
    }

    /// Calls `visit` with each record that [`CopyReader::next_copied`] would find, and its
    /// payload, until none is left. A record counts as read when `visit` returns. Returns the number of records.
    ///
    /// All changing state is kept in registers: if a visit panics, all of them are returned again.
    #[inline(always)]
    pub fn visit_copied(&mut self, mut visit: impl FnMut(&Frame, &[u64])) -> u64 {
        let (from, lead) = (self.from, self.shape.lead);
        let copy = self.copy.get(..((self.upto - from) / 8) as usize).unwrap_or_default();
        let mut at = ((self.cursor - from) / 8) as usize;
        // The check of the last header holds for an identical header, and most are identical. The initial value is
        // the header of no record: none has this size.
        let (mut like, mut words, mut len, mut records) = (RecordWord::from_raw(0), 0, 0, 0);
        while let Some(word) = copy.get(at) {
            let word = RecordWord::from_raw(*word);
            if word != like {
                let left = 8 * (copy.len() - at) as u64;
                let Some(body) = payload_of(word, left).filter(|_| word.is_plain()) else { break };
                (like, words, len) = (word, (word.size() / 8) as usize, body);
            }
            let Some(body) = copy.get(at + 1..at + words) else { break };
            let record = RecordAt { pos: from + 8 * at as u64, word, len };
            let Some((frame, payload)) = split_body(lead, record, body) else { break };
            visit(&frame, payload);
            (at, records) = (at + words, records + 1);
        }
        if records > 0 {
            let pos = from + 8 * at as u64;
            let passed = Count { records, bytes: pos - self.cursor };
            (self.passed, self.cursor) = (self.passed.plus(passed), pos);
            self.laps_in_a_row = 0;
        }
        records
    }

    /// Returns the payload of a record that [`CopyReader::next_copied`] has just returned.
    #[inline(always)]
    pub fn copied_payload(&self, frame: &Frame) -> &[u64] {
        let at = (frame.payload_pos() - self.from) / 8;
        let end = (frame.pos + frame.size - self.from) / 8;
        self.copy.get(at as usize..end as usize).unwrap_or_default()
    }
}
