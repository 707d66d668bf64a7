//! Runs a model under loom.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tries the orders of a model with so many forced switches. The number of executions is bounded, not the time: a busy
/// machine tries as many as an idle one. `PERFRING_LONG` tries all orders of almost every model.
///
/// `run` adds to its argument when the case under test occurs. Prints how often it did, and fails if it never did, as
/// the model then shows nothing; a model without a name may lack the case. Returns the number.
pub(crate) fn model(
    name: &str,
    switches: usize,
    run: impl Fn(&AtomicU64) + Sync + Send + 'static,
) -> u64 {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 50_000;
    let long = std::env::var_os("PERFRING_LONG").is_some();
    builder.max_permutations = Some(if long { 1_000_000 } else { 20_000 });
    // How often loom compares the number of executions with the bound.
    builder.checkpoint_interval = 1_000;
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let inner = Arc::clone(&counts);
    builder.check(move || {
        inner.0.fetch_add(1, Relaxed);
        run(&inner.1);
    });
    let (runs, hits) = (counts.0.load(Relaxed), counts.1.load(Relaxed));
    if !name.is_empty() {
        println!("{name}: {runs} executions, {hits} hits");
        assert!(hits > 0, "{name}: the case under test never occurred");
    }
    hits
}
