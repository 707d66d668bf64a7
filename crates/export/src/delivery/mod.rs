//! What outputs are, and what they share.

pub(crate) mod checks;
pub(crate) mod compress;
pub(crate) mod dead_letter_file;
#[cfg(any(feature = "nats", feature = "otlp"))]
pub(crate) mod dead_letters;
pub(crate) mod draft;
pub(crate) mod jitter;
#[cfg(any(feature = "nats", feature = "otlp", feature = "prometheus"))]
pub(crate) mod left_out;
pub(crate) mod opener;
pub(crate) mod output;
#[cfg(any(feature = "nats", feature = "otlp"))]
pub(crate) mod refusals;
pub(crate) mod replace;
pub(crate) mod rotated;
pub(crate) mod series;
pub(crate) mod stream;
pub(crate) mod terms;
#[cfg(any(feature = "nats", feature = "otlp", feature = "prometheus"))]
pub(crate) mod thread;
pub(crate) mod tries;
pub(crate) mod write_error;
