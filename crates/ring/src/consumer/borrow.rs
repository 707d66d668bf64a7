//! The consumer of a drop ring: borrows records where they stand, and hands the space back.

use crate::consumer::lines::Lines;
use crate::consumer::passed::Passed;
use crate::consumer::release::{Progress, Release};
use crate::counters::{ConsumerTotals, Count};
use crate::record::{Corrupt, Found, Frame, Range, Shape, payload_of, split, step};
use crate::view::{Ring, sane};
use crate::wait::Fences;
use perfring_abi::atomic::Ordering;
use perfring_abi::{HEADER_LEN, RecordWord};

/// Empty looks after which a reader that does nothing else hands back what it has read.
const IDLE_POLLS: u32 = 64;

/// The private state of the consumer of a drop ring.
#[derive(Debug)]
pub struct Reader {
    progress: Progress,
    pub(super) release: Release,
    /// No further than this goes the quick way.
    pub(super) stop: u64,
    /// The same, of a ring without time and AUX area; else nowhere, so that such a ring pays nothing
    /// for them.
    plain_stop: u64,
    /// Looks in a row that found nothing new.
    idle: u32,
    pub(super) timed: bool,
    pub(super) area: Passed,
    lines: Lines,
    hands: bool,
}

impl Reader {
    /// Takes over as the one consumer, where the last one released. Records that it had read and
    /// not released come again.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer and consumer leave.
    pub fn attach(ring: Ring<'_>, fences: Fences) -> Result<Self, Corrupt> {
        let tail = ring.header.data_tail.load(Ordering::Acquire); // pairs with C of the last one
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if !sane(ring, head, tail) {
            return Err(Corrupt { pos: tail });
        }
        let (release, passed) = Release::take_over(ring, tail, fences)?;
        Ok(Reader {
            progress: Progress::at(tail, passed),
            release,
            stop: tail,
            plain_stop: tail,
            idle: 0,
            timed: false,
            area: Passed::default(),
            lines: Lines::NEVER,
            hands: false,
        })
    }

    /// The same reader, of a ring with a stamp in each record or without.
    #[must_use]
    pub fn with_time(self, timed: bool) -> Self {
        let mut reader = Reader { timed, ..self };
        reader.set_stop();
        reader
    }

    /// The same reader, of a ring with an AUX area of so many bytes, or without one.
    #[must_use]
    pub fn with_aux(self, ring: Ring<'_>, size: u64) -> Self {
        let mut reader = Reader { area: Passed::attach(ring, size), ..self };
        if let Some((after, count)) = reader.area.write_touched(ring, reader.cursor()) {
            reader.progress.head = reader.progress.head.max(after);
            reader.pass(after, count);
        }
        reader.set_stop();
        reader
    }

    /// The shape of the records before the head.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        Shape { timed: self.timed, aux: self.area.bounds() }
    }

    /// The same reader, handing the cache lines of what it has read back to the producer: by
    /// [`Reader::hand_lines`], and at each release. The data area must be writable.
    #[must_use]
    pub fn with_hands(self, hands: bool) -> Self {
        let mut reader = Reader { hands, ..self };
        reader.hand_on();
        reader
    }

    /// Hands back the lines before the cursor. What earlier calls returned counts as read.
    #[inline(always)]
    pub fn hand_lines(&mut self, ring: Ring<'_>) {
        self.lines.hand_to(ring, self.cursor());
    }

    /// From now on nothing is released but by [`Reader::release_to`].
    pub fn hold(&mut self) {
        self.release.hold();
        self.set_stop();
        self.hand_on();
    }

    /// Goes on at the tail. A reader on hold hands back when it releases, and not before.
    fn hand_on(&mut self) {
        let now = self.hands && !self.release.holds();
        self.lines = if now { Lines::from_tail(self.release.pos) } else { Lines::NEVER };
    }

    /// The next record or loss, or `None` if there is none now. What earlier calls returned counts
    /// as read; the second value says whether the caller owes a waiting producer a wake.
    ///
    /// The tail goes back to the producer when an eighth of the ring has been read, and when some
    /// looks in a row found nothing: a reader that keeps up leaves the shared line alone.
    ///
    /// # Errors
    /// [`Corrupt`], again and again at the same position.
    pub fn next(&mut self, ring: Ring<'_>) -> Result<(Option<Found>, bool), Corrupt> {
        if self.known() == 0 {
            return self.next_of_poll(ring);
        }
        let due = self.is_due();
        let stepped = step(ring, self.shape(), self.cursor(), self.progress.head)?;
        // After the last error, which would lose the wake that is owed.
        let owed = due && self.release(ring);
        if let Some(found) = self.stepped(stepped) {
            return Ok((Some(found), owed));
        }
        // What was known of ended in holes: there may be more by now.
        match self.next_of_poll(ring) {
            Ok((found, also)) => Ok((found, owed || also)),
            Err(_) if owed => Ok((None, true)), // the error comes again
            Err(error) => Err(error),
        }
    }

    fn next_of_poll(&mut self, ring: Ring<'_>) -> Result<(Option<Found>, bool), Corrupt> {
        let due = self.poll(ring)?;
        let stepped = step(ring, self.shape(), self.cursor(), self.progress.head)?;
        let owed = due && self.release(ring); // as in `next`
        Ok((self.stepped(stepped), owed))
    }

    fn stepped(&mut self, stepped: Option<(Found, u64)>) -> Option<Found> {
        let Some((found, after)) = stepped else {
            self.pass(self.progress.head, Count::default());
            return None;
        };
        let count = match found {
            Found::Record(frame) => Count { records: 1, bytes: frame.size },
            Found::Large(frame, range) => {
                self.pass_range(&range);
                Count { records: 1, bytes: frame.size }
            }
            Found::Lost(_) => Count::default(),
        };
        self.pass(after, count);
        if self.area_is_due() {
            // The quick way asks for nothing but this.
            let cursor = self.cursor();
            (self.stop, self.plain_stop) = (cursor, cursor.min(self.plain_stop));
        }
        Some(found)
    }

    /// What most calls of [`Reader::next`] come to: a record that is known of, and nothing to
    /// release. `None` for all else: then `next` knows. Of a ring without time and AUX area.
    #[inline(always)]
    pub fn next_record(&mut self, ring: Ring<'_>) -> Option<Frame> {
        self.next_known(ring, self.plain_stop, RecordWord::is_data, |len| Some((len, None)))
    }

    /// As [`Reader::next_record`], of any ring.
    #[inline]
    pub fn next_any(&mut self, ring: Ring<'_>) -> Option<Frame> {
        let timed = self.timed;
        let word = ring.word(self.cursor() + u64::from(HEADER_LEN));
        self.next_known(ring, self.stop, RecordWord::is_plain, |len| split(timed, len, word))
    }

    /// Whether no record has a stamp, or its payload elsewhere: [`Reader::next_record`] and
    /// `visit_known::<true>` are the quick way.
    #[must_use]
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        !self.timed && !self.area.exists()
    }

    /// As [`Reader::next_record`], of a ring with or without time, and how many records in a row,
    /// this one included and at most `max`, have the very same header: one type and one length.
    #[inline]
    pub fn next_run(&mut self, ring: Ring<'_>, max: u64) -> Option<(Frame, u64)> {
        let frame = if self.is_plain() { self.next_record(ring) } else { self.next_any(ring) }?;
        // Relaxed, as in `next_known`; what that found of one header is true of its like.
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
        split: impl FnOnce(usize) -> Option<(usize, Option<u64>)>,
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
        let (size, (len, time)) = (word.size(), split(len)?);
        self.progress.pass_records(pos + size, 1);
        Some(Frame { pos, kind: word.kind(), len, size, time })
    }

    /// Shows `visit` one record after the other, as [`Reader::next_record`] (`PLAIN`) or
    /// [`Reader::next_any`] would find them, until that finds none. Each counts as read, and its
    /// lines are handed back, when `visit` returns. Returns how many they were.
    ///
    /// All that changes is kept in registers: if a visit panics, all of them come again.
    #[inline(always)]
    pub fn visit_known<const PLAIN: bool>(
        &mut self,
        ring: Ring<'_>,
        mut visit: impl FnMut(&Frame),
    ) -> u64 {
        self.hand_lines(ring);
        let (head, stop) = (self.progress.head, if PLAIN { self.plain_stop } else { self.stop });
        let timed = self.timed;
        let (mut pos, mut lines, mut records) = (self.cursor(), self.lines, 0);
        // What was found of the last header is true of its like, which most are; and the way to the
        // next record then need not wait for this one's header. At first there was none: no record is
        // as long as that.
        let (mut like, mut size, mut body, mut kind) = (0, u64::MAX, 0, 0);
        while pos < stop {
            // Relaxed: B ordered it.
            let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
            if word.raw() != like {
                let is_record = if PLAIN { word.is_data() } else { word.is_plain() };
                let Some(len) = payload_of(word, head - pos).filter(|_| is_record) else { break };
                (like, size, body, kind) = (word.raw(), word.size(), len, word.kind());
            }
            if size > head - pos {
                break;
            }
            let split = if PLAIN {
                Some((body, None))
            } else {
                split(timed, body, ring.word(pos + u64::from(HEADER_LEN)))
            };
            let Some((len, time)) = split else { break };
            visit(&Frame { pos, kind, len, size, time });
            pos += size;
            records += 1;
            lines.hand_to(ring, pos);
        }
        self.lines = lines;
        self.progress.pass_records(pos, records);
        records
    }

    /// Looks at `data_head` where [`Reader::next_record`] found none because none is known of.
    /// Returns whether there is more; if not, or if something is wrong, `next` knows.
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

    /// Where the quick way ends: at what is known of, or where a release is due.
    #[inline]
    fn set_stop(&mut self) {
        self.stop = self.progress.head.min(self.release.due_at());
        self.plain_stop = if self.is_plain() { self.stop } else { 0 };
    }

    /// Looks at `data_head`. Returns whether to release.
    fn poll(&mut self, ring: Ring<'_>) -> Result<bool, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if head == self.progress.head {
            // Relaxed: a hint; whoever waits looks again by itself.
            let wanted =
                self.idle >= IDLE_POLLS || ring.header.space.armed.load(Ordering::Relaxed) != 0;
            self.idle = self.idle.saturating_add(1);
            return Ok(wanted);
        }
        self.learn(ring, head)?;
        self.idle = 0;
        Ok(self.is_due())
    }

    fn learn(&mut self, ring: Ring<'_>, head: u64) -> Result<(), Corrupt> {
        if !sane(ring, head, self.release.pos) || head < self.progress.head {
            return Err(Corrupt { pos: self.cursor() });
        }
        self.progress.head = head;
        self.set_stop();
        Ok(())
    }

    /// Whether so much was read that it goes back to the producer.
    fn is_due(&self) -> bool {
        self.cursor() >= self.release.due_at() || self.area_is_due()
    }

    #[inline]
    fn area_is_due(&self) -> bool {
        self.area.is_due() && !self.release.holds()
    }

    /// Passes a range, with its record.
    pub fn pass_range(&mut self, range: &Range) {
        self.area.pass_to(range.end());
    }

    /// Hands back everything before the cursor, unless it is on [`Reader::hold`]. Returns whether a
    /// waiting producer is to be woken.
    pub fn release(&mut self, ring: Ring<'_>) -> bool {
        if self.cursor() == self.release.pos || self.release.holds() {
            return false;
        }
        let totals =
            ConsumerTotals { pos: self.cursor(), read: self.passed(), lapped: Count::default() };
        self.write_touch(ring, &totals, self.area.end)
    }

    /// Hands back everything before the book's position, at which it must be true, and the ranges
    /// before `range_end`.
    pub(crate) fn write_touch(
        &mut self,
        ring: Ring<'_>,
        totals: &ConsumerTotals,
        range_end: u64,
    ) -> bool {
        if self.area.exists() {
            self.area.write_touch(ring, totals.pos, range_end);
        }
        if self.hands {
            if self.release.holds() {
                self.lines = Lines::from_tail(self.release.pos);
            }
            self.lines.hand_to(ring, totals.pos);
        }
        let owed = self.release.write_touch(ring, totals);
        self.set_stop();
        self.hand_on();
        owed
    }

    /// A fresh look at how far the producer is.
    ///
    /// # Errors
    /// [`Corrupt`] if it went where it cannot be.
    pub fn refresh(&mut self, ring: Ring<'_>) -> Result<u64, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        self.learn(ring, head)?;
        Ok(head)
    }

    /// The next thing at or after `cursor`, without passing it: for holding many records. Start
    /// from [`Reader::cursor`], go on from the position returned, and pass them all in one with
    /// [`Reader::pass`].
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn peek(&self, ring: Ring<'_>, cursor: u64) -> Result<Option<(Found, u64)>, Corrupt> {
        step(ring, self.shape(), cursor, self.progress.head)
    }

    /// Passes what was peeked: `count` records up to `cursor`; of those with ranges, each has been
    /// told of by [`Reader::pass_range`].
    pub fn pass(&mut self, cursor: u64, count: Count) {
        self.progress.pass(cursor, count);
    }

    /// Bytes after the cursor that are known to be published.
    #[must_use]
    #[inline]
    pub fn known(&self) -> u64 {
        self.progress.head - self.progress.pos
    }

    /// The position of the next record.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> u64 {
        self.progress.pos
    }

    /// Records before the cursor, since the ring was made.
    #[must_use]
    pub fn passed(&self) -> Count {
        self.progress.passed()
    }
}
