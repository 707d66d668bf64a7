//! All types of a ring.

use super::parse::BadType;
use super::types::Type;
use crate::entry::{BadEntry, Entries, Entry};
use foldhash::fast::RandomState;
use perfring_abi::RecordType;
use std::collections::HashMap;
use std::collections::hash_map;
use std::fmt;

/// The types in a ring's table, and the parts of it that cannot be read.
///
/// ```
/// use perfring_types::read::TypeTable;
/// let table = TypeTable::from_words(&[u64::MAX; 4]);
/// assert!(table.is_empty());
/// assert_eq!(
///     table.damage()[0].to_string(),
///     "the type table is damaged 0 bytes after its first entry: its size is invalid",
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    types: Vec<Type>,
    /// The entry of each of them.
    entries: Vec<Written>,
    /// Looked up for every record, and a file may have any ids: a quick hash, with a seed.
    by_id: HashMap<RecordType, usize, RandomState>,
    damage: Vec<TableDamage>,
}

/// An entry as it stands in its ring.
#[derive(Clone, Debug)]
struct Written {
    layout: u64,
    text: Box<str>,
}

/// A part of a table that cannot be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TableDamage {
    /// An invalid entry: for readers the table ends here.
    Entry(BadEntry),
    /// One type's text is invalid; the others can be used.
    Type(BadType),
}

impl fmt::Display for TableDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableDamage::Entry(bad) => bad.fmt(f),
            TableDamage::Type(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for TableDamage {}

impl TypeTable {
    /// Reads a private copy of the table's words, from the first entry to `types_used`.
    #[must_use]
    pub fn from_words(table: &[u64]) -> Self {
        Self::from_entries(Entries::new(table))
    }

    /// Reads these entries. If two have the same id, the first counts.
    #[must_use]
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = Result<Entry<'a>, BadEntry>>,
    ) -> Self {
        let mut table = TypeTable::default();
        table.extend(entries);
        table
    }

    /// Adds these entries. If two have the same id, the first counts.
    pub fn extend<'a>(&mut self, entries: impl IntoIterator<Item = Result<Entry<'a>, BadEntry>>) {
        for entry in entries {
            match entry {
                Ok(entry) => match Type::parse(entry.id, entry.text) {
                    Ok(kind) => self.put(kind, |_| (entry.layout, entry.text.into())),
                    Err(bad) => self.damage.push(TableDamage::Type(bad)),
                },
                Err(bad) => self.damage.push(TableDamage::Entry(bad)),
            }
        }
    }

    /// Adds a type that a reader knows from elsewhere. Ignored if its id is present.
    pub fn add(&mut self, kind: Type) {
        self.put(kind, |kind| (0, kind.to_json().into()));
    }

    fn put(&mut self, kind: Type, written: impl FnOnce(&Type) -> (u64, Box<str>)) {
        if let hash_map::Entry::Vacant(place) = self.by_id.entry(kind.id) {
            place.insert(self.types.len());
            let (layout, text) = written(&kind);
            self.entries.push(Written { layout, text });
            self.types.push(kind);
        }
    }

    /// Returns the type of records with this id.
    #[must_use]
    #[inline]
    pub fn get(&self, id: RecordType) -> Option<&Type> {
        self.by_id.get(&id).and_then(|at| self.types.get(*at))
    }

    /// Returns the types with this name: each callsite and each version is a separate type.
    pub fn by_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Type> {
        self.types.iter().filter(move |kind| &*kind.name == name)
    }

    /// Returns all types, in the table's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.types.iter()
    }

    /// Returns the entries of the types in [`TypeTable::iter`], word for word, for copying a ring's
    /// types. A type added by [`TypeTable::add`] gets its [`Type::to_json`] and layout 0.
    ///
    /// ```
    /// use perfring_types::{Encoding, Schema, read::TypeTable};
    /// let line = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id();
    /// let table = TypeTable::from_words(&line.to_entry());
    /// let entry = table.entries().next().unwrap();
    /// assert_eq!(entry.to_words(), line.to_entry());
    /// ```
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        let all = self.types.iter().zip(&self.entries);
        all.map(|(kind, Written { layout, text })| Entry { id: kind.id, layout: *layout, text })
    }

    /// Returns the number of types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Returns whether there are no types.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the parts that cannot be read, in the table's order.
    #[must_use]
    pub fn damage(&self) -> &[TableDamage] {
        &self.damage
    }
}
