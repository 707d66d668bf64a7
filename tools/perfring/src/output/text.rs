//! One line per record, for people and for line tools.

use perfring_consumer::Record;
use std::io::{self, Write};

pub(super) fn record(out: &mut impl Write, record: &Record<'_>, positions: bool) -> io::Result<()> {
    if positions {
        write!(out, "{:>10} {:>6}  ", record.pos, record.kind)?;
    }
    payload(out, record.bytes)?;
    out.write_all(b"\n")
}

/// Text as it is; what would disturb a terminal or break the line as `\xNN`.
fn payload(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(|c: char| c.is_control() && c != '\t') {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        payload(&mut out, bytes).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_stays_a_line_and_a_terminal_stays_calm() {
        assert_eq!(shown("grüße\tthere".as_bytes()), "grüße\tthere");
        assert_eq!(shown(b"a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
        assert_eq!(shown(b"\xff\x00ok\xc3"), "\\xff\\x00ok\\xc3");
        assert_eq!(shown("\u{9b}".as_bytes()), "\\xc2\\x9b");
        assert_eq!(shown(b""), "");
    }
}
