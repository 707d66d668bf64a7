//! What a producer says of its records: written, refused, lost.

pub use perfring_ring::{Count, ProducerTotals, Refused};
