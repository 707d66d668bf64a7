//! The boot of a ring: the kernel under which it was made.

use perfring_consumer::Layout;
use std::fs;
use uuid::Uuid;

/// Where a ring was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// Since this machine started.
    This,
    /// Before that, or on another machine.
    Other,
    Unknown,
}

/// Said of a ring that is not of this boot.
pub(crate) const OTHER: &str = "of another boot or another machine";

/// Returns where a ring was made.
pub(crate) fn of(layout: &Layout) -> Boot {
    let here = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let here = here.ok().and_then(|text| Uuid::try_parse(text.trim()).ok());
    match (here, Uuid::from_bytes(layout.boot_id)) {
        (Some(here), ring) if here == ring => Boot::This,
        (Some(_), ring) if !ring.is_nil() => Boot::Other,
        _ => Boot::Unknown,
    }
}

/// Says that a ring is not of this boot; `None` if it is, or if that is not known.
pub(crate) fn sentence(layout: &Layout) -> Option<&'static str> {
    (of(layout) == Boot::Other).then_some(OTHER)
}
