//! The options of an attach.

use perfring_shm::{Trust, program_name};
use std::borrow::Cow;

/// How a producer attaches.
///
/// ```
/// # use perfring_producer::{ProducerOptions, Trust};
/// let options = ProducerOptions::default();
/// assert_eq!((options.name, options.trust), (None, Trust::Auto));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerOptions {
    /// The name of up to 64 bytes that `perfring stat` shows. Default: that of this program.
    pub name: Option<String>,
    /// Which of the processes that may write the ring's file are trusted to leave this producer's open reservations alone. Without
    /// that trust, a reservation is private memory, and its commit copies the record to the ring. `publish` only writes, and
    /// is the same for every trust. Default [`Trust::Auto`].
    pub trust: Trust,
}

impl ProducerOptions {
    /// Returns the options of a producer of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        ProducerOptions { name: Some(name.to_owned()), ..ProducerOptions::default() }
    }

    /// Returns the options of a producer that trusts so.
    pub(crate) fn trusting(trust: Trust) -> Self {
        ProducerOptions { trust, ..ProducerOptions::default() }
    }

    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.name.as_deref().map_or_else(|| program_name().into(), Cow::from)
    }
}
