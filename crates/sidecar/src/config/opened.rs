//! Opened outputs.

use perfring_export::Output;
#[cfg(feature = "prometheus")]
use perfring_export::{OutputError, prometheus};

/// An opened output.
pub(crate) struct Opened {
    pub(crate) output: Box<dyn Output>,
    pub(crate) own: Option<Own>,
}

impl From<Box<dyn Output>> for Opened {
    fn from(output: Box<dyn Output>) -> Self {
        Opened { output, own: None }
    }
}

/// The handle through which an output shows the sidecar's own figures.
#[cfg(feature = "prometheus")]
pub(crate) type Own = prometheus::OwnFigures;
/// Without Prometheus there is none.
#[cfg(not(feature = "prometheus"))]
pub(crate) enum Own {}

#[cfg(feature = "prometheus")]
impl Opened {
    pub(crate) fn prometheus(
        name: &str,
        options: &prometheus::Options,
    ) -> Result<Self, OutputError> {
        let output = prometheus::Prometheus::open(name, options)?;
        let own = Some(output.own());
        Ok(Opened { output: Box::new(output), own })
    }
}
