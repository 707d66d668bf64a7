//! Collects the items of a ring into a batch.

use crate::lost::Lost;
use crate::runs::Builder;
use crate::source::Source;
use perfring_consumer::advanced::Front;
use perfring_consumer::{Item, ReadError};

/// The bytes of the data area that a record with its payload in the AUX area takes.
const LARGE: u64 = 48;
/// Its type in the stream, where raw words are looked at; and those of losses and holes.
const LARGE_TYPE: u32 = 11;
const NO_RECORDS: [u32; 2] = [2, 0x5046_0001];

/// The bytes of payloads that are taken at once, so that a producer gets their space while the next ones are copied.
const PIECE: usize = 128 << 10;

/// Records before damage are valid: the next call returns the error.
pub(super) fn good(done: Result<(), ReadError>, nothing: bool) -> Result<(), ReadError> {
    if nothing { done } else { Ok(()) }
}

/// Returns the number of records before the first one in the AUX area; `usize::MAX` if there is
/// none.
pub(super) fn before_large(source: &mut Source, aux_size: u64, start: u64, end: u64) -> usize {
    let Source::Consumer(consumer) = source else { return usize::MAX };
    let Some(raw) = consumer.advanced().raw().filter(|_| aux_size > 0) else { return usize::MAX };
    let (mut pos, mut before) = (start, 0);
    while pos < end {
        let header = raw.ring().word(pos).to_ne_bytes();
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let size = u16::from_ne_bytes([header[6], header[7]]);
        if kind == LARGE_TYPE {
            return before;
        }
        if size < 8 {
            break; // damage, which reading it returns
        }
        pos += u64::from(size);
        before += usize::from(!NO_RECORDS.contains(&kind));
    }
    usize::MAX
}

/// Items that are there, up to `max` records; not for ever, of a producer that is faster: what
/// comes at `end` or later is for the next time. Calls `passed` after some of them, whose bytes are
/// still in this core's cache.
pub(super) fn collect(
    source: &mut Source,
    batch: &mut Builder,
    max: usize,
    end: u64,
    mut passed: impl FnMut(&mut Source, &Builder),
) -> Result<(), ReadError> {
    while batch.len() < max {
        let left = (max - batch.len()).min(batch.fit_in(PIECE)) as u64;
        let more = match source {
            Source::Consumer(consumer) => match consumer.read_run(left) {
                Some(run) => {
                    batch.push_run(&run);
                    let more = run.pos() + (run.bytes().len() as u64) < end;
                    passed(source, batch);
                    more
                }
                None => put(consumer.read()?, batch, end),
            },
            Source::Observer(observer) => put(observer.read()?, batch, end),
        };
        if !more {
            break;
        }
    }
    // What is lost after the last record, which a read at the end finds.
    while batch.len() < max && source.position() == end && source.peek()? == Front::Lost {
        put(source.read()?, batch, end);
    }
    Ok(())
}

/// Returns whether there may be more.
#[inline(always)]
fn put(item: Option<Item<'_>>, batch: &mut Builder, end: u64) -> bool {
    match item {
        Some(Item::Record(record)) => {
            batch.push(&record);
            // Its size is not known here, but what follows it is no nearer than this: a long one
            // may stand in the AUX area.
            record.pos + (record.bytes.len() as u64 + 8).min(LARGE) < end
        }
        Some(Item::Lost(lost)) => {
            batch.lost(Lost::new(&lost));
            lost.pos < end
        }
        None => false,
    }
}
