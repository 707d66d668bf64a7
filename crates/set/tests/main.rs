//! The tests of ring sets.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot continue has failed"
)]

mod asleep;
mod cpu;
mod dir_merge;
mod feeds;
mod feeds_model;
mod followers;
mod fullest_first;
mod merge_flood;
mod merge_live;
mod merge_model;
mod producers;
mod pruning;
mod sets_below;
