//! Models of the effects of a ring's processes on one another. Each is a state machine of a few words of the page and of
//! the kernel's state. `stateright` tries all orders of its steps, with a death after any of them.
//!
//! They cover the parts that loom lacks: open file descriptions and their locks, forks, seats that are used again, and
//! sleeps. A process that is stopped for ever takes no further step, which any order of steps allows. Memory is the memory
//! of one processor; loom covers weaker processors.
//!
//! Each model has its mends as switches, and its tests show that it finds the faults without them.
#![cfg(test)]

mod seats;
mod sleep;
