//! Why files of a directory of rings are not read.

use perfring_consumer::{AttachError, error::BadRing};

/// Why a ring, or a file that may be one, is not read.
///
/// ```
/// use perfring_consumer::{AttachError, Location};
/// use perfring_set::NotRead;
/// let error = AttachError::Permission { location: Location::from("/run/ring"), wanted: "read" };
/// assert_eq!(NotRead::of(&error), NotRead::Permission);
/// assert_eq!(NotRead::Permission.name(), "permission");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NotRead {
    /// It is no ring, or a copy of a ring beside it.
    Foreign,
    /// This process lacks a permission.
    Permission,
    /// It is damaged, or truncated.
    Damaged,
    /// This process has no descriptor, no mapping or no memory left.
    Limit,
    /// Another reason: its version, another consumer, an error of the system.
    Other,
}

impl NotRead {
    /// Returns the reason of an error.
    #[must_use]
    pub fn of(error: &AttachError) -> Self {
        match error {
            error if error.is_shortage() => NotRead::Limit,
            AttachError::Bad { source, .. } => match source {
                BadRing::Foreign { .. } | BadRing::Short { .. } => NotRead::Foreign,
                BadRing::Field { .. } | BadRing::Truncated { .. } => NotRead::Damaged,
                _ => NotRead::Other,
            },
            AttachError::Corrupt { .. } | AttachError::Truncated { .. } => NotRead::Damaged,
            AttachError::Permission { .. }
            | AttachError::NotReachable { .. }
            | AttachError::ReadOnly { .. } => NotRead::Permission,
            _ => NotRead::Other,
        }
    }

    /// Returns its name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NotRead::Foreign => "foreign",
            NotRead::Permission => "permission",
            NotRead::Damaged => "damaged",
            NotRead::Limit => "limit",
            NotRead::Other => "other",
        }
    }
}

/// Why an entry is not reported as a ring: a sentence, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) sentence: String,
    pub(crate) reason: NotRead,
}

impl From<String> for Why {
    fn from(sentence: String) -> Self {
        Why { sentence, reason: NotRead::Foreign }
    }
}
