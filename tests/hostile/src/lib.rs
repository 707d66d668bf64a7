//! Hostile bytes at every door of perfring: each target is a function of bytes, which libFuzzer's
//! programs (`tests/fuzz`) and the replay (`tests/replay.rs`) call alike.
//!
//! A target ends with what it read, or with an error. A panic, an arithmetic overflow, an endless walk,
//! more memory than [`MEMORY`], or a broken promise of what was read is a find.

#![allow(clippy::panic, reason = "a panic is how a find is told")]

mod attach;
mod config;
mod engines;
mod events;
mod export;
mod file;
mod heap;
mod kernel;
mod memory;
mod read;
mod recording;
mod recover;
pub mod seeds;
mod types;
mod wherever;

pub use memory::MEMORY;

/// A target's name and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("attach", attach::run),
    ("config", config::run),
    ("engines", engines::run),
    ("export", export::run),
    ("kernel", kernel::run),
    ("read", read::run),
    ("recording", recording::run),
    ("recover", recover::run),
    ("types", types::run),
    ("where", wherever::run),
];

/// Runs a target of this name.
///
/// # Panics
/// If there is none, or with what it finds.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(its, _)| *its == name);
    (target.expect("a target of this name").1)(data);
}
