//! The sidecar's display: a table that is redrawn in place on a terminal, plain lines elsewhere, as
//! wide as there is room.

use crate::failure::Failure;
pub(super) use crate::verbosity::Style;
use crate::verbosity::{Painted, is_screen};
use perfring_export::Stream;
use std::fmt;
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
            push(&mut frame, *style, line);
        }
        self.drawn = if self.terminal { lines.len() } else { 0 };
        self.write(&frame)
    }

    /// Leaves the table and writes a wrapped text below it.
    pub(super) fn say(&mut self, style: Style, text: &str) -> Result<(), Failure> {
        self.drawn = 0;
        let mut lines = String::new();
        for line in wrap(text, self.width()) {
            push(&mut lines, style, &line);
        }
        self.write(&lines)
    }

    /// Writes a line without wrapping it, so that it can be copied.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.drawn = 0;
        self.write(&format!("{text}\n"))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(Failure::output)
    }
}

fn push(to: &mut String, style: Style, line: &str) {
    *to += &format!("{}\n", Painted(style, line));
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: usize,
    /// Left out on a narrower screen.
    pub(super) from: usize,
    pub(super) align: Align,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    /// Takes the rest of the line.
    Rest,
}

/// Joins the cells of a line, as far as there is room.
pub(super) fn row(columns: &[Column], cells: &[String], width: usize) -> String {
    let mut line = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        if width < column.from {
            continue;
        }
        if !line.is_empty() {
            line += "  ";
        }
        let room = column.width;
        match column.align {
            Align::Left => line += &format!("{cell:<room$}"),
            // Never truncated: half a number is a wrong one.
            Align::Right => line += &format!("{cell:>room$}"),
            Align::Rest => line += cell,
        }
    }
    line.trim_end().chars().take(width).collect()
}

/// Wraps a text between words. Continuation lines are indented to the line's last column.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let hang = line.rfind("  ").map_or(0, |at| line[..at].chars().count() + 4);
        let mut rest = line.to_owned();
        loop {
            let space = |(at, c)| (c == ' ' && at > hang).then_some(at);
            let places: Vec<(usize, char)> = rest.char_indices().collect();
            let at = match places.len() > width {
                true => places[..=width].iter().copied().rev().find_map(space),
                false => None,
            };
            let Some(at) = at else {
                lines.push(rest);
                break;
            };
            lines.push(rest[..at].trim_end().to_owned());
            rest = format!("{:1$}{2}", "", hang, rest[at..].trim_start());
        }
    }
    lines
}

/// Formats a time with its unit, in three or four digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nanos(pub(super) u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            ns @ 0..1_000 => return f.pad(&format!("{ns} ns")),
            ns @ 1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
            ns @ 1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
            ns => (ns as f64 / 1e9, "s"),
        };
        f.pad(&if value < 10.0 {
            format!("{value:.1} {unit}")
        } else {
            format!("{value:.0} {unit}")
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            bytes @ 0..1_000 => return f.pad(&format!("{bytes} B")),
            bytes @ 1_000..1_000_000 => (bytes as f64 / 1e3, "kB"),
            bytes @ 1_000_000..1_000_000_000 => (bytes as f64 / 1e6, "MB"),
            bytes => (bytes as f64 / 1e9, "GB"),
        };
        f.pad(&format!("{value:.1} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_formatted() {
        assert_eq!(Nanos(850).to_string(), "850 ns");
        assert_eq!(Nanos(12_345).to_string(), "12 µs");
        assert_eq!(Nanos(1_250_000).to_string(), "1.2 ms");
        assert_eq!(Bytes(1_500_000).to_string(), "1.5 MB");
    }

    #[test]
    fn nothing_is_wider_than_the_screen() {
        let text = "  one two three four five six\nseven";
        for line in wrap(text, 12) {
            assert!(line.chars().count() <= 12, "{line:?}");
        }
        assert_eq!(wrap(text, 12).join(" ").split_whitespace().count(), 7);
        let columns = [
            Column { title: "a", width: 6, from: 0, align: Align::Left },
            Column { title: "b", width: 6, from: 30, align: Align::Right },
            Column { title: "c", width: 0, from: 0, align: Align::Rest },
        ];
        let cells = ["ab".to_owned(), "1".to_owned(), "long long text".to_owned()];
        assert_eq!(row(&columns, &cells, 12), "ab      long");
        assert_eq!(row(&columns, &cells, 40), "ab           1  long long text");
    }
}
