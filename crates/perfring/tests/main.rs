//! The tests of what a user reads first: README, the texts of errors, and the examples.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod error_texts;
#[cfg(all(
    feature = "decode",
    feature = "derive",
    feature = "metrics",
    feature = "set",
    feature = "tokio",
    feature = "tracing"
))]
mod examples;
mod readme;
