//! Records with a shape.
//!
//! A [`Schema`] says what a record's payload is: its name, its encoding, its fields. A producer
//! writes it into the ring's *type table* once, as a line of JSON ([`Schema::to_json`]), so that
//! whoever has the file alone can show every field by name. `proto/ABI.md`, "Types", is the
//! contract.
//!
//! Schemas are made by `#[derive(Record)]`, or by hand where the fields are known only at run time.
#![cfg_attr(not(feature = "read"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod entry;
mod id;
mod json;
#[cfg(feature = "read")]
pub mod read;
mod schema;
mod shape;
pub mod tagged;

pub use entry::{BadEntry, Entries, Entry};
pub use schema::{Class, Constant, Encoding, Field, Kind, Label, Schema, Shape};
pub use shape::{PodRecord, Record, Shaped};
