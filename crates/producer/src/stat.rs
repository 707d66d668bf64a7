//! A producer's figures: records that were written, refused and lost.

pub use perfring_ring::{Count, ProducerTotals, Refused};
