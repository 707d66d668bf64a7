//! Batches of OTLP as messages: one subject for each signal.

use super::message::{Entry, Head};
use super::options::{Options, Payload};
use async_nats::Subject;
use perfring_events::{Event, OutputError, What, delivery::left_out::LeftOut};
use perfring_otlp::{Batch, Lane, Mapper, Mapping, Plain};
use perfring_types::Class;
use perfring_types::read::Type;
use std::sync::Arc;

/// A server takes messages of at most 1 MiB unless it is configured otherwise; a batch may exceed
/// its limit by an item.
const MOST: usize = 512 << 10;

/// Makes batches of events.
#[derive(Debug)]
pub(super) struct Batches {
    mapper: Mapper,
    /// Whether all events become batches.
    all: bool,
    heads: [Arc<Head>; 3],
    /// Differs from that of any other output that ever was.
    salt: u64,
    sealed: u64,
}

impl Batches {
    /// Returns `None` if nothing is sent as OTLP.
    pub(super) fn new(name: &str, options: &Options) -> Result<Option<Self>, OutputError> {
        let all = match options.payload {
            Payload::Json | Payload::Raw => return Ok(None),
            Payload::Auto => false,
            Payload::Otlp => true,
        };
        let fault = |bad| OutputError::new(name, format!("no random numbers: {bad}"));
        let salt = getrandom::u64().map_err(fault)?;
        options.otlp.buckets.check().map_err(|why| OutputError::new(name, why))?;
        let batch_bytes = options.otlp.batch_bytes.min(MOST);
        // What has no class goes the other way, unless all goes this one.
        let plain = if all { options.otlp.plain } else { Plain::Logs };
        let mapping = Mapping { batch_bytes, plain, ..options.otlp.clone() };
        let heads = Lane::ALL.map(|lane| {
            let subject: Subject = options.otlp_subject(lane).to_owned().into();
            Arc::new(Head::of_batches(subject))
        });
        Ok(Some(Batches { mapper: Mapper::new(&mapping), all, heads, salt, sealed: 0 }))
    }

    /// Takes an event; returns `false` if it goes another way, too or only.
    pub(super) fn take(&mut self, event: &Event<'_>) -> bool {
        let of_ring = || event.origin.types.iter().any(has_class);
        let is_mine = match &event.what {
            _ if self.all => true,
            What::Record(record) => record.kind_of().is_some_and(has_class),
            What::Lost(_) => of_ring(),
            What::Began | What::Ended => {
                self.mapper.take(event);
                return false;
            }
        };
        if is_mine {
            self.mapper.take(event);
        }
        is_mine
    }

    /// Returns the samples of metrics that are left out.
    pub(super) fn left_out(&self) -> &LeftOut {
        self.mapper.left_out()
    }

    pub(super) fn mapper(&mut self) -> &mut Mapper {
        &mut self.mapper
    }

    /// Returns the number of records for which nothing is sent.
    pub(super) fn delivered(&self) -> u64 {
        self.mapper.delivered()
    }

    /// Returns the oldest event of which something is held back.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.mapper.oldest()
    }

    /// Returns the batches that are ready, each with its oldest event.
    pub(super) fn ready(&mut self) -> Vec<(u64, Entry)> {
        let ready = self.mapper.ready();
        ready.into_iter().map(|(lane, batch)| self.entry(lane, batch)).collect()
    }

    fn entry(&mut self, lane: Lane, batch: Batch) -> (u64, Entry) {
        self.sealed += 1;
        let id = match lane {
            // The same records make the same batch again, if they are read again.
            Lane::Logs => format!("otlp-logs-{:032x}-{}", batch.digest(), batch.items()),
            // Points and spans are made of records that lie apart; which ones depends on time.
            lane => format!("otlp-{}-{:016x}-{}", lane.name(), self.salt, self.sealed),
        };
        let head = Arc::clone(&self.heads[lane as usize]);
        let (seq, items, records) = (batch.seq(), batch.items(), batch.records());
        (seq, Entry::batch(head, id, items, records, batch.into_message().into()))
    }
}

fn has_class(kind: &Type) -> bool {
    kind.class.known().is_some_and(|class| class != Class::Plain)
}
