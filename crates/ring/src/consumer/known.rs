//! The records that are known to be published, on the common path.

use crate::consumer::borrow::Reader;
use crate::record::{Frame, RecordAt, payload_of, split};
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Lead, RecordWord};

impl Reader {
    /// The fast path of [`Reader::next`], for a ring without timestamps and AUX area: returns a
    /// known record if nothing is to be released. In any other case returns `None`, and `next`
    /// handles it.
    #[inline(always)]
    pub fn next_record(&mut self, ring: Ring<'_>) -> Option<Frame> {
        self.next_known(ring, self.plain_stop, RecordWord::is_data, Lead::None)
    }

    /// Like [`Reader::next_record`], for any ring.
    #[inline]
    pub fn next_any(&mut self, ring: Ring<'_>) -> Option<Frame> {
        self.next_known(ring, self.stop, RecordWord::is_plain, self.lead)
    }

    /// Returns whether no record has a timestamp or a payload in the AUX area: then
    /// [`Reader::next_record`] and `visit_known::<true>` are the fast path.
    #[must_use]
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.lead == Lead::None && !self.area.exists()
    }

    /// Like [`Reader::next_record`], for a ring with or without timestamps. Also returns how many
    /// records in a row, this one included and at most `max`, have an identical header: one type
    /// and one length.
    #[inline]
    pub fn next_run(&mut self, ring: Ring<'_>, max: u64) -> Option<(Frame, u64)> {
        let frame = if self.is_plain() { self.next_record(ring) } else { self.next_any(ring) }?;
        // Relaxed, as in `next_known`; what was checked for one header holds for an identical one.
        let same = ring.word(frame.pos).load(Ordering::Relaxed);
        let (mut count, mut pos, head) = (1, self.cursor(), self.progress.head);
        while count < max && pos < self.stop && head - pos >= frame.size {
            if ring.word(pos).load(Ordering::Relaxed) != same {
                break;
            }
            (count, pos) = (count + 1, pos + frame.size);
        }
        self.progress.pass_records(pos, count - 1);
        Some((frame, count))
    }

    #[inline(always)]
    fn next_known(
        &mut self,
        ring: Ring<'_>,
        stop: u64,
        is_record: impl FnOnce(RecordWord) -> bool,
        lead: Lead,
    ) -> Option<Frame> {
        let pos = self.cursor();
        if pos >= stop {
            return None;
        }
        // Relaxed: B ordered it.
        let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
        let len = payload_of(word, self.known())?;
        if !is_record(word) {
            return None;
        }
        let frame = split(lead, RecordAt { pos, word, len }, ring.body(pos))?;
        self.progress.pass_records(pos + frame.size, 1);
        Some(frame)
    }

    /// Calls `visit` for one record after the other, as [`Reader::next_record`] (`PLAIN`) or
    /// [`Reader::next_any`] would find them, until there is none. Each counts as read, and its
    /// lines are write-touched, when `visit` returns. Returns the number of records.
    ///
    /// All changing state is kept in registers: if a visit panics, all of them are returned again.
    #[inline(always)]
    pub fn visit_known<const PLAIN: bool>(
        &mut self,
        ring: Ring<'_>,
        mut visit: impl FnMut(&Frame),
    ) -> u64 {
        self.hand_lines(ring);
        let (head, stop) = (self.progress.head, if PLAIN { self.plain_stop } else { self.stop });
        let lead = if PLAIN { Lead::None } else { self.lead };
        let (mut pos, mut lines, mut records) = (self.cursor(), self.lines, 0);
        // What was checked for the last header holds for an identical one, which most are, and the
        // step to the next record then need not wait for this one's header. At first there was
        // none: no record has this size.
        let (mut like, mut size, mut body) = (RecordWord::from_raw(0), u64::MAX, 0);
        while pos < stop {
            // Relaxed: B ordered it.
            let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
            if word != like {
                let is_record = if PLAIN { word.is_data() } else { word.is_plain() };
                let Some(len) = payload_of(word, head - pos).filter(|_| is_record) else { break };
                (like, size, body) = (word, word.size(), len);
            }
            if size > head - pos {
                break;
            }
            let record = RecordAt { pos, word: like, len: body };
            let Some(frame) = split(lead, record, ring.body(pos)) else { break };
            visit(&frame);
            pos += size;
            records += 1;
            lines.write_touch(ring, pos);
        }
        self.lines = lines;
        self.progress.pass_records(pos, records);
        records
    }

    /// Polls `data_head` when [`Reader::next_record`] found no known record. Returns whether there
    /// is more; if not, or if something is wrong, `next` handles it.
    #[inline]
    pub fn poll_ahead(&mut self, ring: Ring<'_>) -> bool {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        let fresh = head.wrapping_sub(self.progress.head);
        if self.known() != 0
            || fresh == 0
            || fresh >= ring.data_size() - (self.cursor() - self.release.pos)
        {
            return false;
        }
        self.idle = 0;
        self.progress.head = head;
        self.set_stop();
        true
    }
}
