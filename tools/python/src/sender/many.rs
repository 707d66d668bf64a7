//! Publishes many records with few stores and locks.

use perfring_producer::{Layout, Producer, RecordType, ReserveError, SharedProducer};

/// The most bytes of a shared ring that one batch takes.
const GROUP_MAX: u64 = 32 << 10;

/// Records to publish, in order.
pub(crate) trait Records {
    fn len(&self) -> usize;
    fn get(&self, nth: usize) -> (RecordType, &[u8]);
}

/// How far publishing came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Published, or refused and counted.
    pub(crate) offered: usize,
    pub(crate) published: usize,
}

/// As many records as fit, from `sent` on; those that do not are lost, or left to wait for.
pub(super) fn one(
    producer: &mut Producer,
    records: &impl Records,
    sent: &mut Sent,
    waits: bool,
) -> Result<(), ReserveError> {
    let mut batch = producer.batch();
    while sent.offered < records.len() {
        let (kind, bytes) = records.get(sent.offered);
        let done = if waits {
            match batch.offer(kind, bytes)? {
                true => Ok(()),
                false => return Ok(()),
            }
        } else {
            batch.push_as(kind, bytes)
        };
        sent.offered += 1;
        match done {
            Ok(()) => sent.published += 1,
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
    sent: &mut Sent,
    waits: bool,
) -> Result<(), ReserveError> {
    let most = GROUP_MAX.min(layout.data_size / 8);
    while sent.offered < records.len() {
        let (mut end, mut bytes) = (sent.offered, 0);
        while end < records.len() {
            let size = layout.record_size(records.get(end).1.len());
            if end > sent.offered && bytes + size > most {
                break;
            }
            (end, bytes) = (end + 1, bytes + size);
        }
        if end - sent.offered > 1
            && let Some(mut batch) = producer.offer_batch(bytes as usize)?
        {
            while sent.offered < end {
                let (kind, bytes) = records.get(sent.offered);
                if batch.push_as(kind, bytes).is_err() {
                    break;
                }
                (sent.offered, sent.published) = (sent.offered + 1, sent.published + 1);
            }
            continue;
        }
        // One by one: those that fit, and the others are counted each.
        if waits {
            return Ok(());
        }
        for nth in sent.offered..end {
            let (kind, bytes) = records.get(nth);
            sent.offered = nth + 1;
            match producer.publish_as(kind, bytes) {
                Ok(()) => sent.published += 1,
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
