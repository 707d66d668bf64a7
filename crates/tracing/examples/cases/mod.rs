//! The calls that `cost.rs` times and `calls.rs` counts.

use std::hint::black_box;
use tracing::{info, info_span};

pub(crate) fn event(n: u64) {
    info!(user = n, ratio = n as f64 / 2.0, ok = n.is_multiple_of(2), "something happened");
}

pub(crate) fn message(n: u64) {
    info!(n, "{} happened", black_box("something"));
}

pub(crate) fn span(n: u64) {
    let _span = info_span!("request", user = n).entered();
}

pub(crate) fn event_in_span(n: u64) {
    let _span = info_span!("request", user = n).entered();
    event(n);
}
