//! The demo's display: a table that is redrawn in place on a terminal, plain lines elsewhere, as
//! wide as there is room.

use crate::columns::paragraph;
use crate::failure::Failure;
use crate::verbosity::{Painted, Style, is_screen};
use perfring_export::Stream;
use std::io::{self, Stdout, Write};

/// Stdout, as a screen if it is one.
pub(super) struct Screen {
    out: Stream<Stdout>,
    /// Whether a table can be redrawn in place.
    pub(super) terminal: bool,
    /// Lines of the table above the cursor, which the next one replaces.
    drawn: usize,
}

impl Screen {
    pub(super) fn new() -> Self {
        Screen { out: Stream::stdout(), terminal: is_screen(), drawn: 0 }
    }

    /// The width in columns.
    pub(super) fn width(&self) -> usize {
        if !self.terminal {
            return 120;
        }
        let size = terminal_size::terminal_size_of(io::stdout());
        size.map_or(80, |(width, _)| usize::from(width.0).max(20))
    }

    /// Draws the table over the previous one.
    pub(super) fn table(&mut self, lines: &[(Style, String)]) -> Result<(), Failure> {
        let mut frame = String::new();
        if self.drawn > 0 {
            frame += &format!("\x1b[{}A\r\x1b[J", self.drawn);
        }
        for (style, line) in lines {
            frame += &format!("{}\n", Painted(*style, line));
        }
        self.write(&frame, lines.len())
    }

    /// Leaves the table and writes a text below it, wrapped between words.
    pub(super) fn say(&mut self, style: Style, text: &str) -> Result<(), Failure> {
        let mut lines = String::new();
        for line in text.split('\n') {
            // What follows is indented to the line's last column.
            let hang = line.rfind("  ").map_or(0, |at| at + 4);
            let (title, rest) = line.split_at_checked(hang).unwrap_or((line, ""));
            for line in paragraph(title, rest, Some(self.width())).split('\n') {
                lines += &format!("{}\n", Painted(style, line));
            }
        }
        self.write(&lines, 0)
    }

    /// Writes a line of a table that stays.
    pub(super) fn row(
        &mut self,
        style: Style,
        columns: &[Column],
        cells: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(), Failure> {
        self.say(style, &row(columns, cells, self.width()))
    }

    /// Writes a line without wrapping it, so that it can be copied.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.write(&format!("{text}\n"), 0)
    }

    fn write(&mut self, text: &str, drawn: usize) -> Result<(), Failure> {
        self.drawn = drawn;
        self.out.write_all(text.as_bytes()).map_err(Failure::output)
    }
}

/// A column of a table: its title, its width, and the width of the narrowest screen that has it. A
/// number has a negative width: it is to the right, and never truncated, as half of one is wrong.
pub(super) struct Column(pub(super) &'static str, pub(super) isize, pub(super) usize);

pub(super) fn titles(columns: &[Column]) -> impl Iterator<Item = &'static str> {
    columns.iter().map(|Column(title, ..)| *title)
}

/// Joins the cells of a line, as far as there is room.
pub(super) fn row(
    columns: &[Column],
    cells: impl IntoIterator<Item = impl AsRef<str>>,
    width: usize,
) -> String {
    let mut line = String::new();
    for (Column(_, signed, from), cell) in columns.iter().zip(cells) {
        let (cell, room) = (cell.as_ref(), signed.unsigned_abs());
        if width >= *from {
            line += if line.is_empty() { "" } else { "  " };
            line += &match signed {
                0.. => format!("{cell:<room$}"),
                _ => format!("{cell:>room$}"),
            };
        }
    }
    line.trim_end().chars().take(width).collect()
}

/// Formats a time with its unit, in three or four digits.
pub(super) fn nanos(ns: u64) -> String {
    with_unit(ns, ["ns", "µs", "ms", "s"], 10.0)
}

pub(super) fn bytes(bytes: u64) -> String {
    with_unit(bytes, ["B", "kB", "MB", "GB"], f64::INFINITY)
}

/// Formats a number in the largest unit that it has; below a limit with a digit after the point.
fn with_unit(number: u64, units: [&str; 4], precise: f64) -> String {
    let thousands = (number.max(1).ilog10() / 3).min(3) as usize;
    let number = number as f64 / [1.0, 1e3, 1e6, 1e9][thousands];
    let digits = usize::from(thousands > 0 && number < precise);
    format!("{number:.digits$} {}", units[thousands])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_formatted() {
        assert_eq!([850, 12_345, 1_250_000].map(nanos), ["850 ns", "12 µs", "1.2 ms"]);
        assert_eq!([999, 1_500_000].map(bytes), ["999 B", "1.5 MB"]);
    }

    #[test]
    fn no_row_is_wider_than_the_screen() {
        let columns = [Column("a", 6, 0), Column("b", -6, 30), Column("c", 0, 0)];
        let cells = ["ab", "1", "long long text"];
        assert_eq!(row(&columns, cells, 12), "ab      long");
        assert_eq!(row(&columns, cells, 40), "ab           1  long long text");
    }
}
