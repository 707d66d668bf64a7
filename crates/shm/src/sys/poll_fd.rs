//! One `poll(2)` of one descriptor.

use nix::libc;
use std::time::Duration;

/// Sleeps until a descriptor is readable, for at most `limit`. Returns the events; none for -1, which `poll` skips.
pub(crate) fn poll_in(fd: libc::c_int, limit: Duration) -> libc::c_short {
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, limit) };
    poll.revents
}
