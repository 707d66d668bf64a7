//! The loops that both ends run.

mod channels;
mod stream;
mod trips;

pub use channels::{cold_receive, cold_send, hold_receive, hold_send};
pub use stream::{copy, offer, receive, send};
pub use trips::{answer, answer_line, ask, ask_line};

/// Looks between two that also give the core up: the other end may be on it.
const PATIENT_LOOKS: u32 = 4096;
