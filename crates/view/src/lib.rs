//! What is to be seen of rings, as an observer: nothing here writes to a ring, or delays a process that does.
//!
//! | | |
//! |---|---|
//! | [`watch`] | polls rings and computes their rows |
//! | [`row`] | a ring as it is shown: rates, lags, losses, who is attached, its state |
//! | [`accounts`] | what was written, read and lost, and how full a ring is |
//! | [`figures`] | a ring's figures of one moment, by their names in JSON |
//! | [`owner`], [`named`], [`process`] | producers and consumers in words, and what /proc says of them |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod accounts;
pub mod escape;
pub mod figures;
pub mod named;
pub mod owner;
pub mod process;
mod rates;
pub mod row;
#[cfg(feature = "serve")]
pub mod serve;
pub mod watch;
