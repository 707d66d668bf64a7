//! Helpers for the tests of several crates. They know the layout and no algorithm, so that the
//! tests of every crate can use them.
//!
//! * [`rng`] and [`choices`]: random numbers from a seed, and decisions from a fuzzer's bytes;
//! * [`nasty`]: the values that are most likely to break a ring's numbers;
//! * [`words`]: the words of a ring in memory that any process with the file can change;
//! * [`image`] and [`invalid`]: ring files in memory, valid and invalid;
//! * [`headings`]: the headings with which error messages are compared;
//! * [`spoiler`]: a process that rewrites a ring file while others use it;
//! * [`wait`]: the only wait for a condition, and its watchdog;
//! * [`alone`]: runs one test alone in a new process;
//! * [`size`]: which part of a large set of cases one run tries.
//!
//! A test suite is then a list of readers and writers that are run against these.
#![allow(clippy::panic, reason = "a test that cannot continue has failed")]

pub mod alone;
pub mod choices;
pub mod headings;
pub mod image;
pub mod invalid;
pub mod nasty;
pub mod rng;
pub mod size;
pub mod spoiler;
pub mod wait;
pub mod words;
