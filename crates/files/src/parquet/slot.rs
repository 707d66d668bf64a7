//! The files of one type, one after the other.

use super::columns::{self, Column, Of, WHOLE};
use super::names::ColumnNames;
use super::signals::{self, Signal};
use super::table::Table;
use perfring_types::read::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// Rows and bytes that are kept to determine the columns from the first records.
const FIRST: usize = 1024;
const FIRST_BYTES: usize = 4 << 20;
/// The column of fields that have no column, as a JSON object.
const MORE: &str = "more";

/// A row: the common columns, and the record's own value.
pub(super) type Row = (Vec<Value>, Value);

/// The files of a type.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The files' name, without number and `.parquet`.
    pub(super) name: String,
    pub(super) table: Option<Table>,
    /// The number of common columns, which precede those of the record.
    common: usize,
    columns: Columns,
    /// Rows for which the columns are not determined yet, and their approximate bytes.
    early: Vec<Row>,
    pub(super) early_bytes: usize,
    /// The number of finished files.
    pub(super) files: u32,
    /// When it was last used: the event's number.
    pub(super) used: u64,
    /// The oldest event of the kept rows.
    pub(super) early_oldest: Option<u64>,
    /// The oldest event of the open file, and the number of its rows.
    pub(super) oldest: Option<u64>,
    pub(super) unfinished: u64,
}

#[derive(Debug)]
enum Columns {
    /// Determined by the type.
    Stable(Vec<Column>),
    /// Determined by the first rows, or by the signal: the columns, and the column of each field.
    Found(Option<(Vec<Column>, HashMap<String, usize>)>),
}

impl Default for Columns {
    fn default() -> Self {
        Columns::Found(None)
    }
}

impl Slot {
    /// Creates a slot; `own` are the record's columns, if its type determines them.
    pub(super) fn new(name: String, common: &[(&str, Of)], own: Option<Vec<Column>>) -> Self {
        let all: Vec<Column> = common.iter().map(|(name, of)| Column::new(name, *of)).collect();
        let columns = match own {
            Some(own) => Columns::Stable(join(all, own, false).0),
            None => Columns::default(),
        };
        Slot { name, common: common.len(), columns, ..Slot::default() }
    }

    /// Creates a slot of a signal's records.
    pub(super) fn of_signal(signal: Signal, common: &[(&str, Of)]) -> Self {
        let of = |(name, of): &(&str, Of)| Column::new(name, *of);
        let mut columns: Vec<Column> = common.iter().chain([&signals::CLASS]).map(of).collect();
        let before = columns.len();
        columns.extend(signal.columns());
        let places = columns.iter().enumerate().skip(before);
        let places = places.map(|(at, column)| (column.name.clone(), at)).collect();
        columns.push(Column::new(signals::ATTRIBUTES, Of::Json));
        let name = signal.name().to_owned();
        Slot {
            name,
            common: before,
            columns: Columns::Found(Some((columns, places))),
            ..Slot::default()
        }
    }

    /// Returns the columns, if they are determined.
    pub(super) fn columns(&self) -> Option<&[Column]> {
        match &self.columns {
            Columns::Stable(columns) | Columns::Found(Some((columns, _))) => Some(columns),
            Columns::Found(None) => None,
        }
    }

    /// Keeps a row until the columns are determined; returns whether it is time to do so.
    pub(super) fn keep(&mut self, row: Row, bytes: usize) -> bool {
        self.early.push(row);
        self.early_bytes += bytes;
        self.early.len() >= FIRST || self.early_bytes >= FIRST_BYTES
    }

    /// Returns whether rows are kept.
    pub(super) fn is_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Determines the columns from the kept rows, and returns those rows.
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
                        // A column is null by default.
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

/// Joins all columns, with unique names, and returns the indices of the record's.
fn join(common: Vec<Column>, own: Vec<Column>, has_more: bool) -> (Vec<Column>, Vec<usize>) {
    let (mut all, mut own) = (common, own);
    let more = has_more.then_some(MORE);
    let mut names = ColumnNames::of(all.iter().map(|column| &*column.name).chain(more));
    names.make_unique(&mut own.iter_mut().map(|column| &mut column.name).collect::<Vec<_>>());
    let places = (all.len()..).take(own.len()).collect();
    all.extend(own);
    if has_more {
        all.push(Column::new(MORE, Of::Json));
    }
    (all, places)
}
