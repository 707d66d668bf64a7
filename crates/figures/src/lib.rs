//! What a ring's figures mean. The command, the page and the Python package show them.
//!
//! | | |
//! |---|---|
//! | [`accounts`] | what was written, read and lost, and how full a ring is |
//! | [`agreed`] | a consistent set of figures |
//! | [`json`] | the figures as a JSON object, with the names of `proto/ABI.md` |
//! | [`areas`] | how full a type table and a metrics area are |
//! | [`instruments`] | what instruments have measured, with their names and processes |
//! | [`owner`], [`named`], [`process`], [`cgroup`] | producers and consumers in words, and what /proc and cgroups say of them |
//! | [`escape`] | text that is safe for a terminal |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod accounts;
pub mod agreed;
pub mod areas;
pub mod cgroup;
pub mod escape;
pub mod instruments;
pub mod json;
pub mod named;
pub mod owner;
pub mod process;
