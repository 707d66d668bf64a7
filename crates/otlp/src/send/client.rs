//! The client of one signal, for either protocol.

use super::answer::Answer;
#[cfg(feature = "grpc")]
use super::grpc;
use super::http;
use super::options::{Protocol, Route};
use crate::mapping::Lane;
use perfring_events::OutputError;
use prost::bytes::Bytes;
use std::time::Duration;

/// A client for one signal.
#[derive(Debug)]
pub(super) enum Client {
    Http(http::Client),
    #[cfg(feature = "grpc")]
    Grpc(grpc::Client),
}

impl Client {
    pub(super) fn new(output: &str, route: Route) -> Result<Self, OutputError> {
        match route.protocol {
            Protocol::Http => http::Client::new(output, route).map(Client::Http),
            #[cfg(feature = "grpc")]
            Protocol::Grpc => grpc::Client::new(output, route).map(Client::Grpc),
            #[cfg(not(feature = "grpc"))]
            Protocol::Grpc => {
                let sentence = "this build has no gRPC: `cargo install perfring-cli --features \
                                full`, or set `protocol = \"http/protobuf\"` and `endpoint` to where \
                                the receiver accepts that, as a rule port 4318";
                Err(OutputError::new(output, sentence))
            }
        }
    }

    pub(super) fn lane(&self) -> Lane {
        match self {
            Client::Http(client) => client.lane(),
            #[cfg(feature = "grpc")]
            Client::Grpc(client) => client.lane(),
        }
    }

    /// Returns a message in its form for the wire.
    pub(super) fn body(&self, message: &Bytes) -> Bytes {
        match self {
            Client::Http(client) => client.body(message),
            // Its frames are compressed when they are sent.
            #[cfg(feature = "grpc")]
            Client::Grpc(_) => message.clone(),
        }
    }

    /// Sends it once, within this time.
    pub(super) fn send(&mut self, body: &Bytes, within: Duration) -> Answer {
        match self {
            Client::Http(client) => client.send(body, within),
            #[cfg(feature = "grpc")]
            Client::Grpc(client) => client.send(body, within),
        }
    }

    /// Returns whether files of headers or certificates differ from those of the last request.
    pub(super) fn has_other_secrets(&self) -> bool {
        match self {
            Client::Http(client) => client.has_other_secrets(),
            #[cfg(feature = "grpc")]
            Client::Grpc(client) => client.has_other_secrets(),
        }
    }
}
