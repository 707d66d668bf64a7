//! The tests of the engine and its configuration, in one program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod config;
mod damaged;
mod delivery;
mod error_texts;
mod metrics;
mod priority;
mod rules;
mod scripted;
mod snapshots;
