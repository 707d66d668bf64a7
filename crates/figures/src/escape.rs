//! Text that neither disturbs a terminal nor breaks a line.

use perfring_types::read::{self, disturbs};
use std::io::{self, Write};

/// Writes bytes as text; what would disturb a terminal or break the line as `\xNN`.
pub fn payload(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(disturbs) {
            let (before, control) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let len = control.chars().next().map_or(0, char::len_utf8);
            escape(out, &control.as_bytes()[..len])?;
            rest = &control[len..];
        }
        out.write_all(rest.as_bytes())?;
        escape(out, chunk.invalid())?;
    }
    Ok(())
}

fn escape(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}

/// Returns what [`payload`] writes, as a `String`.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let _ = payload(&mut out, bytes); // a `Vec` never fails
    String::from_utf8(out).unwrap_or_default() // it consists of whole characters
}

/// Returns a text in which what would disturb a terminal or break the line is as [`word`] writes it: a newline is `\n`.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !disturbs(c) => out.push(c),
            c if c.is_control() => out.extend(c.escape_debug()),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Formats a name, in quotes if it is not a plain word.
pub fn word(name: &str) -> String {
    read::word(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_a_line_and_a_terminal_stays_calm() {
        assert_eq!(escaped("grüße\tthere".as_bytes()), "grüße\tthere");
        assert_eq!(escaped(b"a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
        assert_eq!(escaped(b"\xff\x00ok\xc3"), "\\xff\\x00ok\\xc3");
        assert_eq!(escaped("\u{9b}".as_bytes()), "\\xc2\\x9b");
        assert_eq!(escaped("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
        assert_eq!(escaped(b""), "");
        for odd in ["\u{61c}", "\u{2028}", "\u{2029}", "\u{200b}", "\u{feff}", "\u{2060}"] {
            assert!(escaped(odd.as_bytes()).starts_with("\\x"), "{odd:?}");
            assert_eq!(word(odd), format!("\"{}\"", one_line(odd)), "{odd:?}");
            assert!(one_line(odd).starts_with("\\u{"), "{odd:?}");
        }
        let text = "grüße\tthere: it's \"a\\b\"";
        assert_eq!(one_line(text), text);
        assert_eq!(one_line("a\nb\r\u{1b}\u{9b}\0"), r"a\nb\r\u{1b}\u{9b}\0");
        assert_eq!(word("a\nb\r\u{1b}"), r#""a\nb\r\u{1b}""#, "the same in quotes");
        assert_eq!(word("demo.Tick"), "demo.Tick");
        assert_eq!(word("a b\u{1b}"), "\"a b\\u{1b}\"");
        assert_eq!(word(""), "\"\"");
    }
}
