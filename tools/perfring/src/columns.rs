//! The width of stdout, and text wrapped to fit it.

use std::io;

/// Below this width text is not wrapped.
const NARROWEST: usize = 24;

/// Returns the number of columns to wrap text to: `COLUMNS`, else the width of the terminal.
/// Returns `None` for a file or a pipe, whose lines may have any length.
pub(crate) fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let has = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into());
    said.or_else(has).filter(|width| *width >= NARROWEST)
}

/// Wraps a text behind a title; continuation lines are indented to the text's first word.
pub(crate) fn paragraph(title: &str, text: &str, width: Option<usize>) -> String {
    let hang = title.chars().count();
    let mut lines = title.to_owned();
    let mut at = hang;
    for (nth, word) in text.split(' ').enumerate() {
        let len = word.chars().count();
        if nth > 0 && width.is_some_and(|width| at + 1 + len > width) {
            lines += &format!("\n{:hang$}", "");
            at = hang;
        } else if nth > 0 {
            lines.push(' ');
            at += 1;
        }
        lines += word;
        at += len;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words_and_only_where_it_must_be() {
        let text = "one two three, four";
        assert_eq!(paragraph("  a  ", text, None), "  a  one two three, four");
        assert_eq!(paragraph("  a  ", text, Some(24)), "  a  one two three, four");
        assert_eq!(paragraph("  a  ", text, Some(23)), "  a  one two three,\n     four");
        assert_eq!(paragraph("  a  ", text, Some(12)), "  a  one two\n     three,\n     four");
        assert_eq!(paragraph("", "muchtoolong x", Some(5)), "muchtoolong\nx");
    }
}
