//! Tagged payloads: a list of values, each with its field's number or its name, and its own type.
//!
//! [`TaggedWriter`] makes them on a producer's hot path, [`Values`] reads them. `proto/ABI.md`,
//! "Types", is the contract.
//!
//! ```
//! use perfring_types::tagged::{Data, TaggedWriter, Values};
//! let mut payload = Vec::with_capacity(256);
//! let mut writer = TaggedWriter::new(&mut payload);
//! writer.u64(0u16, 7);
//! writer.text("peer", "10.0.0.1");
//! writer.display(1u16, format_args!("{} of {}", 3, 4));
//! assert!(!writer.is_cut());
//!
//! let values: Vec<_> = Values::new(&payload).map(Result::unwrap).collect();
//! assert_eq!((values[0].field, values[0].data), (Some(0), Data::U64(7)));
//! assert_eq!((values[1].name, values[1].data), ("peer", Data::Text("10.0.0.1")));
//! assert_eq!((values[2].field, values[2].data), (Some(1), Data::Text("3 of 4")));
//! ```

mod read;
mod write;

pub use read::{Damage, Data, List, TaggedValue, Values};
pub use write::{CUT, Key, TaggedWriter};

/// Where the field's number would be: the name stands with the value.
const NAMED: u16 = 0xffff;
/// The number, the tag, the name's length and the value's.
const HEAD: usize = 8;

const NONE: u8 = 0;
const BOOL: u8 = 1;
const I64: u8 = 2;
const U64: u8 = 3;
const F64: u8 = 4;
const TEXT: u8 = 5;
const BYTES: u8 = 6;
const I128: u8 = 7;
const U128: u8 = 8;
const F64S: u8 = 9;
const U64S: u8 = 10;

/// As many of `text`'s bytes as fit into `room`, whole characters only.
fn whole_chars(text: &str, room: usize) -> &str {
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1; // 0 is a boundary
    }
    &text[..end]
}
