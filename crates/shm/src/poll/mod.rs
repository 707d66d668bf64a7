//! A descriptor that becomes readable when a consumer is woken, for event loops.
//!
//! A wake is a futex in the ring's page, which no event loop can wait for. Producers are not
//! involved: a descriptor for them to write to would cost every ring another file, and each wake
//! another system call. Therefore the consumer's own process turns futex wakes into readable descriptors:
//!
//! * by an io_uring of each descriptor, whose one request waits on the futex: the io_uring itself is
//!   the descriptor, and there is no thread (Linux 6.7);
//! * if io_uring is unavailable, for example in most containers, by one thread for each 127 rings,
//!   which waits for all of its rings in one call and writes to eventfds (Linux 5.16; on older
//!   kernels it polls every 5 ms).
//!
//! A thread that sleeps on very many rings does so by one io_uring for all of them: `many`.

mod front_page;
pub(crate) mod many;
pub(crate) mod pollable;
mod thread;
mod uring;
