//! Typed records.
//!
//! A [`Schema`] describes a record's payload: its name, its encoding, its fields. A producer writes
//! it into the ring's *type table* once, as a line of JSON ([`Schema::to_json`]), so that a program
//! that has only the file can show every field by name. `proto/ABI.md`, "Types", is the contract.
//!
//! Schemas are made by `#[derive(Record)]`, or by hand where the fields are known only at run time.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "read"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[doc(hidden)]
pub mod derived;
mod entry;
mod enums;
mod id;
mod json;
#[cfg(feature = "read")]
pub mod read;
#[cfg(feature = "rkyv")]
mod rkyv;
mod schema;
mod shape;
pub mod tagged;
mod text;

#[doc(no_inline)]
pub use bytemuck;
pub use entry::{BadEntry, ENTRY_MAX, Entries, Entry};
pub use enums::{Enum, EnumOf, Labelled};
#[cfg(feature = "derive")]
pub use perfring_derive::Record;
#[cfg(feature = "rkyv")]
pub use rkyv::{ArchiveBuffer, ArchiveError, Borrowed, FormatError, RKYV_FORMAT, RkyvRecord};
#[cfg(feature = "rkyv")]
pub use rkyv::{access, archive_into, check_format};
pub use schema::{Class, Constant, Encoding, Field, Kind, Label, Schema, Shape};
pub use shape::{PodRecord, Record, Shaped};
pub use text::{Text, TooLong};
