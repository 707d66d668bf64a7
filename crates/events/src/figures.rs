//! Names of figures that outputs count and the sidecar counts, too: one figure has one name.

/// The name, the unit and the description of a figure.
pub type About = (&'static str, &'static str, &'static str);

/// The attribute with a ring's name. Its label on Prometheus pages is `ring`.
pub const RING: &str = "perfring.ring.name";
/// The attribute with a cause, by OpenTelemetry's conventions. Its label on Prometheus pages is `cause`.
pub const CAUSE: &str = "error.type";
/// Records that a ring reported as lost, by cause.
pub const LOST_RECORDS: About =
    ("perfring.ring.lost_records", "{record}", "Records that the ring reported as lost");
/// Their bytes, as far as the ring knows them.
pub const LOST_BYTES: About =
    ("perfring.ring.lost_bytes", "By", "Bytes of the records that the ring reported as lost");
