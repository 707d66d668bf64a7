//! The parts that the reports of one producer and of many share.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The sample that a line describes.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Repetition {
    Nth(usize),
    Median(&'static str),
}

/// The additional figures of a line of medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    /// Samples whose distance changed while they were taken.
    pub(crate) left_out: usize,
    /// The range of the figure that ratios are computed from.
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Formats a table with right-aligned columns, whose names in `head` are separated by ` | `.
pub fn aligned(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    table(head, rows, CellAlignment::Right)
}

/// Formats a table of text.
pub fn left_aligned(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    table(head, rows, CellAlignment::Left)
}

fn table(head: &str, rows: impl Iterator<Item = Vec<String>>, alignment: CellAlignment) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.split(" | "));
    for column in table.column_iter_mut() {
        column.set_cell_alignment(alignment);
    }
    table.add_rows(rows);
    table.trim_fmt()
}
