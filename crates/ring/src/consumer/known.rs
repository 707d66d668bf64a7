//! The records that are known to be published, on the common path.

use crate::consumer::borrow::Reader;
use crate::record::{Frame, RecordAt, payload_of, split};
use crate::view::Ring;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Lead, RecordWord};

impl Reader {
    /// Returns whether no record has a timestamp or a payload in the AUX area: then `next_known::<true>` and
    /// `visit_known::<true>` are the fast path.
    #[must_use]
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.lead == Lead::None && !self.area.exists()
    }

    /// Returns the next known record, and how many records in a row, this one included and at most `max`, have an identical
    /// header: one type and one length.
    #[inline]
    pub fn next_run(&mut self, ring: Ring<'_>, max: u64) -> Option<(Frame, u64)> {
        let frame = match self.is_plain() {
            true => self.next_known::<true>(ring),
            false => self.next_known::<false>(ring),
        }?;
        // Relaxed, as in `next_known`. The check of a header holds for every identical header.
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

    /// The fast path of [`Reader::next`]: returns a known record if nothing is to be released. In any other case returns
    /// `None`, and `next` handles it. `PLAIN` is for a ring whose records have neither a timestamp nor a payload in the AUX
    /// area; in a ring of another kind it finds nothing.
    #[inline(always)]
    pub fn next_known<const PLAIN: bool>(&mut self, ring: Ring<'_>) -> Option<Frame> {
        let (stop, lead) =
            if PLAIN { (self.plain_stop, Lead::None) } else { (self.stop, self.lead) };
        let pos = self.cursor();
        if pos >= stop {
            return None;
        }
        // Relaxed: B ordered it.
        let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
        let len = payload_of(word, self.known())?;
        if !(if PLAIN { word.is_data() } else { word.is_plain() }) {
            return None;
        }
        let frame = split(lead, RecordAt { pos, word, len }, ring.body(pos))?;
        self.progress.pass_records(pos + frame.size, 1);
        Some(frame)
    }

    /// Calls `visit` for each record that [`Reader::next_known`] would find, until
    /// none is left. A record counts as read, and its
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
        // The check of the last header holds for an identical header, and most are identical. The
        // step to the next record then need not wait for this record's header. The initial value is
        // the header of no record: none has this size.
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

    /// Polls `data_head` after [`Reader::next_known`] found no record. Returns whether there
    /// are more. If not, or if the head is damaged, `next` handles it.
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
