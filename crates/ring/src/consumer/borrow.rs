//! The consumer of a drop ring: borrows records where they stand, and hands the space back.

use crate::consumer::passed::Passed;
use crate::counters::{ConsumerBook, Count};
use crate::latch::{self, LatchWriter};
use crate::record::{Corrupt, Found, Frame, Range, Shape, payload_of, split, step};
use crate::recount::count_surely;
use crate::view::{Ring, sane};
use crate::wait::{Fences, claim_space_wake};
use perfring_abi::atomic::Ordering;
use perfring_abi::{HEADER_LEN, RecordWord};

/// Empty looks after which a reader that does nothing else hands back what it has read.
const IDLE_LOOKS: u32 = 64;

/// Bytes of a cache line, as far as handing it back goes: with longer ones it is handed back twice.
/// Half as long under loom, whose rings are no longer than one.
const LINE: u64 = if cfg!(loom) { 32 } else { 64 };

/// Release after so many bytes: never. Positions stay below a quarter of this range, so that the sum
/// of the two does not overflow.
const NEVER: u64 = u64::MAX >> 1;

/// Stores the word at `pos` back, which the caller has read and not released.
#[inline(always)]
fn touch(ring: Ring<'_>, pos: u64) {
    let word = ring.word(pos);
    // Relaxed: the producer stores there after it has seen the tail move past it (C, D).
    word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The private state of the consumer of a drop ring.
#[derive(Debug)]
pub struct Reader {
    /// The next record.
    cursor: u64,
    /// `data_head` when last looked at.
    head: u64,
    /// What `data_tail` holds.
    pub(crate) released: u64,
    /// Records before `cursor`, since the ring was made.
    records: u64,
    /// Bytes before `cursor` that are no record's: holes and markers.
    skipped: u64,
    /// No further than this goes the quick way.
    pub(crate) stop: u64,
    /// The same, of a ring without time and AUX area; else nowhere, so that such a ring pays nothing
    /// for them.
    plain_stop: u64,
    /// Release at least after this many bytes.
    interval: u64,
    /// Looks in a row that found nothing new.
    idle: u32,
    pub(crate) timed: bool,
    pub(crate) area: Passed,
    /// Where the line ends that is handed back next; never, if none are.
    hand_at: u64,
    hands: bool,
    fences: Fences,
    latch: LatchWriter,
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
        // After a death between the book and the tail, the book that fits the tail counts; after a
        // foreign perf reader, none does, and what it read is what was written and is not there.
        let fits = latch::find_where(&ring.header.consumer, |words| {
            ConsumerBook::from_words(words).pos == tail
        });
        let passed = match &fits {
            Some(whole) => ConsumerBook::from_words(&whole.words).passed(),
            None => count_surely(ring, tail)?,
        };
        let kept = fits.or_else(|| latch::find(&ring.header.consumer));
        Ok(Reader {
            cursor: tail,
            head: tail,
            released: tail,
            records: passed.records,
            skipped: tail.wrapping_sub(passed.bytes),
            stop: tail,
            plain_stop: tail,
            interval: ring.data_size() / 8,
            idle: 0,
            timed: false,
            area: Passed::default(),
            hand_at: NEVER,
            hands: false,
            fences,
            latch: LatchWriter::after(&ring.header.consumer, kept.as_ref()),
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
        if let Some((after, count)) = reader.area.handed_back(ring, reader.cursor) {
            reader.head = reader.head.max(after);
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
    ///
    /// A line that a reader has only looked at is shared by two cores, and a producer that comes
    /// round to it has to ask for it twice: for its content, if it was pushed out, and for leave to
    /// write. A line that the reader was the last to write is one core's, and moves at once. So the
    /// reader stores the word back that it has just loaded. Nobody can tell, but by the time it
    /// takes (`benches/NOTES.md`).
    #[must_use]
    pub fn with_hands(self, hands: bool) -> Self {
        let mut reader = Reader { hands, ..self };
        reader.hand_on();
        reader
    }

    /// Hands back the lines before the cursor. What earlier calls returned counts as read.
    #[inline(always)]
    pub fn hand_lines(&mut self, ring: Ring<'_>) {
        self.hand_to(ring, self.cursor);
    }

    #[inline(always)]
    fn hand_to(&mut self, ring: Ring<'_>, upto: u64) {
        while self.hand_at <= upto {
            touch(ring, self.hand_at - LINE);
            self.hand_at += LINE;
        }
    }

    /// From now on nothing is released but by [`Reader::release_to`].
    pub fn hold(&mut self) {
        self.interval = NEVER;
        self.set_stop();
        self.hand_on();
    }

    /// Whether [`Reader::hold`] was called.
    #[inline]
    fn holds(&self) -> bool {
        self.interval == NEVER
    }

    /// Goes on at the tail. A reader on hold hands back when it releases, and not before.
    fn hand_on(&mut self) {
        self.hand_at = if self.hands && !self.holds() { self.first_line() } else { NEVER };
    }

    /// Where the first line ends that does not begin before the tail, where the producer may be writing.
    fn first_line(&self) -> u64 {
        self.released.next_multiple_of(LINE) + LINE
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
        if self.cursor == self.head {
            return self.next_of_look(ring);
        }
        let due = self.is_due();
        let stepped = step(ring, self.shape(), self.cursor, self.head)?;
        // After the last error, which would lose the wake that is owed.
        let owed = due && self.release(ring);
        if let Some(found) = self.stepped(stepped) {
            return Ok((Some(found), owed));
        }
        // What was known of ended in holes: there may be more by now.
        match self.next_of_look(ring) {
            Ok((found, also)) => Ok((found, owed || also)),
            Err(_) if owed => Ok((None, true)), // the error comes again
            Err(error) => Err(error),
        }
    }

    fn next_of_look(&mut self, ring: Ring<'_>) -> Result<(Option<Found>, bool), Corrupt> {
        let due = self.look(ring)?;
        let stepped = step(ring, self.shape(), self.cursor, self.head)?;
        let owed = due && self.release(ring); // as in `next`
        Ok((self.stepped(stepped), owed))
    }

    /// Passes what a step came to.
    fn stepped(&mut self, stepped: Option<(Found, u64)>) -> Option<Found> {
        let Some((found, after)) = stepped else {
            self.pass(self.head, Count::default());
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
            (self.stop, self.plain_stop) = (self.cursor, self.cursor.min(self.plain_stop));
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
        let word = ring.word(self.cursor + u64::from(HEADER_LEN));
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
        let (mut count, mut pos) = (1, self.cursor);
        while count < max && pos < self.stop && self.head - pos >= frame.size {
            if ring.word(pos).load(Ordering::Relaxed) != same {
                break;
            }
            (count, pos) = (count + 1, pos + frame.size);
        }
        self.cursor = pos;
        self.records = self.records.wrapping_add(count - 1);
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
        let pos = self.cursor;
        if pos >= stop {
            return None;
        }
        // Relaxed: B ordered it.
        let word = RecordWord::from_raw(ring.word(pos).load(Ordering::Relaxed));
        let len = payload_of(word, self.head - pos)?;
        if !is_record(word) {
            return None;
        }
        let (size, (len, time)) = (word.size(), split(len)?);
        self.cursor = pos + size;
        self.records = self.records.wrapping_add(1);
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
        let (head, stop) = (self.head, if PLAIN { self.plain_stop } else { self.stop });
        let timed = self.timed;
        let (mut pos, mut hand_at, mut records) = (self.cursor, self.hand_at, 0);
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
            while hand_at <= pos {
                touch(ring, hand_at - LINE);
                hand_at += LINE;
            }
        }
        (self.cursor, self.hand_at) = (pos, hand_at);
        self.records = self.records.wrapping_add(records);
        records
    }

    /// Looks at `data_head` where [`Reader::next_record`] found none because none is known of.
    /// Returns whether there is more; if not, or if something is wrong, `next` knows.
    #[inline]
    pub fn look_ahead(&mut self, ring: Ring<'_>) -> bool {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        let fresh = head.wrapping_sub(self.head);
        if self.cursor != self.head
            || fresh == 0
            || fresh >= ring.data_size() - (self.cursor - self.released)
        {
            return false;
        }
        self.idle = 0;
        self.head = head;
        self.set_stop();
        true
    }

    /// Where the quick way ends: at what is known of, or where a release is due.
    #[inline]
    fn set_stop(&mut self) {
        self.stop = self.head.min(self.released + self.interval);
        self.plain_stop = if self.is_plain() { self.stop } else { 0 };
    }

    /// Looks at `data_head`. Returns whether to release.
    fn look(&mut self, ring: Ring<'_>) -> Result<bool, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if head == self.head {
            // Relaxed: a hint; whoever waits looks again by itself.
            let wanted =
                self.idle >= IDLE_LOOKS || ring.header.space.armed.load(Ordering::Relaxed) != 0;
            self.idle = self.idle.saturating_add(1);
            return Ok(wanted);
        }
        if !sane(ring, head, self.released) || head < self.head {
            return Err(Corrupt { pos: self.cursor });
        }
        self.idle = 0;
        self.head = head;
        self.set_stop();
        Ok(self.is_due())
    }

    /// Whether so much was read that it goes back to the producer.
    fn is_due(&self) -> bool {
        self.cursor - self.released >= self.interval || self.area_is_due()
    }

    /// Whether so much of the AUX area was read that it goes back to the producer.
    #[inline]
    fn area_is_due(&self) -> bool {
        self.area.is_due() && !self.holds()
    }

    /// Passes a range, with its record.
    pub fn pass_range(&mut self, range: &Range) {
        self.area.pass_to(range.end());
    }

    /// Hands back everything before the cursor, unless it is on [`Reader::hold`]. Returns whether a
    /// waiting producer is to be woken.
    pub fn release(&mut self, ring: Ring<'_>) -> bool {
        if self.cursor == self.released || self.holds() {
            return false;
        }
        let book = ConsumerBook { pos: self.cursor, read: self.passed(), lapped: Count::default() };
        self.hand_back(ring, &book, self.area.end())
    }

    /// Hands back everything before the book's position, at which it must be true, and the ranges
    /// before `range_end`.
    pub(crate) fn hand_back(
        &mut self,
        ring: Ring<'_>,
        book: &ConsumerBook,
        range_end: u64,
    ) -> bool {
        if self.area.exists() {
            self.area.hand_back(ring, book.pos, range_end);
        }
        if self.hands {
            if self.holds() {
                self.hand_at = self.first_line();
            }
            self.hand_to(ring, book.pos);
        }
        // The book before the tail: after a death between the two, the older book fits the tail.
        self.latch.write(&ring.header.consumer, &book.to_words());
        self.released = book.pos;
        self.set_stop();
        self.hand_on();
        ring.header.data_tail.store(book.pos, Ordering::Release); // C, pairs with D
        self.fences.light(); // K, pairs with L
        // Relaxed: K orders it.
        ring.header.space.armed.load(Ordering::Relaxed) != 0
            && claim_space_wake(&ring.header.space, book.pos)
    }

    /// A fresh look at how far the producer is.
    ///
    /// # Errors
    /// [`Corrupt`] if it went where it cannot be.
    pub fn refresh(&mut self, ring: Ring<'_>) -> Result<u64, Corrupt> {
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if !sane(ring, head, self.released) || head < self.head {
            return Err(Corrupt { pos: self.cursor });
        }
        self.head = head;
        self.set_stop();
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
        step(ring, self.shape(), cursor, self.head)
    }

    /// Passes what was peeked: `count` records up to `cursor`; of those with ranges, each has been
    /// told of by [`Reader::pass_range`].
    pub fn pass(&mut self, cursor: u64, count: Count) {
        // A cursor that peek never returned would break the books, not memory: keep it in range.
        if (self.cursor..=self.head).contains(&cursor) && cursor.is_multiple_of(8) {
            let other = (cursor - self.cursor).wrapping_sub(count.bytes);
            self.skipped = self.skipped.wrapping_add(other);
            self.records = self.records.wrapping_add(count.records);
            self.cursor = cursor;
        }
    }

    /// Bytes after the cursor that are known to be published.
    #[must_use]
    #[inline]
    pub fn known(&self) -> u64 {
        self.head - self.cursor
    }

    /// The position of the next record.
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Records before the cursor, since the ring was made.
    #[must_use]
    pub fn passed(&self) -> Count {
        Count { records: self.records, bytes: self.cursor.wrapping_sub(self.skipped) }
    }
}
