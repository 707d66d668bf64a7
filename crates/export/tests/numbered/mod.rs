//! Records that hold nothing but their number, offered to an output without a ring.

use perfring_consumer::{Policy, RecordRef};
use perfring_export::{Event, Origin, Output, Rec, Took, What};

pub(crate) fn origin() -> Origin {
    Origin {
        id: 3,
        name: "one".into(),
        location: "/nowhere/one".into(),
        uuid: [7; 16],
        policy: Some(Policy::Drop),
        timed: true,
        data_size: 1 << 20,
        ..Origin::default()
    }
}

/// Offers record `n` as the event `seq`.
pub(crate) fn offer(output: &mut dyn Output, origin: &Origin, seq: u64, n: u64) -> Took {
    let bytes = [n.to_le_bytes(); 32].concat();
    let pos = 272 * n;
    let record = RecordRef { pos, kind: 4096, bytes: &bytes, time: Some(1000 + n), writer: None };
    let what = What::Record(Rec::new(record, origin));
    output.take(&Event { seq, origin, what }).expect("it takes it or has no room")
}
