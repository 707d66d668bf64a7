//! `perfring demo`: producers, a sidecar and a kill -9, in a few seconds.
//!
//! The parent starts one process per ring and a sidecar that follows all rings and writes their
//! records to files, kills a producer in mid-stream, and ends the others in order. Each process
//! runs this program.

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
