//! perfring beside other means of transferring records from one process to another.
//!
//! Real processes on cores of their own, each contestant on its own fast path, every byte verified
//! by the receiver, in one run and taking turns, each sample with the distance of the cores before
//! and after it. The harness is perfring-bench's; here are the rivals. `ROWS.md` describes the
//! report.

pub mod contest;
pub mod entrants;
