//! sidecar
#![forbid(unsafe_code)]

mod checkpoint;
pub mod config;
mod engine;
mod filter;
mod outlet;
mod ring;
mod rule;

pub use config::{Config, ConfigError};
pub use engine::{Engine, Note, OutputStatus, RingStatus, Turn};
pub use filter::Filter;
pub use outlet::Dropped;
pub use ring::{AttachFailure, RingFigures};
pub use rule::{On, Rule};
