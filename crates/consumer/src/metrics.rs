//! Samples of the instruments in a ring's metrics area: counters, gauges and histograms. [`Observer::metrics`] returns them.

use crate::observer::Observer;
use perfring_abi::RecordType;
use perfring_ring::ReadError;
pub use perfring_ring::{BadArea, BadPart, Buckets, MetricKind, MetricValue, MetricsFill};
use std::collections::HashMap;

/// The values of the instruments in a ring's metrics area: see [`Observer::metrics`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MetricSamples {
    /// The instruments, in the order in which they were registered. A gauge that was never set is not among them.
    pub samples: Vec<MetricSample>,
    /// The area's fill, and its damage: blocks behind the damage are not read.
    pub fill: MetricsFill,
}

/// The values of one instrument of one process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MetricSample {
    /// The offset of its block, in bytes from the area's beginning on: the same for as long as the ring exists.
    pub at: u64,
    /// The record type that describes it, in [`Observer::types`].
    pub kind: RecordType,
    /// The kind of its values.
    pub metric: MetricKind,
    /// The number of the attachment to the ring that it is from. All instruments of one attachment have the same number, and no
    /// other attachment has it.
    pub owner: u64,
    /// The pid of its process, in that process's pid namespace.
    pub pid: u32,
    /// Whether its process lives and has the ring, by the kernel's lock. The measurements of a dead process do not change.
    pub is_alive: bool,
    /// The time since which it counts, ns since 1970.
    pub start_time_unix_nano: u64,
    /// Its value.
    pub value: MetricValue,
}

impl Observer {
    /// Samples the instruments in the ring's metrics area, including those of dead processes. Each value is the instrument's
    /// value at some moment of the call. In a histogram, the sum includes every counted measurement. Leaves no trace in the ring.
    ///
    /// ```
    /// use perfring_consumer::{Observer, Start, metrics::MetricValue};
    /// # use perfring_producer::{Options, metrics::{MetricKind, Metrics}, types::{Encoding, Schema}};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let options = Options { metrics_size: 1 << 16, ..Options::many() };
    /// # let metrics = Metrics::open_or_create(&path, &options).unwrap();
    /// # let schema = Schema::new("requests", Encoding::Tagged).with_hashed_id();
    /// # metrics.register(&schema, MetricKind::CounterU64, 1)?.add(17);
    /// let observer = Observer::attach(&path, Start::Latest)?;
    /// for sample in observer.metrics()?.samples {
    ///     assert_eq!(sample.value, MetricValue::U64(17));
    ///     assert!(sample.is_alive);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReadError::Truncated`] and [`ReadError::NoSpace`], if the process has a handler for SIGBUS: see
    /// [`install_sigbus_handler`](crate::install_sigbus_handler).
    pub fn metrics(&self) -> Result<MetricSamples, ReadError> {
        let mapping = self.window.mapping();
        let area = mapping.metrics();
        let mut metrics = MetricSamples { fill: area.fill(), samples: Vec::new() };
        let mut alive = HashMap::new();
        for block in area.blocks().map_while(Result::ok) {
            // In this order: after a process is found dead, all its stores are seen.
            let Some(owner) = block.owner() else { continue };
            let is_alive = *alive.entry(owner).or_insert_with(|| mapping.has_owner(owner));
            // Another process's by now: that one is alive.
            let Some((now, start_time_unix_nano, value)) = block.sample() else { continue };
            let is_alive = is_alive || now != owner;
            metrics.samples.push(MetricSample {
                at: block.at,
                kind: block.id,
                metric: block.kind,
                owner: u64::from(now.slot) << 48 | now.epoch,
                pid: now.pid,
                is_alive,
                start_time_unix_nano,
                value,
            });
        }
        mapping.cut_off().map_or(Ok(metrics), Err)
    }

    /// Returns how full the ring's metrics area is, and where it is damaged. Looks at the first line of each instrument.
    ///
    /// # Errors
    /// As [`Observer::metrics`].
    pub fn metrics_fill(&self) -> Result<MetricsFill, ReadError> {
        let mapping = self.window.mapping();
        let fill = mapping.metrics().fill();
        mapping.cut_off().map_or(Ok(fill), Err)
    }
}
