//! The sidecar: follows rings as they come and go, merges them in the order of time, counts every
//! loss, and hands records on in the formats and to the engines that people use already.
//!
//! ```text
//! directories ─ follow ─▶ attach ─▶ ┌────────┐ ─▶ output that promises delivery ─▶ delivered? ─┐
//! single rings ───────────────────▶ │ merge  │ ─▶ output that takes what it can   ─▶ reported what not
//! the kernel's events ────────────▶ └────────┘                                                 │
//!      rings ◀─── release: all that every output which promises has delivered ◀────────────────┘
//! ```
//!
//! * [`Config`] says what is to be done: TOML, flags, or both.
//! * [`Sidecar`] does it, until it is asked to end: what `perfring sidecar` runs.
//! * [`Engine`] is its inner part: rings, outputs, and what lies between them. It waits for nothing,
//!   so a program with a loop of its own can use it.
//!
//! # What is promised
//!
//! A record of a drop ring leaves its ring only when every output that promises delivery has
//! delivered it. So it comes at least once, whoever is killed, and its [key] tells what came twice.
//! If such an output is down, nothing more is read: memory stays bounded, the rings fill, and
//! their own policy decides and tells what is lost.
//!
//! A ring that overwrites waits for nobody. It is observed, and told is exactly what was gone
//! before it was read; the place is saved in a file, and a new process goes on there.
//!
//! An output that promises nothing gets what it has room for. What it is not given is told to it, as a
//! loss with the cause "output busy", before the next record of the same ring.
//!
//! [key]: perfring_export::Key
#![forbid(unsafe_code)]

pub mod config;
mod engine;
mod limits;
mod run;
mod signals;

pub use config::filter::Filter;
pub use config::rule::{On, Rule};
pub use config::{Config, ConfigError};
pub use engine::turn::Turn;
pub use engine::{AttachFailure, Dropped, Engine, Note, OutputStatus, RingFigures, RingStatus};
pub use limits::raise_limits;
pub use run::{End, PlacesError, Reload, Sidecar, StartError};
pub use signals::Signals;
