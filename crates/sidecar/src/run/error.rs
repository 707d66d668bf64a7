//! Why a sidecar does not start.

use super::positions::PositionsError;
use crate::config::ConfigError;
use perfring_consumer::error::ClockError;
use perfring_export::OutputError;
use perfring_telemetry::SinkError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a sidecar does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The saved positions cannot be used.
    #[error(transparent)]
    Positions(#[from] PositionsError),
    /// The clock of the timestamps is unknown.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The SIGBUS handler for truncated files cannot be installed.
    #[error("cannot take SIGBUS: {0}")]
    SigbusHandler(io::Error),
    /// An input cannot be followed.
    #[error("{0}")]
    Input(String),
    /// The ring of `[own]` cannot be made or attached to.
    #[error("[own]: {0}")]
    Own(#[from] SinkError),
    /// The endpoint of `[health]` cannot be served.
    #[error("[health]: cannot listen on {0}")]
    Health(String),
    /// The socket of `[control]` cannot be made.
    #[error("[control]: cannot listen on {}: {source}", path.display())]
    Control {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path of the control socket is unknown.
    #[error(
        "[control]: there is no directory for the socket: set path, or RUNTIME_DIRECTORY or \
         XDG_RUNTIME_DIR in the environment"
    )]
    ControlPath,
    /// Another process listens on the socket of `[control]`.
    #[error(
        "another sidecar listens on {}: end it by `perfring sidecar drain`, or set another path in \
         [control]",
        path.display()
    )]
    ControlTaken {
        /// The path of the socket.
        path: PathBuf,
    },
}
