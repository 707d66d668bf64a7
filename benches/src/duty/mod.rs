//! The loops that both ends run.

mod channels;
mod patience;
mod stream;
mod trips;

pub use channels::{cold_receive, cold_send, hold_receive, hold_send};
pub use stream::{copy, offer, receive, send};
pub use trips::{answer, answer_line, ask, ask_line};
