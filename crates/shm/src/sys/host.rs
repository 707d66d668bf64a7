//! Facts about this machine and process.

use std::path::Path;

/// Returns the bytes of a page.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the name that this program was started by, without directories: the default name of a
/// producer or consumer.
#[must_use]
pub fn program_name() -> String {
    let arg = std::env::args_os().next().unwrap_or_default();
    Path::new(&arg).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
