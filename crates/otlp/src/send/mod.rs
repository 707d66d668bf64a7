//! Delivery of requests: over HTTP, over gRPC, to a socket.

mod answer;
mod client;
#[cfg(feature = "fuzz")]
pub mod door;
#[cfg(feature = "grpc")]
mod grpc;
mod headers;
mod http;
mod lanes;
mod options;
mod output;
mod post;
mod secrets;
mod split;
mod taken;
mod unix;

pub use options::{Compression, Headers, Options, Protocol};
pub use output::Otlp;
