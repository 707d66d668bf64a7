//! Why an instrument is not there.

use crate::reserve_error::TypeError;
use perfring_ring::{BadArea, MetricKind};
use perfring_shm::{AttachError, Location, OpenError};
use std::sync::Arc;
use thiserror::Error;

perfring_abi::debug_by_display!(MetricsError);

/// Why an instrument, or the area, is not there.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The ring was made without a metrics area.
    #[error(
        "{location} has no metrics area: make the ring with metrics_size (`perfring create --producers many --metrics-size 1M`)"
    )]
    NoArea {
        /// The ring's location.
        location: Location,
    },
    /// The area has no room for the instrument. The ring counts this.
    #[error(
        "{location}: the metrics area is full: the instrument takes {needed} bytes, and {left} are left; make the ring with a larger metrics_size"
    )]
    Full {
        /// The ring's location.
        location: Location,
        /// Bytes of the instrument's block.
        needed: u64,
        /// Bytes left in the area.
        left: u64,
    },
    /// The area is damaged: readers would not see the instrument.
    #[error(
        "{location}: {damage}; readers see no instrument behind that, so no more are registered: keep a copy of the ring if its records \
         matter, remove it and make it again"
    )]
    Damaged {
        /// The ring's location.
        location: Location,
        /// What is wrong, and where.
        damage: BadArea,
    },
    /// This process has the instrument already, with another kind of values or with other buckets.
    #[error(
        "this process has the instrument already, as {present:?}, and {wanted:?} is asked for: ask for the same, or give it another name"
    )]
    OtherKind {
        /// The present kind.
        present: MetricKind,
        /// The requested kind.
        wanted: MetricKind,
    },
    /// The instrument's type could not be put into the ring's type table.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// The ring cannot be attached to.
    #[error(transparent)]
    Attach(Arc<AttachError>),
    /// The ring cannot be made, or attached to.
    #[error(transparent)]
    Open(Arc<OpenError>),
}

impl From<AttachError> for MetricsError {
    fn from(error: AttachError) -> Self {
        MetricsError::Attach(Arc::new(error))
    }
}
