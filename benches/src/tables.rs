//! What the reports of one producer and of many have in common.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Which sample a line is of.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Repetition {
    Nth(usize),
    Median(&'static str),
}

/// What a line of medians says besides.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    /// Samples whose distance changed while they were taken.
    pub(crate) left_out: usize,
    /// Of the figure that ratios are made of.
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// A table whose columns are aligned to the right.
pub(crate) fn aligned(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.iter().copied());
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(rows);
    table.trim_fmt()
}
