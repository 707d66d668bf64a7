//! The tests of `#[derive(Record)]`: schemas of structs, enums and archives, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod archives;
mod enums;
mod pod;
mod refused;
