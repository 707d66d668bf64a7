//! A ring's type table.

use perfring_abi::TYPES_FIRST;
use perfring_ring::TypeTableArea;
use perfring_types::{BadEntry, Entries, Entry, Record, Schema};
use thiserror::Error;

/// The entry that a ring has instead of a type.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaMismatch {
    /// The same name, written by a program whose rkyv has another format.
    #[error(
        "the ring's {name} was archived as \"{found}\", and this program reads \"{ours}\": build \
         both with the same version and format features of rkyv"
    )]
    Format {
        /// The type's name.
        name: &'static str,
        /// The ring's format.
        found: String,
        /// This program's.
        ours: &'static str,
    },
    /// The same name with other fields, or another version of it.
    #[error(
        "the ring's {name} has other fields, or another version, than this program's: build both \
         from the same definition, or read it by the type table"
    )]
    Layout {
        /// The type's name.
        name: &'static str,
    },
    /// Another type has the same number.
    #[error(
        "record type {id} is {name} in this program, and {found} in the ring: give it another id"
    )]
    Taken {
        /// The name in this program.
        name: &'static str,
        /// The number.
        id: u32,
        /// The name in the ring.
        found: String,
    },
}

/// Shows the sentence, because `main() -> Result` prints this.
impl std::fmt::Debug for SchemaMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A private copy of a ring's type table.
///
/// ```
/// use perfring_consumer::{Observer, Start};
/// # use perfring_producer::{Options, Producer, types::{Encoding, Schema}};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// # producer.register(&Schema::new("demo.Line", Encoding::Utf8).with_hashed_id())?;
/// let observer = Observer::attach(&path, Start::Oldest)?;
/// let types = observer.types();
/// for entry in types.entries() {
///     let entry = entry?;
///     println!("{} {}", entry.id.get(), entry.text); // JSON: `perfring_types::read::Type` reads it
/// #   assert!(entry.text.contains("demo.Line"));
/// }
/// assert!(!observer.has_more_types(&types)); // nothing was added since
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    words: Vec<u64>,
    pub(crate) end: u64,
}

impl Types {
    pub(crate) fn of(table: TypeTableArea<'_>) -> Self {
        let end = table.end(); // before the entries: later entries count as new
        Types { words: table.entries(), end }
    }

    /// Returns the entries, in the order in which they were registered. The last may be an error:
    /// the entries before it are valid.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>, BadEntry>> {
        Entries::new(&self.words)
    }

    /// Returns the entries' words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns whether the ring has this program's `T`. `false` means that no type takes its place,
    /// and that no record of it was published yet.
    ///
    /// A record of another layout has another id, so it is never read as a `T`. This function
    /// returns why no `T` comes.
    ///
    /// # Errors
    /// [`SchemaMismatch`] if the ring has the type's name, or its number, for something else.
    pub fn check<T: Record>(&self) -> Result<bool, SchemaMismatch> {
        let Schema { id, name, format: ours, .. } = T::SCHEMA;
        let mut other = None;
        for entry in self.entries().map_while(Result::ok) {
            if entry.id == id && entry.layout == T::SCHEMA.layout() {
                return Ok(true);
            }
            if entry.name() == name && entry.format() != ours {
                other =
                    Some(SchemaMismatch::Format { name, found: entry.format().to_owned(), ours });
            } else if entry.name() == name {
                other = Some(SchemaMismatch::Layout { name });
            } else if entry.id == id {
                let (id, found) = (id.get(), entry.name().to_owned());
                other = Some(SchemaMismatch::Taken { name, id, found });
            }
        }
        other.map_or(Ok(false), Err)
    }

    /// Returns a table with these types, for a source that is no ring file.
    ///
    /// ```
    /// use perfring_consumer::Types;
    /// use perfring_consumer::types::{Encoding, Schema};
    /// let types = Types::of_schemas(&[Schema::new("demo.Line", Encoding::Utf8).with_hashed_id()]);
    /// assert_eq!(types.entries().count(), 1);
    /// ```
    #[must_use]
    pub fn of_schemas(schemas: &[Schema<'_>]) -> Self {
        let words: Vec<u64> = schemas.iter().flat_map(Schema::to_entry).collect();
        let end = u64::from(!words.is_empty()) * TYPES_FIRST + 8 * words.len() as u64;
        Types { words, end }
    }
}
