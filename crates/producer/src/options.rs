//! What a producer can be attached with.

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
    /// Whom this producer trusts, among those that may write the ring's file, to leave its open reservations alone. Where
    /// that is nobody, a reservation is private memory, and its commit copies the record to the ring. `publish` only writes, and
    /// is the same for all. Default [`Trust::Auto`].
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
