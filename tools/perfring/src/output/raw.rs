//! The payloads and nothing else.

use perfring_consumer::Record;
use std::io::{self, Write};

pub(super) fn record(out: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    out.write_all(record.bytes)
}
