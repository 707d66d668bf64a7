//! Events as a sidecar would pass them, without rings.

use crate::feed::ANSWER;
use perfring_consumer::{Anchors, Policy, RecordRef, stat::OwnerInfo};
use perfring_export::nats::{Nats, Options, Payload};
use perfring_export::{Event, Loss, LossCause, Origin, Output, Rec, Terms, Took, What};
use perfring_testkit::wait::Watchdog;
use perfring_testrig::nats::{Server, Stored};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

pub(crate) fn origin(id: u32, name: &str) -> Origin {
    let producer = OwnerInfo { epoch: 1, attached_ns: 0, pid: 1, uid: 0, name: "test".into() };
    Origin {
        id,
        name: name.into(),
        location: format!("/{name}"),
        uuid: [id as u8 + 1; 16],
        epoch: 3,
        policy: Some(Policy::Drop),
        timed: false,
        data_size: 4096,
        producer,
        types: Default::default(),
        anchors: Anchors::default(),
        ..Origin::default()
    }
}

pub(crate) fn record<'a>(pos: u64, bytes: &'a [u8], origin: &'a Origin) -> What<'a> {
    What::Record(Rec::new(RecordRef { pos, kind: 4096, bytes, time: None, writer: None }, origin))
}

pub(crate) fn loss(pos: u64, records: u64, cause: perfring_consumer::Cause) -> What<'static> {
    let cause = LossCause::Ring(cause);
    What::Lost(Loss::new(pos, records, 64 * records, cause))
}

/// A loss of which is known how many its ring has lost with it.
pub(crate) fn counted(pos: u64, records: u64, sum: u64) -> What<'static> {
    match loss(pos, records, perfring_consumer::Cause::Full) {
        What::Lost(loss) => What::Lost(Loss { sum: Some(sum), ..loss }),
        other => other,
    }
}

pub(crate) fn options(server: &Server) -> Options {
    Options {
        servers: vec![server.url()],
        payload: Payload::Raw,
        ack_timeout: ANSWER,
        terms: Terms { max_backoff: Duration::from_millis(200), ..Terms::default() },
        ..Options::default()
    }
}

/// Records of several rings in turn, and which of them may be released.
pub(crate) struct Feed {
    pub(crate) origins: Vec<Origin>,
    /// The number of the next event.
    pub(crate) seq: u64,
    /// Events before this one may be released.
    pub(crate) released: u64,
}

impl Feed {
    pub(crate) fn new(rings: u32) -> Feed {
        let origins = (0..rings).map(|id| origin(id, &format!("ring-{id}"))).collect();
        Feed { origins, seq: 0, released: 0 }
    }

    /// Offers one record of eight bytes, its number; returns whether it was taken.
    pub(crate) fn offer(&mut self, nats: &mut Nats) -> bool {
        let seq = self.seq;
        let rings = self.origins.len() as u64;
        let origin = &self.origins[(seq % rings) as usize];
        let bytes = seq.to_le_bytes();
        let record = RecordRef {
            pos: seq / rings * 24,
            kind: 4096,
            bytes: &bytes,
            time: None,
            writer: None,
        };
        let what = What::Record(Rec::new(record, origin));
        let took = nats.take(&Event { seq, origin, what }).unwrap() == Took::Yes;
        self.seq += u64::from(took);
        took
    }

    /// Offers records until this many are taken.
    pub(crate) fn to(&mut self, count: u64, nats: &mut Nats) {
        let dog = Watchdog::default();
        while self.seq < count {
            if !self.offer(nats) {
                dog.pause(format_args!("room for more: {:?}", nats.figures()));
            }
        }
        nats.flush().unwrap();
        self.release(nats);
    }

    pub(crate) fn release(&mut self, nats: &mut Nats) {
        let released = nats.unsettled().unwrap_or(self.seq);
        assert!(released >= self.released, "{released} after {}", self.released);
        self.released = released;
    }

    /// Checks for every record once, and in each ring's order.
    pub(crate) fn check(&self, stored: &[Stored]) {
        let rings = self.origins.len();
        let mut by_ring: HashMap<&str, VecDeque<u64>> = HashMap::new();
        for message in stored {
            by_ring.entry(&message.subject).or_default().push_back(message.number());
        }
        assert_eq!(stored.len() as u64, self.seq, "messages in the stream");
        for (ring, origin) in self.origins.iter().enumerate() {
            let found = &by_ring[format!("perfring.{}.bytes", origin.name).as_str()];
            let wanted = (ring as u64..self.seq).step_by(rings);
            assert!(wanted.eq(found.iter().copied()), "the order of {}", origin.name);
        }
    }
}
