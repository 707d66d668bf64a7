//! Typed records for tests: a plain struct and an archive.

use bytemuck::{Pod, Zeroable};
use perfring_types::Record;
use rkyv::{Archive, Serialize};

/// A plain struct of 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, Record)]
pub struct Quote {
    /// Counts from 0.
    pub number: u64,
    /// The price that was asked.
    #[record(unit = "EUR")]
    pub price: f64,
    /// How many.
    pub volume: u32,
    /// Which market.
    #[record(text)]
    pub market: [u8; 4],
    /// The last few.
    pub last: [f64; 5],
}

impl Quote {
    /// Makes one whose fields all follow from its number.
    #[must_use]
    pub fn of(number: u64) -> Self {
        let price = number as f64 / 8.0;
        let last = [0.0, 1.0, 2.0, 3.0, 4.0].map(|back| price - back);
        Quote { number, price, volume: number as u32 ^ 0x5a5a, market: *b"XETR", last }
    }
}

/// An archive with a string and three fields, and a list.
#[derive(Clone, Debug, PartialEq, Archive, Serialize, Record)]
#[record(rkyv)]
pub struct Line {
    /// Counts from 0.
    pub number: u64,
    /// The text of the event.
    pub message: String,
    /// How long it took.
    #[record(unit = "ms")]
    pub took: f64,
    /// How it ended.
    pub code: Option<i32>,
    /// Words on it.
    pub tags: Vec<String>,
}

impl PartialEq<Line> for ArchivedLine {
    fn eq(&self, line: &Line) -> bool {
        self.number == line.number
            && self.message.as_str() == line.message
            && self.took.to_native().to_bits() == line.took.to_bits()
            && self.code.as_ref().map(|code| code.to_native()) == line.code
            && self.tags.iter().map(|tag| tag.as_str()).eq(&line.tags)
    }
}
