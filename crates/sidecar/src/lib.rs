//! sidecar
#![forbid(unsafe_code)]

mod checkpoint;
pub mod config;
mod engine;
mod filter;
mod inputs;
mod limits;
mod outlet;
mod own;
mod places;
mod recorder;
mod ring;
mod rule;
mod run;
mod signals;
mod status;

pub use config::{Config, ConfigError};
pub use engine::{Engine, Note, OutputStatus, RingStatus, Turn};
pub use filter::Filter;
pub use limits::raise_limits;
pub use outlet::Dropped;
pub use places::PlacesError;
pub use ring::{AttachFailure, RingFigures};
pub use rule::{On, Rule};
pub use run::{End, Reload, Sidecar, StartError};
pub use signals::Signals;
