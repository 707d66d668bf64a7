//! What a ring says of its records' types.

use perfring_ring::TypeTable;
use perfring_types::{BadEntry, Entries, Entry};

/// A private copy of a ring's type table.
///
/// ```
/// use perfring_consumer::{Observer, Start};
/// # use perfring_producer::{Options, Producer, types::{Encoding, Schema}};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// # producer.register(&Schema::new("demo.Line", Encoding::Utf8).with_hashed_id())?;
/// let observer = Observer::open(&path, Start::Oldest)?;
/// let types = observer.types();
/// for entry in types.entries() {
///     let entry = entry?;
///     println!("{} {}", entry.id.get(), entry.text); // JSON: `perfring_types::Type` reads it
/// #   assert!(entry.text.contains("demo.Line"));
/// }
/// assert!(!observer.has_more_types(&types)); // nothing was added since
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    words: Vec<u64>,
    end: u64,
}

impl Types {
    pub(crate) fn of(table: TypeTable<'_>) -> Self {
        let end = table.end(); // before the entries: those that come meanwhile are news
        Types { words: table.entries(), end }
    }

    /// The entries, in the order in which they were registered. The last may be damage: what stood
    /// before it is good.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>, BadEntry>> {
        Entries::new(&self.words)
    }

    /// The entries' words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }
}
