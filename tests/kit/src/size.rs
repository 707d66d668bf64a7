//! Which part of a large set of cases one run tries.

use std::path::{Path, PathBuf};

/// Returns whether `PERFRING_LONG` requests all cases.
#[must_use]
pub fn long() -> bool {
    std::env::var_os("PERFRING_LONG").is_some_and(|value| !value.is_empty())
}

/// Returns a filter that passes every `of`-th case, from the `nth` on; every case with
/// `PERFRING_LONG`.
///
/// A caller that increments `nth` from one kind of ring to the next tries each case on one of them.
pub fn every(nth: usize, of: usize) -> impl FnMut() -> bool {
    let (of, mut next) = if long() { (1, 0) } else { (of, nth % of) };
    move || {
        let taken = next == 0;
        next = if taken { of - 1 } else { next - 1 };
        taken
    }
}

/// Returns `short`, or `long` with `PERFRING_LONG`.
#[must_use]
pub fn cases(short: u64, long: u64) -> u64 {
    if self::long() { long } else { short }
}

/// Returns a number from the environment, such as `PERFRING_STORM_SECONDS`.
#[must_use]
pub fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.map(Path::to_owned).unwrap_or_default()
}
