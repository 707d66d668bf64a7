//! The SDK's data that telemetry records cannot carry: each kind has a count, and is reported once.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! lacks {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// A kind of data that is not carried, or not as it was.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Lack {
            $($(#[$doc])* $name,)*
        }

        impl Lack {
            /// All kinds.
            pub const ALL: &'static [Lack] = &[$(Lack::$name),*];

            /// Returns its name for people.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Lack::$name => $text,)*
                }
            }
        }
    };
}

lacks! {
    /// Exporters that were given another resource than the first one: their data has that of the first.
    Resources "resources that differ from the first one, which all data has",
    /// Schema URLs of resources and scopes.
    SchemaUrls "schema URLs",
    /// Versions of scopes.
    ScopeVersions "versions of scopes",
    /// Attributes of scopes.
    ScopeAttributes "attributes of scopes",
    /// Trace states of spans and links.
    TraceStates "trace states",
    /// Attributes of links.
    LinkAttributes "attributes of links",
    /// Events and links that the SDK's limits have dropped: their number is not carried. That of attributes is.
    DroppedCounts "events and links that the SDK dropped, as numbers",
    /// Exemplars of points.
    Exemplars "exemplars",
    /// Values whose type changed: maps, and lists within lists, are JSON texts; a list of one text, truth value or negative
    /// number is that value.
    Retyped "values whose type changed",
    /// Values of an attribute name that occurs again in the same span or log record: the last one is kept.
    Replaced "values that a later one of the same name replaced",
    /// Names of attributes beyond 255 bytes, which are truncated.
    LongNames "names of attributes that were truncated at 255 bytes",
    /// Records with values beyond the ring's longest record, which were truncated or left out.
    LongRecords "records with values that were truncated at the ring's longest record",
}

/// Counts of each kind.
#[derive(Debug, Default)]
pub(crate) struct Lacks {
    counts: [AtomicU64; Lack::ALL.len()],
    /// A bit for each kind that was said.
    said: AtomicU64,
}

impl Lacks {
    pub(crate) fn count(&self, lack: Lack, more: u64) {
        if more > 0
            && let Some(counts) = self.counts.get(lack as usize)
        {
            counts.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, lack: Lack) -> u64 {
        self.counts.get(lack as usize).map_or(0, |counts| counts.load(Ordering::Relaxed))
    }

    /// Returns a sentence about the kinds that were not said yet.
    pub(crate) fn say(&self) -> Option<String> {
        let found = |lack: &&Lack| self.get(**lack) > 0;
        let bits = Lack::ALL.iter().filter(found).fold(0, |bits, lack| bits | 1 << *lack as u64);
        let before = self.said.fetch_or(bits, Ordering::Relaxed);
        let new = Lack::ALL.iter().filter(|lack| (bits & !before) >> **lack as u64 & 1 == 1);
        let new: Vec<_> =
            new.map(|lack| format!("{} ({} so far)", lack.name(), self.get(*lack))).collect();
        (!new.is_empty()).then(|| {
            format!(
                "telemetry records do not carry these, and this is said once: {}",
                new.join("; ")
            )
        })
    }
}
