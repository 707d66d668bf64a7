//! perfring explained.
//!
//! | to | read |
//! |---|---|
//! | write a program that publishes or reads | [`application`] |
//! | find out what an error message means | [`errors`] |
//! | find out why a record came late, or was lost | [`why`] |
//! | know what happens inside | [`architecture`] |
//! | run the sidecar | [`sidecar`] |
//! | watch rings in a browser | [`view`] |
//! | read the file of a process that has died | [`at_night`] |
//! | read a ring after its kernel has died, or from outside of a guest | [`after_kernel`] |
//! | use Python and numpy | [`python`] |
//! | tune memory: huge pages, locking, NUMA | [`memory`] |
//! | know what holds beside a process that breaks the protocol, and when a borrow is sound | [`trust`] |
//! | know which kernels, libraries and file systems it runs on, and what later versions keep | [`support`] |
//! | compare perfring with something else | [`why_not`] |
//!
//! The format of a ring is specified in `proto/ABI.md`, with a glossary; all figures are in `benches/RESULTS.md`.

#[doc = include_str!("after_kernel.md")]
pub mod after_kernel {}

// Its examples need both; the page is shown without them, too.
#[cfg_attr(
    any(not(doctest), all(feature = "derive", feature = "set", feature = "tokio")),
    doc = include_str!("application.md")
)]
pub mod application {}

#[doc = include_str!("architecture.md")]
pub mod architecture {}

#[doc = include_str!("at_night.md")]
pub mod at_night {}

#[doc = include_str!("errors.md")]
pub mod errors {}

#[doc = include_str!("memory.md")]
pub mod memory {}

#[doc = include_str!("python.md")]
pub mod python {}

#[doc = include_str!("sidecar.md")]
pub mod sidecar {}

#[doc = include_str!("support.md")]
pub mod support {}

#[doc = include_str!("trust.md")]
pub mod trust {}

#[doc = include_str!("view.md")]
pub mod view {}

#[doc = include_str!("why.md")]
pub mod why {}

#[doc = include_str!("why_not.md")]
pub mod why_not {}
