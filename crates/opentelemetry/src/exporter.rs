//! The exporters of one ring.

use crate::door::{Door, Shut};
use crate::lacks::Lack;
use crate::logs::RingLogExporter;
use crate::metrics::RingMetricExporter;
use crate::spans::RingSpanExporter;
use opentelemetry_sdk::metrics::Temporality;
use perfring_producer::{Location, Options};
use perfring_telemetry::SinkError;
use std::sync::Arc;

/// The exporters of a ring. Clones, and all exporters that it makes, share one attachment to the ring.
///
/// A process has one resource in a ring: that of the first provider. Give providers with another resource a ring each.
///
/// The ring's file may be removed, and the process may be forked: see [`perfring_telemetry::Sink`].
#[derive(Clone, Debug)]
pub struct RingExporter {
    door: Arc<Door>,
}

impl RingExporter {
    /// Opens the ring, or makes it with these options if there is none. Whatever the options say, it is shared and has
    /// timestamps.
    ///
    /// # Errors
    /// See [`SinkError`]. A ring that is there and differs from the options is refused.
    pub fn open(location: impl Into<Location>, options: &Options) -> Result<Self, SinkError> {
        Ok(RingExporter { door: Arc::new(Door::open(location.into(), options)?) })
    }

    /// Returns an exporter of spans.
    #[must_use]
    pub fn spans(&self) -> RingSpanExporter {
        RingSpanExporter { door: Arc::clone(&self.door), shut: Shut::default() }
    }

    /// Returns an exporter of log records.
    #[must_use]
    pub fn logs(&self) -> RingLogExporter {
        RingLogExporter { door: Arc::clone(&self.door), shut: Shut::default() }
    }

    /// Returns an exporter of metrics, of cumulative temporality.
    #[must_use]
    pub fn metrics(&self) -> RingMetricExporter {
        let temporality = Temporality::Cumulative;
        RingMetricExporter { door: Arc::clone(&self.door), shut: Shut::default(), temporality }
    }

    /// Returns how many records could not be published, or were published into a file that was removed: see
    /// [`Sink::dropped`](perfring_telemetry::Sink::dropped). A span is two records or more.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.door.dropped()
    }

    /// Returns how much of a kind of data was not carried so far, or not as it was.
    #[must_use]
    pub fn lack(&self, of: Lack) -> u64 {
        self.door.lacks.get(of)
    }
}
