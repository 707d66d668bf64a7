//! The tests of the command, in one program: each by itself would be linked with all that the command links.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod amounts;
mod bpf;
mod checked;
mod cli;
mod command;
mod cpu;
mod demo;
mod denied;
mod doctor;
mod endings;
mod faults;
mod file_systems;
mod files;
mod generated;
mod guide;
mod images;
mod instruments;
mod kernel;
mod kinds;
mod large;
mod limits;
mod losses;
mod named;
mod operations;
mod options;
mod service;
mod sets;
mod sets_below;
mod shared;
mod sick_outputs;
mod sidecar;
mod storm;
mod top;
mod typed;
mod typed_files;
mod types;
mod valgrind;
#[cfg(feature = "view")]
mod view;
mod why;
