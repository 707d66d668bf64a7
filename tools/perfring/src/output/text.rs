//! One line of text per record, for people and line tools.

use super::log;
use crate::records::typed::Seen;
use crate::verbosity::{Painted, Style};
use perfring_consumer::WriterId;
use perfring_figures::escape::{one_line, payload, word};
use std::io::{self, Write};

pub(super) fn record(out: &mut impl Write, seen: &Seen<'_>, positions: bool) -> io::Result<()> {
    let record = &seen.record;
    if let Some(ring) = seen.ring {
        write!(out, "{}: ", Painted(Style::Bold, word(ring)))?;
    }
    if positions {
        write!(out, "{:>10} {:>6}  ", record.pos, record.kind)?;
    }
    if let Some(when) = &seen.when {
        write!(out, "{} ", Painted(Style::Dim, when.text()))?;
    }
    if let Some(WriterId { pid, tid }) = record.writer {
        write!(out, "{pid}/{tid} ")?;
    }
    if let Some((kind, value)) = seen.values() {
        if !log::record(out, seen)? {
            write!(out, "{} {}", word(&kind.name), kind.text(value))?;
        }
    } else {
        if let Some(kind) = seen.kind.filter(|_| seen.value.is_some()) {
            write!(out, "{} ", word(&kind.name))?;
        }
        payload(out, record.bytes)?;
        if let Some(bad) = seen.bad() {
            write!(out, " [{}]", one_line(&bad.to_string()))?;
        }
    }
    out.write_all(b"\n")
}
