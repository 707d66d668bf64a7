//! Agrona's two ring buffers and its broadcast, in an implementation of their layout and protocol.
//!
//! The originals are Java, and C within Aeron's client, which copies a message in by a call. These
//! have the originals' `tryClaim` and `commit` instead, written and read in place and compiled into
//! the loop. Layout, positions and steps are those of Agrona 2 and Aeron 1.5x: records of an
//! aligned length and a type, a trailer of positions behind the data, padding at the end.

mod broadcast;
mod buffer;
mod many;
mod one;
mod ring;

pub use broadcast::Broadcast;
pub use many::ManyToOne;
pub use one::OneToOne;
