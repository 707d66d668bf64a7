//! An entry of the type table: the frame around a schema's text.
//!
//! ```
//! use perfring_types::entry::{Entries, encode_entry};
//! use perfring_abi::RecordType;
//! let id = RecordType::new(5000).unwrap();
//! let words = encode_entry(id, r#"{"name":"demo.Tick"}"#);
//! let table: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
//! let entry = Entries::new(&table).next().unwrap().unwrap();
//! assert_eq!((entry.id, entry.text), (id, r#"{"name":"demo.Tick"}"#));
//! ```

use alloc::vec::Vec;
use core::fmt;
use perfring_abi::RecordType;

/// `size`, `id`, `len`, `check`.
const HEAD: usize = 16;
/// No entry is smaller.
const LEAST: usize = 24;

/// The words of an entry as they stand in the table: header, text, zeros.
///
/// Empty if the text is longer than an entry can say, which is just under 4 GiB.
#[must_use]
pub fn encode_entry(id: RecordType, text: &str) -> Vec<u64> {
    let size = text.len().saturating_add(HEAD).checked_next_multiple_of(8);
    let Some(Ok(size)) = size.map(|size| u32::try_from(size.max(LEAST))) else {
        return Vec::new();
    };
    let mut words = Vec::with_capacity(size as usize / 8);
    words.push(pair(size, id.get()));
    words.push(pair(text.len() as u32, check(text.as_bytes())));
    let (whole, rest) = text.as_bytes().as_chunks::<8>();
    words.extend(whole.iter().map(|chunk| u64::from_ne_bytes(*chunk)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words.push(u64::from_ne_bytes(last));
    }
    words.resize(size as usize / 8, 0);
    words
}

/// Two `u32`s, the first at the lower address.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// FNV-1a, 32 bits.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ *byte as u32).wrapping_mul(0x0100_0193))
}

/// One type of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The record type.
    pub id: RecordType,
    /// Its schema: a line of JSON, not looked at yet.
    pub text: &'a str,
}

/// A place in the table where no entry can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// Where it begins, counted from the table's first entry.
    pub at: usize,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Short(usize),
    Size(u32, usize),
    Length(u32, u32),
    Id(u32),
    Check(u32, u32),
    Text,
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the type table is damaged at its byte {}: ", self.at)?;
        match self.cause {
            Cause::Short(left) => write!(f, "{left} bytes are left, too few for an entry"),
            Cause::Size(size, left) => {
                write!(f, "an entry of {size} bytes, where {left} are left")
            }
            Cause::Length(len, size) => {
                write!(f, "a text of {len} bytes in an entry of {size}")
            }
            Cause::Id(id) => write!(f, "{id:#x} is no type of an application's records"),
            Cause::Check(is, says) => {
                write!(f, "the text's check is {is:#010x}, and the entry says {says:#010x}")
            }
            Cause::Text => write!(f, "the text is not UTF-8"),
        }?;
        write!(f, "; the types before it can be used")
    }
}

impl core::error::Error for BadEntry {}

/// The entries of a table, in their order. The first that cannot be is damage, and ends the walk.
///
/// It walks over a private copy: the table of a living ring is only added to, but whoever can write
/// the file can do more.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    table: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// Of the bytes from the table's first entry to `types_used`.
    #[must_use]
    pub fn new(table: &'a [u8]) -> Self {
        Entries { table, at: 0 }
    }

    fn read(&self) -> Result<(Entry<'a>, usize), Cause> {
        let rest = self.table.get(self.at..).unwrap_or_default();
        let Some((head, _)) = rest.split_first_chunk::<LEAST>() else {
            return Err(Cause::Short(rest.len()));
        };
        let [size, id, len, says] = [0, 4, 8, 12].map(|at| {
            let [a, b, c, d] = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            u32::from_ne_bytes([a, b, c, d])
        });
        let entry = match rest.get(..size as usize) {
            Some(entry) if size as usize >= LEAST && size.is_multiple_of(8) => entry,
            _ => return Err(Cause::Size(size, rest.len())),
        };
        let text = entry.get(HEAD..).and_then(|texts| texts.get(..len as usize));
        let text = text.ok_or(Cause::Length(len, size))?;
        let id = RecordType::new(id).ok_or(Cause::Id(id))?;
        let is = check(text);
        if is != says {
            return Err(Cause::Check(is, says));
        }
        let text = str::from_utf8(text).map_err(|_| Cause::Text)?;
        Ok((Entry { id, text }, self.at + entry.len()))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.table.len() {
            return None;
        }
        match self.read() {
            Ok((entry, next)) => {
                self.at = next;
                Some(Ok(entry))
            }
            Err(cause) => {
                let bad = BadEntry { at: self.at, cause };
                self.at = self.table.len();
                Some(Err(bad))
            }
        }
    }
}

impl core::iter::FusedIterator for Entries<'_> {}
