//! Tagged payloads: lists of values, each with its field's number or its name, and its own type.
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
//! assert!(!writer.is_truncated());
//!
//! let values: Vec<_> = Values::new(&payload).map(Result::unwrap).collect();
//! assert_eq!((values[0].field, values[0].data), (Some(0), Data::U64(7)));
//! assert_eq!((values[1].name, values[1].data), ("peer", Data::Text("10.0.0.1")));
//! assert_eq!((values[2].field, values[2].data), (Some(1), Data::Text("3 of 4")));
//! ```

mod code;
mod limited;
mod padded;
mod read;
mod write;

pub use read::{Damage, Data, List, TaggedValue, Values};
pub use write::{CUT, Key, TaggedWriter};
