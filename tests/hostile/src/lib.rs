//! Hostile bytes for every entry point of perfring: each target is a function of bytes, which
//! libFuzzer's programs (`tests/fuzz`) and the replay (`tests/replay.rs`) both call.
//!
//! A target ends with the items that it read, or with an error. A finding is a panic, an arithmetic overflow,
//! an endless loop, more memory than [`MEMORY`], or an output that breaks a promise.

#![allow(clippy::panic, reason = "a panic reports a finding")]

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

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
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

/// Runs the target with this name.
///
/// # Panics
/// If the target does not exist, or with its finding.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(its, _)| *its == name);
    (target.expect("a target of this name").1)(data);
}
