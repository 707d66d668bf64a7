//! Options of outputs that have what all outputs have in common.

use perfring_events::Terms;

/// Options of an output that have what all outputs have in common.
pub(super) trait HasTerms: Clone {
    /// Returns the same with these terms.
    fn with(&self, terms: Terms) -> Self;
}

macro_rules! have_terms {
    ($($(#[$if:meta])* $options:path;)*) => {$(
        $(#[$if])*
        impl HasTerms for $options {
            fn with(&self, terms: Terms) -> Self {
                Self { terms, ..self.clone() }
            }
        }
    )*};
}

macro_rules! have_no_terms {
    ($($(#[$if:meta])* $options:path;)*) => {$(
        $(#[$if])*
        impl HasTerms for $options {
            fn with(&self, _: Terms) -> Self {
                self.clone()
            }
        }
    )*};
}

pub(super) use {have_no_terms, have_terms};
