//! The frame of an entry in the type table: `size, id, len, check, layout`, text, zeros.

use crate::schema::Schema;
use alloc::vec::Vec;
use core::fmt;
use perfring_abi::RecordType;

/// Bytes before the text.
const FRAME: usize = 24;
/// The longest entry, in bytes: far more than a table of usual size holds.
pub const ENTRY_MAX: usize = 1 << 20;

/// One entry with a checked frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The record type.
    pub id: RecordType,
    /// [`Schema::layout`].
    pub layout: u64,
    /// The schema as JSON.
    pub text: &'a str,
}

impl<'a> Entry<'a> {
    /// Returns the type's name as written in the text: up to the first quote, if there is one in
    /// it.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.text_of("\"name\":\"")
    }

    /// Returns what a reader must know of the encoding, like [`Schema::format`].
    #[must_use]
    pub fn format(&self) -> &'a str {
        self.text_of("\"format\":\"")
    }

    /// Returns a text of the type itself, without a parser: [`Schema::to_json`] writes those before
    /// the fields, without spaces, and puts a backslash before every quote inside a text.
    fn text_of(&self, key: &str) -> &'a str {
        let own = self.text.split("\"fields\":").next().unwrap_or_default();
        own.split_once(key).and_then(|(_, text)| text.split('"').next()).unwrap_or_default()
    }
}

/// Bytes that are not a valid entry. The entries before them are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// The offset, in bytes from the first entry on.
    pub at: u64,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the type table is damaged {} bytes after its first entry: {}",
            self.at, self.what
        )
    }
}

impl core::error::Error for BadEntry {}

impl Schema<'_> {
    /// Returns the entry for the type table, as words.
    #[must_use]
    pub fn to_entry(&self) -> Vec<u64> {
        Entry { id: self.id, layout: self.layout(), text: &self.to_json() }.to_words()
    }
}

impl Entry<'_> {
    /// Returns the entry as the words of the table.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        let text = self.text.as_bytes();
        let size = (FRAME + text.len()).next_multiple_of(8);
        let mut bytes = Vec::with_capacity(size);
        for number in [size as u32, self.id.get(), text.len() as u32, check(text)] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(&self.layout.to_ne_bytes());
        bytes.extend_from_slice(text);
        bytes.resize(size, 0);
        bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
    }
}

/// Iterates over the entries of a type table: over a private copy of its bytes from the first entry
/// to the last.
///
/// Ends after the first invalid entry.
///
/// ```
/// use perfring_types::{Encoding, Entries, Schema};
/// let schema = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id();
/// let words = schema.to_entry();
/// let entry = Entries::new(&words).next().unwrap()?;
/// assert_eq!((entry.id, entry.text), (schema.id, schema.to_json().as_str()));
/// # Ok::<(), perfring_types::BadEntry>(())
/// ```
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// Makes an iterator over these words.
    #[must_use]
    pub fn new(words: &'a [u64]) -> Self {
        Entries { bytes: bytemuck::cast_slice(words), at: 0 }
    }

    fn entry(&mut self) -> Result<Entry<'a>, &'static str> {
        let rest = &self.bytes[self.at..];
        let number = |at: usize| {
            let bytes = rest.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or("it is truncated")
        };
        let (size, len) = (number(0)? as usize, number(8)? as usize);
        if !size.is_multiple_of(8) || size > rest.len() {
            return Err("its size is invalid");
        }
        if size > ENTRY_MAX || len > ENTRY_MAX || (FRAME + len).next_multiple_of(8) != size {
            return Err("its length is invalid");
        }
        let text = &rest[FRAME..FRAME + len];
        if number(12)? != check(text) {
            return Err("its text does not match its checksum");
        }
        let id = RecordType::new(number(4)?).ok_or("its id is reserved")?;
        let text = core::str::from_utf8(text).map_err(|_| "its text is not UTF-8")?;
        self.at += size;
        Ok(Entry { id, layout: bytemuck::pod_read_unaligned(&rest[16..FRAME]), text })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let at = self.at as u64;
        Some(self.entry().map_err(|what| {
            self.at = self.bytes.len();
            BadEntry { at, what }
        }))
    }
}

/// FNV-1a, 32 bits.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Encoding;
    use alloc::vec;

    fn entry(name: &str) -> Vec<u64> {
        Schema::new(name, Encoding::Json).with_hashed_id().to_entry()
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let words = entry("some.Thing");
        let good = Entries::new(&words).next().unwrap().unwrap();
        for at in (0..words.len() * 8).filter(|at| !(16..24).contains(at)) {
            let mut changed = words.clone();
            changed[at / 8] ^= 0x21 << (at % 8 * 8);
            // A changed id may be another id, and padding is ignored; every other change is
            // detected.
            match Entries::new(&changed).next().unwrap() {
                Ok(entry) => {
                    assert_eq!((entry.layout, entry.text), (good.layout, good.text), "{at}");
                    assert!((4..8).contains(&at) || at >= FRAME + good.text.len(), "{at}");
                }
                Err(damage) => assert_eq!(damage.at, 0),
            }
        }
    }

    #[test]
    fn entries_before_damage_are_valid_and_later_ones_are_not_read() {
        let (one, two) = (entry("one"), entry("two"));
        let mut words = [one.clone(), two.clone(), one.clone()].concat();
        assert_eq!(Entries::new(&words).filter(Result::is_ok).count(), 3);
        words[one.len()] = 0;
        let found: Vec<_> = Entries::new(&words).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok());
        assert_eq!(found[1].unwrap_err().at, 8 * one.len() as u64);
        assert_eq!(Entries::new(&words[..one.len()]).count(), 1);
        assert!(Entries::new(&one[..one.len() - 1]).next().unwrap().is_err());
    }

    #[test]
    fn any_words_are_read_without_a_panic() {
        for len in 0..6 {
            for word in [0, 1, 8, 24, 32, u64::MAX, 32 | 4096 << 32, u64::from(u32::MAX)] {
                assert!(Entries::new(&vec![word; len]).count() <= len.max(1));
            }
        }
    }
}
