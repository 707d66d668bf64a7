//! What a reader was told of refused records, as sums: never more than the producers have counted, and at the end of
//! the stream exactly that.

use perfring_abi::Cause;
use perfring_ring::{Count, Lost, Refused};

/// What was counted when a reader came to this end of the stream.
pub(crate) type Batch = Option<(u64, Refused)>;

pub(crate) fn of(refused: &Refused, cause: Cause) -> Count {
    match cause {
        Cause::Full => refused.full,
        Cause::TooLarge => refused.too_large,
        Cause::Contended => refused.contended,
        Cause::Pending => refused.pending,
        Cause::Lapped | Cause::Foreign => panic!("{cause:?} is no producer's"),
    }
}

pub(crate) fn add(refused: &mut Refused, cause: Cause, more: Count) {
    let count = match cause {
        Cause::Full => &mut refused.full,
        Cause::TooLarge => &mut refused.too_large,
        Cause::Contended => &mut refused.contended,
        Cause::Pending => &mut refused.pending,
        Cause::Lapped | Cause::Foreign => panic!("{cause:?} is no producer's"),
    };
    *count = count.plus(more);
}

/// Of each cause that with more records.
pub(crate) fn most(one: Refused, other: Refused) -> Refused {
    let mut most = Refused::default();
    for cause in Cause::REFUSED {
        let counts = [of(&other, cause), of(&one, cause)];
        add(&mut most, cause, counts.into_iter().max_by_key(|count| count.records).unwrap());
    }
    most
}

/// Adds what a reader was told; what it was lapped by is another matter.
pub(crate) fn note(refused: &mut Refused, lost: Lost) {
    let Lost { records, bytes, cause, .. } = lost;
    if cause != Cause::Lapped {
        add(refused, cause, Count { records, bytes });
    }
}

/// What is told at the end of the stream: all that was counted and not told.
pub(crate) fn at_end(counted: &Refused, told: &mut Refused, pos: u64) -> Option<Lost> {
    // A marker may have told more since that was counted.
    let new = |cause: &Cause| of(counted, *cause).since(of(told, *cause)).records > 0;
    let cause = Cause::REFUSED.into_iter().find(new)?;
    let Count { records, bytes } = of(counted, cause).since(of(told, cause));
    add(told, cause, Count { records, bytes });
    Some(Lost { pos, records, bytes, cause, at_end: true })
}

/// The same of a reader that reads until there is nothing: what was counted when it came to this end, and then nothing.
pub(crate) fn in_a_batch(
    batch: &mut Batch,
    afresh: bool,
    counted: &Refused,
    told: &mut Refused,
    pos: u64,
) -> Option<Lost> {
    let known = batch.take().filter(|(end, _)| *end == pos);
    if let Some((_, counted)) = known {
        let lost = at_end(&counted, told, pos);
        if lost.is_some() || !afresh {
            *batch = lost.and(known);
            return lost;
        }
    }
    let lost = at_end(counted, told, pos);
    *batch = lost.map(|_| (pos, *counted));
    lost
}

/// What is told where the markers so far report `reported`, the one at `marker` included.
pub(crate) fn at_marker(reported: &Refused, told: &mut Refused, marker: Lost) -> Option<Lost> {
    let Count { records, bytes } = of(reported, marker.cause).since(of(told, marker.cause));
    if records == 0 {
        return None;
    }
    add(told, marker.cause, Count { records, bytes });
    Some(Lost { records, bytes, ..marker })
}
