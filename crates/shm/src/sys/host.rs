//! This machine, as far as rings ask.

/// Bytes of a page.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The name that this program was started by, without its folders: what a producer or consumer signs with.
#[must_use]
pub fn program_name() -> String {
    std::env::args_os()
        .next()
        .and_then(|arg| {
            Some(std::path::Path::new(&arg).file_name()?.to_string_lossy().into_owned())
        })
        .unwrap_or_default()
}
