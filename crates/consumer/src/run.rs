//! Columns: many records of one type and one length.

use crate::item::RecordRef;
use perfring_abi::{Lead, WriterId};
use perfring_ring::Frame;

/// Records in a row of one type and one length, in place.
///
/// They are [`Run::size`] bytes apart: a header, a timestamp in a ring with time, the writer in one whose
/// records say so, and the payload, padded to eight bytes.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub(crate) first: Frame,
    pub(crate) count: u64,
    /// From the first one's header to the end of the last one.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Run<'a> {
    /// Returns the position of the first record's header in the stream.
    #[must_use]
    #[inline]
    pub fn pos(&self) -> u64 {
        self.first.pos
    }

    /// Returns the type of all of them.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> u32 {
        self.first.kind
    }

    /// Returns how many there are: at least one.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns the length of each payload, in bytes.
    #[must_use]
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.first.len
    }

    /// Returns the distance from one record to the next, in bytes.
    #[must_use]
    #[inline]
    pub fn size(&self) -> u64 {
        self.first.size
    }

    /// Returns how many bytes of each record precede its payload: its header, its timestamp and its writer.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        (self.first.payload_pos() - self.first.pos) as usize
    }

    /// Returns whether they have timestamps.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.first.time.is_some()
    }

    /// Returns all of their bytes, from the first header on.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the records.
    #[inline]
    pub fn records(&self) -> impl ExactSizeIterator<Item = RecordRef<'a>> {
        let (first, before) = (self.first, self.header_len());
        let each = self.bytes.chunks_exact(first.size as usize);
        each.enumerate().map(move |(nth, bytes)| RecordRef {
            pos: first.pos + nth as u64 * first.size,
            kind: first.kind,
            bytes: &bytes[before..before + first.len],
            time: (first.lead != Lead::None).then(|| word(bytes, 1)),
            writer: match first.lead {
                Lead::SampleId => WriterId::from_word(word(bytes, 2)),
                Lead::None | Lead::Time => None,
            },
        })
    }
}

/// Returns a word of a record; the header is word 0.
#[inline]
fn word(record: &[u8], nth: usize) -> u64 {
    let word = record.get(8 * nth..8 * nth + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}
