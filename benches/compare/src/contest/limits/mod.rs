//! The limits: bare loops that move the same bytes and check nothing.
//!
//! They are no libraries: they are correct only because the harness gives each one sender, one
//! receiver and one length of payload, and trusts them; the lock word's has several senders.

mod flag;
mod floor;
mod lock_word;
mod slots;

pub use flag::Flag;
pub use floor::Floor;
pub use lock_word::LockWord;
pub use slots::Slots;
