//! What the tests of several crates share. It knows the layout and no algorithm, so that the tests of
//! every crate can use it.
//!
//! * [`rng`] and [`choices`]: random numbers from a seed, and decisions from a fuzzer's bytes;
//! * [`nasty`]: the values that numbers of a ring are most likely to be broken by;
//! * [`words`]: the words of a ring in memory that any process with the file can change;
//! * [`image`] and [`invalid`]: ring files in memory, and what can be wrong with them;
//! * [`spoiler`]: a process that rewrites a ring file while others use it.
//!
//! A suite of tests is then a list of readers and writers that are held against these.
#![allow(clippy::panic, reason = "a test that cannot go on has failed")]

pub mod choices;
pub mod image;
pub mod invalid;
pub mod nasty;
pub mod rng;
pub mod size;
pub mod spoiler;
pub mod words;
