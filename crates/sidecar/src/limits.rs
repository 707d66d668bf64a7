//! Resource limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of descriptors as far as allowed: each ring takes two, and the usual limit is
/// 1024. Returns how many descriptors may be open now; `None` for any number.
pub fn raise_limits() -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    }
}
