//! The identity of a process, and the trace that a thread works for, by OpenTelemetry's contexts in memory: the
//! process context of [OTEP 4719] and the thread context of [OTEP 4947]. Linux only.
//!
//! A process publishes its resource (`service.name`, `service.instance.id`, ...) in a mapping that other processes find by
//! its name in `/proc/PID/maps`. So a sidecar knows the service of a ring's producer, although no record has it:
//!
//! ```
//! use perfring_context::{ProcessContext, publish};
//!
//! publish([("service.name", "shop"), ("service.version", "2.1.0")])?;
//!
//! // In any process that may trace that one (`ptrace(2)`): its user, or CAP_SYS_PTRACE.
//! let shop = ProcessContext::of(std::process::id())?.unwrap();
//! assert_eq!(shop.get("service.name"), Some("shop"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A reader gets names, and a [`Value`] for each, lists and maps among them:
//!
//! ```
//! # perfring_context::publish([("service.name", "shop")])?;
//! let own = perfring_context::ProcessContext::own()?.unwrap();
//! for (name, value) in own.attributes.iter().chain(&own.extra) {
//!     println!("{name}={value}"); // hosts=[a b], owner={team=store}
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [OTEP 4719]: https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4719-process-ctx.md
//! [OTEP 4947]: https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4947-thread-ctx.md
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod birth;
mod message;
mod process;

pub use birth::Birth;
pub use perfring_shm::{PROCESS_CONTEXT_MOST, ThreadContext};
pub use perfring_types::read::Value;
pub use process::{ContextError, ProcessContext, publish};
