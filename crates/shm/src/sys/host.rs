//! This machine, as far as rings ask.

/// Bytes of a page.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}
