//! Many producer processes and one ring.
//!
//! All producers of a sample run from a common start for its time, pinned, and count what they
//! publish and what they are refused, by cause. Their counts must agree with the ring's totals and
//! with what was read or is left, producer by producer; see [`audit`](crate::audit).

mod cases;
mod consume;
pub(crate) mod crew;
mod produce;
mod race;
pub(crate) mod report;
