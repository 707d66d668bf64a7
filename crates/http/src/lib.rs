//! The HTTP server of perfring's page, of the sidecar's health answers, and of Prometheus metrics.
//!
//! [`Server`] answers short requests in a thread. [`accept`] is its accept loop, with a limit of connections. A
//! program with its own runtime can use that loop alone.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod accept;
mod server;
#[cfg(feature = "tls")]
mod tls;

pub use accept::{Accepting, Limits, Listener, Site, accept};
pub use server::{Answer, Answers, Asked, Server};
#[cfg(feature = "tls")]
pub use tls::TlsFiles;
