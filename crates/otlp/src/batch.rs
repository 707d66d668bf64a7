//! Batches: the content of requests, encoded item by item.

use super::wire;
use perfring_events::{Event, signal::Reported};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len, message};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The field of a request for what it has of one resource; so it is in all signals' messages, as the
/// fields that follow.
const RESOURCES: u32 = 1;
/// Of those, the field of the resource.
const RESOURCE: u32 = 1;
/// Of those, the field for what is of one scope.
const SCOPES: u32 = 2;
/// Of those, the field of the scope.
const SCOPE: u32 = 1;
/// Of those, the field of a log record, a span or a metric.
const ITEMS: u32 = 2;

/// The events in an item, to find out when they are delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// The number of the oldest.
    pub(super) seq: u64,
    /// The number of records. An event that gives two items is counted with one of them.
    pub(super) records: u64,
    /// Identifies the events and their order: the same when they are read again.
    pub(super) digest: u128,
}

impl Credit {
    /// Returns the credit of one event.
    pub(super) fn of(event: &Event<'_>, records: u64) -> Self {
        let digest = match event.key() {
            Some(key) => {
                let cause = key.lost.unwrap_or_default().bytes().map(u128::from);
                let sum = key.sum.map(u128::from);
                cause.chain(sum).fold(mix(u128::from_le_bytes(key.uuid), key.pos.into()), mix)
            }
            None => 0,
        };
        Credit { seq: event.seq, records, digest }
    }

    pub(super) fn and(self, other: Credit) -> Credit {
        Credit {
            seq: self.seq.min(other.seq),
            records: self.records + other.records,
            digest: mix(self.digest, other.digest),
        }
    }
}

/// A step of the FNV-1a hash of 128 bits, with words instead of bytes and its halves exchanged, so
/// that each bit comes to count for all.
fn mix(before: u128, word: u128) -> u128 {
    (before ^ word).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b).rotate_left(64)
}

/// A complete request.
#[derive(Debug)]
pub struct Batch {
    /// Encoded.
    pub(super) message: Vec<u8>,
    /// Log records, spans or data points.
    pub(super) items: u64,
    pub(super) credit: Credit,
}

impl Batch {
    /// Returns the encoded request.
    #[must_use]
    pub fn into_message(self) -> Vec<u8> {
        self.message
    }

    /// Returns how many log records, spans or data points it has.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Returns how many records it has.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.credit.records
    }

    /// Returns the number of its oldest event.
    pub fn seq(&self) -> u64 {
        self.credit.seq
    }

    /// Identifies its events and their order: the same when they are read again.
    pub fn digest(&self) -> u128 {
        self.credit.digest
    }
}

/// What a batch has of one resource.
#[derive(Debug)]
struct OfResource {
    reported: Arc<Reported>,
    scopes: Vec<OfScope>,
    /// By their names.
    places: HashMap<String, usize>,
}

/// What a batch has of one scope of a resource.
#[derive(Debug)]
struct OfScope {
    name: String,
    /// Its items, each as the field that it becomes.
    items: Vec<u8>,
}

/// A batch that is being filled.
#[derive(Debug, Default)]
pub(super) struct Building {
    resources: Vec<OfResource>,
    /// By the address of the resource, which `resources` keeps alive.
    places: HashMap<usize, usize>,
    /// Where the last item is.
    last: (usize, usize),
    pub(super) items: u64,
    pub(super) bytes: usize,
    credit: Option<Credit>,
    /// When its first item was added.
    pub(super) since: Option<Instant>,
    /// What had the items of a scope of the batch before.
    room: Vec<u8>,
}

impl Building {
    /// Adds something, encoded, that counts as `items` items.
    pub(super) fn add(
        &mut self,
        reported: &Arc<Reported>,
        scope: &str,
        item: &[u8],
        items: u64,
        credit: Credit,
        now: Instant,
    ) {
        self.items += items;
        self.credit = Some(self.credit.map_or(credit, |before| before.and(credit)));
        self.since.get_or_insert(now);

        if !self.is_at_last(reported, scope) {
            self.find(reported, scope);
        }
        let (resource, place) = self.last;
        let place = self.resources.get_mut(resource).and_then(|its| its.scopes.get_mut(place));
        if let Some(OfScope { items, .. }) = place {
            let before = items.len();
            begin(ITEMS, item.len(), items);
            items.extend_from_slice(item);
            self.bytes += items.len() - before;
        }
    }

    fn is_at_last(&self, reported: &Arc<Reported>, scope: &str) -> bool {
        let (resource, place) = self.last;
        self.resources.get(resource).is_some_and(|its| {
            Arc::ptr_eq(&its.reported, reported)
                && its.scopes.get(place).is_some_and(|its| its.name == scope)
        })
    }

    fn find(&mut self, reported: &Arc<Reported>, scope: &str) {
        let address = Arc::as_ptr(reported).addr();
        let resource = *self.places.entry(address).or_insert(self.resources.len());
        if resource == self.resources.len() {
            let (scopes, places) = (Vec::new(), HashMap::new());
            self.resources.push(OfResource { reported: Arc::clone(reported), scopes, places });
        }
        let OfResource { scopes, places, .. } = &mut self.resources[resource];
        let place = places.get(scope).copied().unwrap_or(scopes.len());
        if place == scopes.len() {
            let items = std::mem::take(&mut self.room);
            scopes.push(OfScope { name: scope.to_owned(), items });
            places.insert(scope.to_owned(), place);
            self.bytes += 256; // the approximate size of a resource
        }
        self.last = (resource, place);
    }

    /// Returns the oldest event in it.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.credit.map(|credit| credit.seq)
    }

    /// Returns its content as a complete batch.
    pub(super) fn seal(&mut self) -> Option<Batch> {
        let this = std::mem::take(self);
        let mut message = Vec::with_capacity(this.bytes);
        for mut of in this.resources {
            of.put(&mut message);
            if let Some(last) = of.scopes.pop() {
                self.room = last.items;
                self.room.clear();
            }
        }
        this.credit.map(|credit| Batch { message, items: this.items, credit })
    }
}

impl OfResource {
    /// Appends it as a field of a request.
    fn put(&self, to: &mut Vec<u8>) {
        let resource = wire::resource(&self.reported);
        let scopes: Vec<_> = self.scopes.iter().map(|of| (wire::scope(&of.name), of)).collect();
        let len_of = |(scope, of): &(Option<_>, &OfScope)| {
            scope.as_ref().map_or(0, |scope| message::encoded_len(SCOPE, scope)) + of.items.len()
        };
        let lens: Vec<usize> = scopes.iter().map(len_of).collect();
        let field = |len: &usize| key_len(SCOPES) + encoded_len_varint(*len as u64) + len;
        let all = message::encoded_len(RESOURCE, &resource) + lens.iter().map(field).sum::<usize>();
        begin(RESOURCES, all, to);
        message::encode(RESOURCE, &resource, to);
        for ((scope, of), len) in scopes.iter().zip(lens) {
            begin(SCOPES, len, to);
            scope.iter().for_each(|scope| message::encode(SCOPE, scope, to));
            to.extend_from_slice(&of.items);
        }
    }
}

/// Begins a field of this many bytes.
fn begin(field: u32, len: usize, to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(len as u64, to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::Cause;
    use perfring_events::{Loss, LossCause, Origin, What};

    #[test]
    fn losses_at_one_position_are_different_events() {
        let origin = Origin::default();
        let digest = |cause| {
            let cause = LossCause::Ring(cause);
            let loss = Loss::new(8, 1, 64, cause);
            Credit::of(&Event { seq: 1, origin: &origin, what: What::Lost(loss) }, 0).digest
        };
        // Their names are of one length.
        assert_eq!(Cause::Pending.name().len(), Cause::Foreign.name().len());
        assert_ne!(digest(Cause::Pending), digest(Cause::Foreign));
    }
}
