//! Models of what the processes of a ring do to one another: each is a state machine of a few words of the page and of
//! what the kernel knows, and `stateright` goes through all orders of its steps, with a death after any of them.
//!
//! They are about what loom does not have: open file descriptions and their locks, forks, seats that are used again, and
//! sleeps. A process that is stopped for ever takes no further step, which any order of steps allows. Memory is that of
//! one processor; what weaker ones do is loom's.
//!
//! Each model has its mends as switches, and its tests show that it finds what happened without them.
#![cfg(test)]

mod seats;
mod sleep;
