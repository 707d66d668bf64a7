//! Why a thread wrote late, why records were lost, and why they were read late: the records of rings, joined with the kernel's
//! context switches and page faults, and with what a witness saw of the processes in /proc.
//!
//! An [`Analysis`] takes [`Evidence`] in the order of time, and returns [`Finding`]s: what happened, when, for how long, to which
//! thread, by which cause, and how sure that is. [`Facts`] turns the events of a recording, or of rings, into evidence.
//!
//! | part | has |
//! |---|---|
//! | `evidence` | what can be known of a moment |
//! | `facts` | evidence from the events of rings, of the kernel and of a witness |
//! | [`witness`] | the records of a witness |
//! | `threads`, `gap` | what a thread did between two records |
//! | `cover`, `looks`, `owners`, `reads` | for which times events are known; what a witness found; seats; late reads |
//! | `rules`, `sentences` | the table of causes: a condition, a sentence, a certainty; its words |
//! | `analysis` | all of it, in the order of time |
//! | `text` | a report in words |
//!
//! A cause is never guessed. Where the kernel's events do not cover a gap, or contradict the records, the cause is `unknown`,
//! and the sentence says what is missing.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod analysis;
mod case;
mod cover;
mod evidence;
mod facts;
mod finding;
mod gap;
mod holes;
mod looks;
mod moved;
mod names;
mod options;
mod owners;
mod preempted;
mod reads;
mod rules;
mod samples;
mod sentences;
mod stops;
mod text;
mod threads;
mod times;
mod verdict;
pub mod witness;

pub use analysis::Analysis;
pub use evidence::{Events, Evidence, Fact, Holder, Role, SeatNow, Switch, Thread, Writer};
pub use facts::{Facts, is_evidence, named};
pub use finding::{Certainty, Finding, Kind, Report, Sum, UNKNOWN};
pub use gap::{Gap, Parts};
pub use names::span;
pub use options::Options;
pub use rules::causes;
pub use text::{Line, TOP};
