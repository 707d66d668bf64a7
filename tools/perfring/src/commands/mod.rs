//! The commands: `perfring tail` is `tail.rs`; `man` and `completions` are `generate.rs`.
//! `follow.rs` and `kernel.rs` are shared by `tail` and `consume`.

#[cfg(feature = "bench")]
pub(crate) mod bench;
pub(crate) mod consume;
pub(crate) mod create;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod export;
mod follow;
pub(crate) mod generate;
mod kernel;
pub(crate) mod ls;
pub(crate) mod metrics;
#[cfg(not(all(feature = "bench", feature = "top", feature = "view")))]
pub(crate) mod missing;
pub(crate) mod prune;
pub(crate) mod publish;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod rm;
mod rotation;
pub(crate) mod sidecar;
pub(crate) mod stat;
pub(crate) mod tail;
mod tail_dir;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod types;
#[cfg(feature = "view")]
pub(crate) mod view;
pub(crate) mod why;
