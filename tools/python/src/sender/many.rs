//! Many records at once: as few stores and locks as they allow.

use super::Records;
use perfring_producer::{Layout, Producer, ReserveError, SharedProducer};

/// The most bytes of a shared ring that one batch takes.
const GROUP_MAX: u64 = 32 << 10;

/// As many records as fit, from `next` on; those that do not are lost, or left to wait for.
pub(super) fn one(
    producer: &mut Producer,
    records: &impl Records,
    next: &mut usize,
    published: &mut usize,
    waits: bool,
) -> Result<(), ReserveError> {
    let mut batch = producer.batch();
    while *next < records.len() {
        let (kind, bytes) = records.get(*next);
        let done = if waits {
            match batch.offer(kind, bytes)? {
                true => Ok(()),
                false => return Ok(()),
            }
        } else {
            batch.push(kind, bytes)
        };
        *next += 1;
        match done {
            Ok(()) => *published += 1,
            Err(ReserveError::Full) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As [`one`], in groups of a shared ring.
pub(super) fn many(
    producer: &SharedProducer,
    layout: &Layout,
    records: &impl Records,
    next: &mut usize,
    published: &mut usize,
    waits: bool,
) -> Result<(), ReserveError> {
    let most = GROUP_MAX.min(layout.data_size / 8);
    while *next < records.len() {
        let (mut end, mut bytes) = (*next, 0);
        while end < records.len() {
            let size = layout.record_size(records.get(end).1.len());
            if end > *next && bytes + size > most {
                break;
            }
            (end, bytes) = (end + 1, bytes + size);
        }
        if end - *next > 1
            && let Some(mut batch) = producer.offer_batch(bytes as usize)?
        {
            while *next < end {
                let (kind, bytes) = records.get(*next);
                if !batch.push(kind, bytes) {
                    break;
                }
                (*next, *published) = (*next + 1, *published + 1);
            }
            continue;
        }
        // One by one: those that fit, and the others are counted each.
        if waits {
            return Ok(());
        }
        for nth in *next..end {
            let (kind, bytes) = records.get(nth);
            *next = nth + 1;
            match producer.publish(kind, bytes) {
                Ok(()) => *published += 1,
                Err(
                    ReserveError::Full
                    | ReserveError::Contended { .. }
                    | ReserveError::Pending { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
