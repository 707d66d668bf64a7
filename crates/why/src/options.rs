//! What to look for.

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A gap between two records of one thread counts from this length on, ns.
    pub slower_than: u64,
    /// What ended before this time does not count, ns of `CLOCK_BOOTTIME`.
    pub since: u64,
}

impl Default for Options {
    /// Gaps from 100 µs on, of all times.
    fn default() -> Self {
        Options { slower_than: 100_000, since: 0 }
    }
}
