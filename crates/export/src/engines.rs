//! Outputs that serve or send what they get, and the one that does neither.

#[cfg(feature = "nats")]
pub mod nats;
pub(crate) mod null;
#[cfg(any(feature = "nats", feature = "otlp"))]
pub mod otlp;
#[cfg(feature = "prometheus")]
pub mod prometheus;
