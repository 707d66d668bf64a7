//! perfring explained.
//!
//! | to | read |
//! |---|---|
//! | write a program that publishes or reads | [`application`] |
//! | share a ring between producers, or have a ring for each CPU | [`per_cpu`] |
//! | put several types, strings and lists into a ring | [`record_types`] |
//! | choose the size of a ring | [`sizing`] |
//! | read rings in a tokio program, a directory included | [`mod@tokio`] |
//! | publish logs, spans and metrics | [`telemetry`] |
//! | move from tracing-appender, `multiprocessing.Queue`, Aeron or LTTng | [`coming_from`] |
//! | answer requests | [`requests`] |
//! | find out what an error message means | [`errors`] |
//! | find out why a record came late, or was lost | [`why`] |
//! | read the file of a dead process | [`at_night`] |
//! | run the sidecar | [`sidecar`] |
//! | size the sidecar's rings, buffers and files | [`sidecar_size`] |
//! | choose the sidecar's users, modes and secrets | [`sidecar_secure`] |
//! | look up the sidecar's outputs, rules and figures | [`sidecar_reference`] |
//! | watch rings in a browser | [`view`] |
//! | read records beside the kernel's events | [`kernel_events`] |
//! | read a ring after its kernel has died, or from outside of a guest | [`after_kernel`] |
//! | use Python and numpy | [`python`] |
//! | tune memory: huge pages, locking, NUMA | [`memory`] |
//! | know the guarantees beside a process that breaks the protocol | [`trust`] |
//! | know the supported kernels, libraries and file systems | [`support`] |
//! | know how perfring works | [`architecture`] |
//! | compare perfring with something else | [`why_not`] |
//!
//! The format of a ring is specified in `proto/ABI.md`, with a glossary. All figures are in `benches/RESULTS.md`.

#[doc = include_str!("after_kernel.md")]
pub mod after_kernel {}

// The examples of some pages need features. Without the features the pages are shown, and not tested.
#[cfg_attr(
    any(not(doctest), all(feature = "derive", feature = "set")),
    doc = include_str!("application.md")
)]
pub mod application {}

#[doc = include_str!("architecture.md")]
pub mod architecture {}

#[doc = include_str!("at_night.md")]
pub mod at_night {}

#[cfg_attr(
    any(not(doctest), all(feature = "set", feature = "tracing")),
    doc = include_str!("coming_from.md")
)]
pub mod coming_from {}

#[doc = include_str!("errors.md")]
pub mod errors {}

#[doc = include_str!("kernel_events.md")]
pub mod kernel_events {}

#[doc = include_str!("memory.md")]
pub mod memory {}

#[cfg_attr(any(not(doctest), feature = "set"), doc = include_str!("per_cpu.md"))]
pub mod per_cpu {}

#[doc = include_str!("python.md")]
pub mod python {}

#[cfg_attr(
    any(not(doctest), all(feature = "derive", feature = "rkyv")),
    doc = include_str!("record_types.md")
)]
pub mod record_types {}

#[cfg_attr(any(not(doctest), feature = "derive"), doc = include_str!("requests.md"))]
pub mod requests {}

#[doc = include_str!("sidecar.md")]
pub mod sidecar {}

#[doc = include_str!("sidecar_reference.md")]
pub mod sidecar_reference {}

#[doc = include_str!("sidecar_secure.md")]
pub mod sidecar_secure {}

#[doc = include_str!("sidecar_size.md")]
pub mod sidecar_size {}

#[doc = include_str!("sizing.md")]
pub mod sizing {}

#[doc = include_str!("support.md")]
pub mod support {}

#[cfg_attr(
    any(not(doctest), all(feature = "derive", feature = "telemetry")),
    doc = include_str!("telemetry.md")
)]
pub mod telemetry {}

#[cfg_attr(
    any(not(doctest), all(feature = "set", feature = "tokio")),
    doc = include_str!("tokio.md")
)]
pub mod tokio {}

#[doc = include_str!("trust.md")]
pub mod trust {}

#[doc = include_str!("view.md")]
pub mod view {}

#[doc = include_str!("why.md")]
pub mod why {}

#[doc = include_str!("why_not.md")]
pub mod why_not {}
