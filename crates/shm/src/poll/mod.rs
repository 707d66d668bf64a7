//! A descriptor that becomes readable when a consumer is woken, for event loops.
//!
//! A wake is a futex in the ring's page, which no event loop can wait for. Producers are not to know
//! of it: what would have them write to a descriptor costs every ring a file more, and a system call
//! more for each wake. So the consumer's own process turns the one into the other:
//!
//! * by an io_uring of each descriptor, whose one request waits on the futex: the io_uring itself is
//!   the descriptor, and there is no thread (Linux 6.7);
//! * where that is not to be had, as in most containers, by one thread for each 127 rings, that waits
//!   for all of theirs in one call and writes to eventfds (Linux 5.16; before, it looks every
//!   5 ms).

mod front_page;
pub(crate) mod pollable;
mod thread;
mod uring;
