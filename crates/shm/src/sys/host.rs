//! This machine, as far as rings ask.

use std::path::Path;

/// Bytes of a page.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The name that this program was started by, without its folders: what a producer or consumer signs with.
#[must_use]
pub fn program_name() -> String {
    let arg = std::env::args_os().next().unwrap_or_default();
    Path::new(&arg).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
