//! Events of many rings: a record or a loss, with its type, its time and its origin, and the outputs that receive them.
//!
//! The reader of the rings passes [`Event`]s to outputs: a record with its type, its time and its
//! origin, or a loss. An [`Output`] takes an event, or reports that it is busy. It also reports which
//! of the events that it took are delivered, so that no record leaves its ring before that.
//!
//! | | |
//! |---|---|
//! | the root | what an event is: [`Origin`], [`Rec`], [`Loss`], and the types of rings |
//! | [`signal`] | OpenTelemetry's signals, decoded from records |
//! | `delivery` | [`Output`] itself, and what the output crates share: attempts, files, dead letters |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod delivery;
#[doc(hidden)]
pub mod duration;
#[doc(hidden)]
pub mod event;
pub mod figures;
#[doc(hidden)]
pub mod mangle;
#[doc(hidden)]
pub mod processes;
mod rule_name;
mod sampled;
mod shapes;
pub mod signal;
#[doc(hidden)]
pub mod timeline;
mod totals;

pub use delivery::checks::{
    check_address, check_directories, check_directory, check_file, check_socket,
};
pub use delivery::compress::Compression;
pub use delivery::dead_letter_file::DeadLetterFile;
pub use delivery::null::Null;
pub use delivery::output::{Explanation, Figures, InBuffer, Output, OutputError, Own, Took};
pub use delivery::replace::{rename, replace};
pub use delivery::series::{Pruned, Rotation};
pub use delivery::stream::Stream;
pub use delivery::terms::{FileMode, Terms};
pub use delivery::write_error::WriteError;
pub use duration::{later, read_duration, read_size, read_some_duration};
pub use event::{Event, Key, Loss, LossCause, Origin, Rec, What, sum_of};
pub use perfring_context::Birth;
pub use rule_name::RuleName;
pub use sampled::sampled;
pub use shapes::Shapes;
pub use timeline::{moment, utc, utc_micros};
pub use totals::Totals;
