//! perfring explained, for those who use it. The examples are compiled and run with the tests.
//!
//! | you | read |
//! |---|---|
//! | want to know what happens inside | [`architecture`] |
//! | write a program that publishes or reads | [`application`] |
//! | run the sidecar | [`sidecar`] |
//! | have a dead process and a ring file, at three in the morning | [`at_night`] |
//! | use Python and numpy | [`python`] |
//! | wonder about memory: huge pages, locking, NUMA | [`memory`] |
//! | wonder whether something else would do | [`why_not`] |
//!
//! `cargo doc -p perfring-guide --open` shows these pages. The format itself is in `proto/ABI.md`, and
//! every figure in `benches/RESULTS.md`.
#![forbid(unsafe_code)]

#[doc = include_str!("application.md")]
pub mod application {}

#[doc = include_str!("architecture.md")]
pub mod architecture {}

#[doc = include_str!("at_night.md")]
pub mod at_night {}

#[doc = include_str!("memory.md")]
pub mod memory {}

#[doc = include_str!("python.md")]
pub mod python {}

#[doc = include_str!("sidecar.md")]
pub mod sidecar {}

#[doc = include_str!("why_not.md")]
pub mod why_not {}
