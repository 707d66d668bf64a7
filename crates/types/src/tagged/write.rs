//! Writing a tagged payload.

use super::code::{BOOL, BYTES, F64, F64S, HEAD, I64, I128, NAMED, NONE, TEXT, U64, U64S, U128};
use super::code::{head, joined};
use super::limited::{LimitedText, whole_chars};
use super::padded::{put_padded, short_word};
use alloc::vec::Vec;
use core::fmt;

/// The end of a text that was truncated, and the name of the value that counts how many were
/// truncated or left out.
pub const CUT: &str = "…";

/// Bytes of that value, reserved from the beginning: header, name, `u64`, padding.
const CUT_SIZE: usize = (HEAD + CUT.len() + 8).next_multiple_of(8);

/// The longest payload of any record: see `proto/ABI.md`, "Records".
const LONGEST: usize = (perfring_abi::SIZE_MAX - perfring_abi::HEADER_LEN) as usize;

/// The field of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'k> {
    /// The field's number in the type's list, less than 0xffff.
    Field(u16),
    /// A name that is stored with the value. It is truncated at 255 bytes.
    Name(&'k str),
}

impl From<u16> for Key<'_> {
    #[inline]
    fn from(field: u16) -> Self {
        Key::Field(field)
    }
}

impl<'k> From<&'k str> for Key<'k> {
    #[inline]
    fn from(name: &'k str) -> Self {
        Key::Name(name)
    }
}

/// Appends values to a payload. Allocates only if the `Vec` has no capacity left.
///
/// The payload begins where the `Vec` ends when the writer is made, and has an upper limit. A text
/// that does not fit is truncated between two characters and ends with [`CUT`]; bytes and lists are
/// truncated, other values are left out. Whenever one was truncated or left out, the payload also
/// has a value named [`CUT`], which counts them: so a reader can distinguish a truncated text from
/// one that merely ends with the same character.
///
/// ```
/// use perfring_types::tagged::{CUT, Data, TaggedWriter, Values};
/// let mut payload = Vec::new();
/// let mut writer = TaggedWriter::new(&mut payload).with_limit(48);
/// writer.text(0u16, "a message that is far too long");
/// assert!(writer.is_truncated());
/// let values: Vec<_> = Values::new(&payload).map(Result::unwrap).collect();
/// assert_eq!(values[0].data, Data::Text("a message tha…"));
/// assert_eq!((values[1].name, values[1].data), (CUT, Data::U64(1)));
/// assert!(payload.len() <= 48);
/// ```
#[derive(Debug)]
pub struct TaggedWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Where values end at the latest, as an offset in `out`: a multiple of 8 behind `start`. The space for the value that
    /// counts truncated ones is behind it, until that is written.
    end: usize,
    /// Whether there is that space.
    counts: bool,
    /// The number of truncated values, and the offset of the value that counts them.
    truncated: u64,
    truncated_at: Option<usize>,
}

impl<'a> TaggedWriter<'a> {
    /// Starts a payload at the end of `out`, at most as long as that of any record: 65,520 bytes.
    #[must_use]
    #[inline(always)]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        let end = start + LONGEST / 8 * 8 - CUT_SIZE;
        TaggedWriter { out, start, end, counts: true, truncated: 0, truncated_at: None }
    }

    /// Limits the payload to `limit` bytes. 24 of them are reserved for the count of truncated
    /// values: with a lower limit nothing is written.
    #[must_use]
    #[inline(always)]
    pub fn with_limit(self, limit: usize) -> Self {
        let limit = limit.min(LONGEST) & !7;
        let end = self.start + limit.saturating_sub(CUT_SIZE);
        TaggedWriter { end, counts: limit >= CUT_SIZE, ..self }
    }

    /// Returns whether a value was truncated or left out.
    #[must_use]
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.truncated > 0
    }

    /// Returns the bytes of the payload so far, a multiple of 8.
    #[must_use]
    #[inline]
    pub fn written(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends a field without a value.
    #[inline]
    pub fn none<'k>(&mut self, key: impl Into<Key<'k>>) {
        self.whole(key.into(), NONE, &[]);
    }

    /// Appends a boolean.
    #[inline]
    pub fn bool<'k>(&mut self, key: impl Into<Key<'k>>, value: bool) {
        match key.into() {
            // One byte and its padding are a word, too.
            Key::Field(field) => {
                self.field(field, (BOOL, 1), u64::from(value).to_le_bytes());
            }
            key => self.whole(key, BOOL, &[value as u8]),
        }
    }

    /// Appends a signed integer.
    #[inline]
    pub fn i64<'k>(&mut self, key: impl Into<Key<'k>>, value: i64) {
        self.word(key.into(), I64, value.to_ne_bytes());
    }

    /// Appends an unsigned integer.
    #[inline]
    pub fn u64<'k>(&mut self, key: impl Into<Key<'k>>, value: u64) {
        self.word(key.into(), U64, value.to_ne_bytes());
    }

    /// Appends a floating-point number.
    #[inline]
    pub fn f64<'k>(&mut self, key: impl Into<Key<'k>>, value: f64) {
        self.word(key.into(), F64, value.to_ne_bytes());
    }

    /// Appends a large signed integer.
    #[inline]
    pub fn i128<'k>(&mut self, key: impl Into<Key<'k>>, value: i128) {
        self.whole(key.into(), I128, &value.to_ne_bytes());
    }

    /// Appends a large unsigned integer.
    #[inline]
    pub fn u128<'k>(&mut self, key: impl Into<Key<'k>>, value: u128) {
        self.whole(key.into(), U128, &value.to_ne_bytes());
    }

    /// Appends text.
    #[inline]
    pub fn text<'k>(&mut self, key: impl Into<Key<'k>>, value: &str) {
        match (key.into(), value.len()) {
            (Key::Field(field), len @ 1..=8) => {
                self.field(field, (TEXT, len as u32), short_word(value.as_bytes()));
            }
            (Key::Field(field), len) if self.fits(len) => {
                self.out.extend_from_slice(&head(field, TEXT, 0, len as u32));
                put_padded(self.out, self.start, value.as_bytes());
            }
            (key, _) => self.any_text(key, value),
        }
    }

    fn any_text(&mut self, key: Key<'_>, value: &str) {
        match self.room(key) {
            Some(room) if value.len() <= room => self.put(key, TEXT, value.as_bytes()),
            room => self.shorten(key, value, room),
        }
    }

    /// Appends as much of a text as there is room for.
    #[cold]
    fn shorten(&mut self, key: Key<'_>, value: &str, room: Option<usize>) {
        match room.and_then(|room| room.checked_sub(CUT.len())) {
            Some(room) => {
                let kept = whole_chars(value, room);
                let at = self.open(key, TEXT);
                self.out.extend_from_slice(kept.as_bytes());
                self.out.extend_from_slice(CUT.as_bytes());
                self.close(at, key);
                self.count_truncated();
            }
            None => self.count_truncated(),
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn bytes<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) {
        match (key.into(), value.as_chunks().0) {
            // The ids of spans and of traces.
            (Key::Field(field), [one]) if value.len() == 8 && self.has(HEAD + 8) => {
                self.field(field, (BYTES, 8), *one);
            }
            (Key::Field(field), [one, two]) if value.len() == 16 && self.has(HEAD + 16) => {
                let first = joined(head(field, BYTES, 0, 16), *one);
                let mut whole = [0; HEAD + 16];
                whole[..HEAD + 8].copy_from_slice(&first);
                whole[HEAD + 8..].copy_from_slice(two);
                self.out.extend_from_slice(&whole);
            }
            (key, _) => self.any_bytes(key, value),
        }
    }

    #[inline(never)]
    fn any_bytes(&mut self, key: Key<'_>, value: &[u8]) {
        match self.room(key) {
            Some(room) if value.len() <= room => self.put(key, BYTES, value),
            Some(room) => {
                self.put(key, BYTES, &value[..room]);
                self.count_truncated();
            }
            None => self.count_truncated(),
        }
    }

    /// Appends a list of floating-point numbers.
    pub fn f64s<'k>(&mut self, key: impl Into<Key<'k>>, values: &[f64]) {
        self.list(key.into(), F64S, values, |value| value.to_ne_bytes());
    }

    /// Appends a list of unsigned integers.
    pub fn u64s<'k>(&mut self, key: impl Into<Key<'k>>, values: &[u64]) {
        self.list(key.into(), U64S, values, |value| value.to_ne_bytes());
    }

    /// Appends formatted text, written straight into the payload. If the implementation fails, what
    /// it has written until then is kept; if it panics, the value is left out.
    ///
    /// ```
    /// use perfring_types::tagged::{Data, TaggedWriter, Values};
    /// let mut payload = Vec::new();
    /// TaggedWriter::new(&mut payload).display(0u16, format_args!("{:?}", Some(1)));
    /// let value = Values::new(&payload).next().unwrap().unwrap();
    /// assert_eq!(value.data, Data::Text("Some(1)"));
    /// ```
    pub fn display<'k>(&mut self, key: impl Into<Key<'k>>, value: impl fmt::Display) {
        match key.into() {
            Key::Field(field) => self.format_field(field, format_args!("{value}")),
            key => self.format(key, format_args!("{value}")),
        }
    }

    /// Appends text formatted with `{:?}`, like [`TaggedWriter::display`].
    pub fn debug<'k>(&mut self, key: impl Into<Key<'k>>, value: impl fmt::Debug) {
        match key.into() {
            Key::Field(field) => self.format_field(field, format_args!("{value:?}")),
            key => self.format(key, format_args!("{value:?}")),
        }
    }

    /// The field's number is an argument that fits a register.
    #[inline(never)]
    fn format_field(&mut self, field: u16, value: fmt::Arguments<'_>) {
        self.format(Key::Field(field), value);
    }

    #[inline]
    fn format(&mut self, key: Key<'_>, value: fmt::Arguments<'_>) {
        let Some(room) = self.room(key) else {
            self.count_truncated();
            return;
        };
        let at = self.open(key, TEXT);
        let begin = self.out.len();
        let (end, truncated) = LimitedText::new(self.out, at, begin + room).write(value);
        if truncated {
            return self.end_truncated(at, (begin, end), room, key);
        }
        let len = (end - begin) as u32;
        self.out[at + 4..at + HEAD].copy_from_slice(&len.to_ne_bytes());
        if let Key::Name(_) = key {
            self.pad(); // the name alone, if there is no text
        }
    }

    /// Ends a formatted text that was truncated.
    #[cold]
    fn end_truncated(
        &mut self,
        at: usize,
        (begin, end): (usize, usize),
        room: usize,
        key: Key<'_>,
    ) {
        self.out.truncate(end);
        if let Some(room) = room.checked_sub(CUT.len()) {
            // All of it is from `str`s, truncated between characters: so this is UTF-8 as well.
            let mut end = self.out.len().min(begin + room);
            while end > begin && self.out.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            self.out.truncate(end);
            self.out.extend_from_slice(CUT.as_bytes());
            self.close(at, key);
            self.count_truncated();
        } else {
            self.out.truncate(at);
            self.count_truncated();
        }
    }

    fn list<T: Copy>(&mut self, key: Key<'_>, tag: u8, values: &[T], bytes: fn(T) -> [u8; 8]) {
        let Some(room) = self.room(key) else {
            self.count_truncated();
            return;
        };
        let fitting = values.len().min(room / 8);
        let at = self.open(key, tag);
        for value in &values[..fitting] {
            self.out.extend_from_slice(&bytes(*value));
        }
        self.close(at, key);
        if fitting < values.len() {
            self.count_truncated();
        }
    }

    #[inline(always)]
    fn word(&mut self, key: Key<'_>, tag: u8, value: [u8; 8]) {
        match key {
            Key::Field(field) => self.field(field, (tag, 8), value),
            key => self.whole(key, tag, &value),
        }
    }

    /// Appends a numbered field that begins with this word, and has no other if there is not room for more. It is the common
    /// case: one copy of sixteen bytes. What else may be needed is a call at the end, so that no register is saved.
    #[inline(always)]
    fn field(&mut self, field: u16, (tag, len): (u8, u32), value: [u8; 8]) {
        let head = head(field, tag, 0, len);
        if !self.has(HEAD + 8) {
            return self.field_slowly(u64::from_ne_bytes(head), u64::from_ne_bytes(value));
        }
        self.out.extend_from_slice(&joined(head, value));
    }

    #[cold]
    #[inline(never)]
    fn field_slowly(&mut self, head: u64, value: u64) {
        if !self.fits(8) {
            return self.count_truncated();
        }
        self.out.extend_from_slice(&joined(head.to_ne_bytes(), value.to_ne_bytes()));
    }

    /// Returns whether there is room for so many bytes, also without an allocation.
    #[inline(always)]
    fn has(&self, size: usize) -> bool {
        let used = self.out.len();
        used + size <= self.end && self.out.capacity().wrapping_sub(used) >= size
    }

    /// Returns whether there is room for a numbered field of this length.
    #[inline(always)]
    fn fits(&self, len: usize) -> bool {
        self.out.len() + HEAD + len <= self.end
    }

    /// Appends a value that cannot be truncated.
    #[inline]
    fn whole(&mut self, key: Key<'_>, tag: u8, value: &[u8]) {
        match self.room(key) {
            Some(room) if room >= value.len() => self.put(key, tag, value),
            _ => self.count_truncated(),
        }
    }

    /// Returns the bytes of value that fit under the limit, after header and name; none if these do
    /// not fit.
    #[inline]
    fn room(&self, key: Key<'_>) -> Option<usize> {
        // Padding does not matter: limit and length are taken as multiples of 8.
        self.end.checked_sub(self.out.len() + HEAD + name(key).len())
    }

    fn put(&mut self, key: Key<'_>, tag: u8, value: &[u8]) {
        let name = name(key);
        let field = if let Key::Field(field) = key { field } else { NAMED };
        let head = head(field, tag, name.len() as u8, value.len() as u32);
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(value);
        self.pad();
    }

    /// Starts a value whose length is not known yet; returns its offset.
    #[inline(always)]
    fn open(&mut self, key: Key<'_>, tag: u8) -> usize {
        let at = self.out.len();
        match key {
            Key::Field(field) => self.out.extend_from_slice(&head(field, tag, 0, 0)),
            key => {
                let name = name(key);
                self.out.extend_from_slice(&head(NAMED, tag, name.len() as u8, 0));
                self.out.extend_from_slice(name.as_bytes());
            }
        }
        at
    }

    /// Fills in the length of the value that began at `at`.
    #[inline]
    fn close(&mut self, at: usize, key: Key<'_>) {
        let len = self.out.len() - at - HEAD - name(key).len();
        self.out[at + 4..at + HEAD].copy_from_slice(&(len as u32).to_ne_bytes());
        self.pad();
    }

    #[inline]
    fn pad(&mut self) {
        // Eight zeros and a shorter length: a copy of a fixed length is one instruction.
        let padded = self.start + self.written().next_multiple_of(8);
        if self.out.len() != padded {
            self.out.extend_from_slice(&[0; 8]);
            self.out.truncate(padded);
        }
    }

    /// Counts one more. The first time, adds the value for the count, in the space reserved for it.
    #[cold]
    fn count_truncated(&mut self) {
        self.truncated += 1;
        if let Some(at) = self.truncated_at {
            self.out[at..at + 8].copy_from_slice(&self.truncated.to_ne_bytes());
        } else if self.counts {
            self.truncated_at = Some(self.out.len() + HEAD + CUT.len());
            self.put(Key::Name(CUT), U64, &self.truncated.to_ne_bytes());
            self.end += CUT_SIZE;
        }
    }
}

#[inline]
fn name<'k>(key: Key<'k>) -> &'k str {
    match key {
        Key::Field(_) => "",
        Key::Name(name) => whole_chars(name, 255),
    }
}
