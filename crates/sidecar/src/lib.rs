//! The sidecar: follows rings as they come and go, merges them in the order of time, counts every
//! loss, and passes records on to established formats and protocols.
//!
//! ```text
//! directories ─ follow ─▶ attach ─▶ ┌────────┐ ─▶ required output ─▶ delivered? ────────────┐
//! single rings ───────────────────▶ │ merge  │ ─▶ best-effort output ─▶ its losses reported  │
//! the kernel's events ────────────▶ └────────┘                                               │
//!      rings ◀─── release: everything that each required output has delivered ◀──────────────┘
//! ```
//!
//! * [`Config`] is the configuration: TOML, flags, or both.
//! * [`Sidecar`] runs it, until it is asked to end: `perfring sidecar`.
//! * [`Engine`] is its inner part: rings, outputs, and what connects them. It never waits, so a
//!   program
//!   with a loop of its own can use it.
//!
//! # Guarantees
//!
//! A record of a drop ring leaves its ring only when every output that promises delivery has
//! delivered it. So it is delivered at least once, whichever process is killed, and its [key]
//! identifies duplicates. Each such output has its own place in each ring. If one is down, the others
//! go on, and what it lacks stays in the rings: memory stays bounded, the rings fill, and their own
//! policy decides and reports what is lost. A buffer on disk takes it where the rings are too small.
//! Records that damage takes from such a buffer are reported to its output as a loss with the cause
//! "buffer damaged".
//!
//! An overwrite ring waits for no reader. It is observed, and exactly the records that were evicted
//! before they were read are reported as lost; the position is saved in a file, and a new process
//! continues there.
//!
//! A best-effort output gets what it has room for. Records that it is not given are reported to it
//! as a loss with the cause "output busy", before the next record of the same ring.
//!
//! # Where things are
//!
//! | | |
//! |---|---|
//! | a key of the configuration | `config.rs`, and `config/` by tables: `input`, `kinds` (outputs), `record_rule` (`[[rule]]`), `snapshot_rule` (`[[snapshot]]`), `service` (`[health]`, `[control]`, `[own]`) |
//! | what becomes of a record | `engine/turn.rs`: merge (`merges`), outputs (`outlets`, `outlet`), release (`checkpoint`, `places`) |
//! | an output without room | `engine/lanes.rs`, `engine/lane.rs`: what it lacks is read from the rings once more |
//! | what rules leave out, and how that is reported | `engine/record_rules.rs`, `engine/reporting.rs` |
//! | what `/readyz` says | `run/service.rs` decides; `engine/overdue.rs` measures how long outputs lack something; `run/health.rs` answers |
//! | snapshots | `run/recorder.rs` takes them, `run/snapshots.rs` writes their files; `run/causes.rs` and `run/explainer.rs` for `why` |
//! | requests over the control socket, signals | `run/requests.rs`, `run/answers.rs`; `signals.rs` |
//! | a new configuration, the end | `run/new_config.rs`, `run/drain.rs` |
//! | its own figures | `run/figures.rs`, the one table of their names |
//!
//! [key]: perfring_export::Key
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

pub mod config;
pub mod control;
mod engine;
mod limits;
mod log;
mod run;
mod signals;

pub use config::filter::Filter;
pub use config::record_rule::{RecordAction, RecordRule};
pub use config::snapshot_rule::{On, SnapshotRule};
pub use config::{Config, ConfigError};
pub use engine::turn::Turn;
pub use engine::{
    AttachFailure, Dropped, Engine, Note, OutputStatus, Removed, RingFigures, RingId, RingStatus,
    RuleStatus,
};
pub use limits::raise_limits;
pub use log::{Level, Log, LogFormat, Message};
pub use run::{End, PositionsError, Reload, Sidecar, StartError};
pub use signals::Signals;
