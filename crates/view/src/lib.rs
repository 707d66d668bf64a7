//! What is to be seen of rings, as an observer: nothing here writes to a ring, or delays a process that does.
//!
//! | | |
//! |---|---|
//! | [`watch`] | polls rings and computes their rows |
//! | [`row`] | a ring as it is shown: rates, lags, losses, who is attached, its state |
//!
//! `perfring-figures` says what the numbers mean.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod rates;
pub mod row;
#[cfg(feature = "serve")]
pub mod serve;
pub mod watch;
