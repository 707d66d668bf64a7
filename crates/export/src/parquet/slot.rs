//! The files of one type, one after the other.

use super::columns::{self, Column, Of, WHOLE};
use super::table::Table;
use perfring_types::read::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A type whose columns follow from its first records: from so many of them, or so many bytes.
const FIRST: usize = 1024;
const FIRST_BYTES: usize = 4 << 20;
/// What has no column, as a JSON object.
const MORE: &str = "more";

/// A row: what all rows have, and the record's own value.
pub(super) type Row = (Vec<Value>, Value);

/// A type's files.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The files' name, without what counts them and `.parquet`.
    pub(super) name: String,
    pub(super) table: Option<Table>,
    /// The columns that all rows have, before those of the record.
    common: usize,
    columns: Columns,
    /// Rows that the columns are still to be found of, and about how many bytes they take.
    early: Vec<Row>,
    pub(super) early_bytes: usize,
    /// Files that are finished.
    pub(super) files: u32,
    /// When it was last used: the event's number.
    pub(super) used: u64,
    /// The oldest event of the rows that are kept.
    pub(super) early_oldest: Option<u64>,
    /// The oldest event of the open file, and how many rows it has.
    pub(super) oldest: Option<u64>,
    pub(super) unfinished: u64,
}

#[derive(Debug)]
enum Columns {
    /// By the type.
    Stable(Vec<Column>),
    /// By the first rows; then these, and where each field goes.
    Found(Option<(Vec<Column>, HashMap<String, usize>)>),
}

impl Default for Columns {
    fn default() -> Self {
        Columns::Found(None)
    }
}

impl Slot {
    /// `own` are the record's columns, if its type tells them.
    pub(super) fn new(name: String, common: &[(&str, Of)], own: Option<Vec<Column>>) -> Self {
        let all: Vec<Column> = common.iter().map(|(name, of)| Column::new(name, *of)).collect();
        let columns = match own {
            Some(own) => Columns::Stable(join(all, own, false).0),
            None => Columns::default(),
        };
        Slot { name, common: common.len(), columns, ..Slot::default() }
    }

    /// The columns, if they are known.
    pub(super) fn columns(&self) -> Option<&[Column]> {
        match &self.columns {
            Columns::Stable(columns) | Columns::Found(Some((columns, _))) => Some(columns),
            Columns::Found(None) => None,
        }
    }

    /// Keeps a row until the columns are known; whether it is time to find them.
    pub(super) fn keep(&mut self, row: Row, bytes: usize) -> bool {
        self.early.push(row);
        self.early_bytes += bytes;
        self.early.len() >= FIRST || self.early_bytes >= FIRST_BYTES
    }

    /// Whether rows are kept.
    pub(super) fn is_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Finds the columns by the rows that were kept, and gives those back.
    pub(super) fn find(&mut self, common: &[(&str, Of)]) -> Vec<Row> {
        if let Columns::Found(found @ None) = &mut self.columns {
            let own = columns::of_values(self.early.iter().map(|(_, value)| value));
            let names: Vec<String> = own.iter().map(|column| column.name.clone()).collect();
            let all = common.iter().map(|(name, of)| Column::new(name, *of)).collect();
            let (columns, places) = join(all, own, true);
            *found = Some((columns, names.into_iter().zip(places).collect()));
        }
        self.early_bytes = 0;
        std::mem::take(&mut self.early)
    }

    /// Adds a row to the open file.
    pub(super) fn add(&mut self, common: &[Value], value: &Value) {
        let Some(table) = &mut self.table else { return };
        let mut cells: Vec<Option<Cow<'_, Value>>> =
            common.iter().map(Cow::Borrowed).map(Some).collect();
        match &self.columns {
            Columns::Found(Some((columns, places))) => {
                cells.resize(columns.len(), None);
                let mut more = Vec::new();
                let (one, fields) = columns::fields(value);
                for (name, value) in one.iter().map(|one| (WHOLE, *one)).chain(fields) {
                    let place = places.get(name).copied();
                    match place.and_then(|at| Some((cells.get_mut(at)?, columns.get(at)?))) {
                        Some((cell, column)) if column.fits(value) => {
                            *cell = cell_of(column, value)
                        }
                        // Null is what a column has without being told.
                        None if *value == Value::Null => {}
                        _ => more.push((name.into(), value.clone())),
                    }
                }
                if let (Some(last), false) = (cells.last_mut(), more.is_empty()) {
                    let json = serde_json::to_string(&Value::Struct(more)).unwrap_or_default();
                    *last = Some(Cow::Owned(Value::Str(json)));
                }
            }
            Columns::Stable(columns) => {
                for column in columns.iter().skip(self.common) {
                    let at = column.path.iter().try_fold(value, |value, at| match value {
                        Value::Struct(fields) => fields.get(*at).map(|(_, value)| value),
                        _ => None,
                    });
                    cells.push(at.and_then(|value| cell_of(column, value)));
                }
            }
            Columns::Found(None) => return,
        }
        table.add(cells.iter().map(Option::as_deref));
    }
}

fn cell_of<'v>(column: &Column, value: &'v Value) -> Option<Cow<'v, Value>> {
    match (column.of, value) {
        (_, Value::Null) => None,
        (Of::Json, value) if !column.is_list => {
            serde_json::to_string(value).ok().map(|json| Cow::Owned(Value::Str(json)))
        }
        (_, value) => Some(Cow::Borrowed(value)),
    }
}

/// All columns, each with a name of its own, and where the record's are.
fn join(common: Vec<Column>, own: Vec<Column>, has_more: bool) -> (Vec<Column>, Vec<usize>) {
    let mut taken: HashSet<String> = common.iter().map(|column| column.name.clone()).collect();
    if has_more {
        taken.insert(MORE.into());
    }
    let (mut all, mut places) = (common, Vec::new());
    for mut column in own {
        if taken.contains(&column.name) {
            column.name.insert_str(0, "field.");
        }
        while !taken.insert(column.name.clone()) {
            column.name.push('_');
        }
        places.push(all.len());
        all.push(column);
    }
    if has_more {
        all.push(Column::new(MORE, Of::Json));
    }
    (all, places)
}
