//! `perfring demo`: producers, a sidecar and a murder, in a few seconds.
//!
//! The parent starts one process per ring and a sidecar that follows them all and writes what they
//! say to files, kills a producer in mid-stream, and ends the rest in order. Every process is this program, started anew.

mod accounts;
mod child;
mod engine;
mod files;
mod host;
mod metrics;
mod mortem;
mod pace;
mod parent;
mod producer;
mod records;
mod says;
mod screen;
mod sidecar;
mod stations;
mod watch;

pub(crate) use child::{ChildArgs, child};
pub(crate) use parent::{Args, run};
