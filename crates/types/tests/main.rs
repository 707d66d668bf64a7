//! The tests of types: what is written, what any reader makes of it, and what it refuses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[cfg(feature = "read")]
mod any_schema;
#[cfg(feature = "read")]
mod archives;
#[cfg(feature = "read")]
mod hostile;
#[cfg(feature = "read")]
mod shown;
mod tagged;
