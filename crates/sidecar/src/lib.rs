//! sidecar
#![forbid(unsafe_code)]

pub mod config;
mod filter;
mod rule;

pub use config::{Config, ConfigError};
