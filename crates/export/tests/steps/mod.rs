//! Steps of a test with a recording, and the events that must be read.

use perfring_consumer::{Anchors, Cause, Policy, RecordRef, advanced::Anchor, stat::OwnerInfo};
use perfring_export::recording::{ReadError, Reader, Recording};
use perfring_export::{Birth, Event, Loss, LossCause, Origin, Output, Rec, RuleName, Took, What};
use perfring_types::read::TypeTable;
use perfring_types::{Encoding, Entries, Schema};
use proptest::prelude::*;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Instant;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Begin(u8),
    Record { ring: u8, pos: u64, kind: u32, bytes: Vec<u8>, time: Option<u64>, late: u64 },
    Lost { ring: u8, loss: Loss },
    End(u8),
    NewType { ring: u8, name: String },
    NewAnchor { ring: u8, anchor: Anchor },
    Flush,
}

/// An event, with all that is known of its ring at that time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    ring: String,
    types: Vec<Vec<u64>>,
    anchors: Vec<Anchor>,
    what: String,
}

impl Seen {
    fn of(event: &Event<'_>) -> Self {
        let origin = event.origin;
        let ring = Origin { id: 0, types: TypeTable::default(), ..origin.clone() };
        Seen {
            ring: format!("{ring:?}"),
            types: origin.types.entries().map(|entry| entry.to_words()).collect(),
            anchors: origin.anchors.all().to_vec(),
            what: match &event.what {
                What::Record(record) => format!(
                    "{} {} {:?} {:?} {:?} {} {:?} {:?}",
                    record.pos,
                    record.kind,
                    record.bytes,
                    record.time,
                    record.wall,
                    record.late,
                    record.kind_of().map(|kind| &kind.name),
                    record.value()
                ),
                other => format!("{other:?}"),
            },
        }
    }
}

/// Returns how many of them are records.
pub(crate) fn records(seen: &[Seen]) -> u64 {
    seen.iter().filter(|seen| seen.what.starts_with(|c: char| c.is_ascii_digit())).count() as u64
}

pub(crate) fn origin(ring: u8) -> Origin {
    Origin {
        id: 1000 + u32::from(ring),
        name: format!("ring {ring} \u{fc}"),
        location: format!("/some/where/{ring}"),
        uuid: [ring; 16],
        epoch: u64::from(ring) << 40,
        policy: [None, Some(Policy::Drop), Some(Policy::Overwrite)][usize::from(ring) % 3],
        timed: ring.is_multiple_of(2),
        per_cpu: ring == 1,
        boot: [3 * ring; 16],
        birth: (ring > 1).then_some(Birth { namespace: 4, started_ns: u64::MAX - u64::from(ring) }),
        data_size: 4096 << ring,
        producer: OwnerInfo {
            epoch: 3,
            attached_ns: u64::MAX,
            pid: 7,
            uid: 1,
            name: "p\n".repeat(9),
        },
        types: TypeTable::default(),
        anchors: Anchors::default(),
    }
}

/// A file in memory, shared with the test.
#[derive(Clone, Default)]
pub(crate) struct Shared(pub(crate) Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records these steps, and returns what must be read.
pub(crate) fn record(steps: &[Step], recording: &mut Recording) -> Vec<Seen> {
    let mut rings: Vec<Origin> = (0..4).map(origin).collect();
    let mut seen = Vec::new();
    for (seq, step) in (100..).zip(steps) {
        let (ring, what) = match step {
            Step::Begin(ring) => (ring, What::Began),
            Step::End(ring) => (ring, What::Ended),
            Step::Lost { ring, loss } => (ring, What::Lost(*loss)),
            Step::Record { ring, pos, kind, bytes, time, late } => {
                let record = RecordRef { pos: *pos, kind: *kind, bytes, time: *time, writer: None };
                let mut record = Rec::new(record, &rings[usize::from(*ring)]);
                record.late = *late;
                (ring, What::Record(record))
            }
            Step::NewType { ring, name } => {
                let entry = Schema::new(name, Encoding::Utf8).with_hashed_id().to_entry();
                rings[usize::from(*ring)].types.extend(Entries::new(&entry));
                continue;
            }
            Step::NewAnchor { ring, anchor } => {
                let anchors = &mut rings[usize::from(*ring)].anchors;
                *anchors = anchors.all().iter().copied().chain([*anchor]).collect();
                continue;
            }
            Step::Flush => {
                recording.flush().unwrap();
                assert_eq!(recording.unsettled(), None);
                continue;
            }
        };
        let event = Event { seq, origin: &rings[usize::from(*ring)], what };
        assert_eq!(recording.take(&event).unwrap(), Took::Yes);
        assert!(recording.unsettled().is_none_or(|oldest| oldest <= seq));
        seen.push(Seen::of(&event));
        if matches!(event.what, What::Ended) {
            rings[usize::from(*ring)] = origin(*ring);
        }
    }
    seen
}

/// Returns a complete recording in memory, and what must be read from it.
pub(crate) fn written(steps: &[Step]) -> (Vec<u8>, Vec<Seen>) {
    let file = Shared::default();
    let mut recording = Recording::to("test", file.clone()).unwrap();
    let seen = record(steps, &mut recording);
    recording.close(Instant::now()).unwrap();
    assert_eq!(recording.unsettled(), None);
    let figures = recording.figures();
    assert_eq!(figures.taken, figures.delivered);
    assert_eq!(figures.bytes, file.0.borrow().len() as u64);
    (file.0.take(), seen)
}

/// Reads what can be read.
pub(crate) fn read(bytes: &[u8]) -> (Vec<Seen>, Option<ReadError>) {
    let mut seen = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (seen, Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(event)) => {
                assert_eq!(event.seq, seen.len() as u64);
                seen.push(Seen::of(&event));
            }
            Ok(None) => return (seen, None),
            Err(error) => {
                assert!(matches!(reader.next(), Ok(None)), "an error is returned once");
                return (seen, Some(error));
            }
        }
    }
}

/// Returns some events of two rings, in small blocks.
pub(crate) fn some() -> Vec<Step> {
    let mut steps = vec![
        Step::Begin(0),
        Step::NewType { ring: 0, name: "t".to_owned() },
        Step::NewAnchor { ring: 0, anchor: Anchor { realtime_ns: 5, ..Anchor::default() } },
    ];
    for n in 0..12u8 {
        let (ring, pos, time) = (n % 2, u64::from(n) * 32, Some(u64::from(n)));
        let bytes = vec![n; usize::from(n)];
        steps.push(Step::Record { ring, pos, kind: 4096, bytes, time, late: u64::from(n == 5) });
        if n % 3 == 2 {
            steps.push(Step::Flush);
        }
    }
    let cause = LossCause::Ring(Cause::Lapped);
    let loss = Loss { time: Some(9), ..Loss::new(640, 3, 96, cause) };
    steps.extend([Step::Lost { ring: 1, loss }, Step::End(1), Step::End(0)]);
    steps
}

fn any_anchor() -> impl Strategy<Value = Anchor> {
    (0..9000u64, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(pos, clock_ns, realtime_ns, error_ns)| Anchor { pos, clock_ns, realtime_ns, error_ns },
    )
}

fn any_loss() -> impl Strategy<Value = Loss> {
    let cause = (0..12u64).prop_map(|code| match code {
        7 => LossCause::Busy,
        8 => LossCause::Rule(RuleName::new("debug").expect("a name")),
        9 => LossCause::Damaged,
        10 => LossCause::UnknownDamage,
        11 => LossCause::RingDamaged,
        code => LossCause::Ring(Cause::from_code(code)),
    });
    (any::<[u64; 3]>(), cause, any::<[Option<u64>; 3]>(), any::<bool>()).prop_map(
        |([pos, records, bytes], cause, [time, wall, sum], at_end)| Loss {
            pos,
            records,
            bytes,
            cause,
            time,
            wall,
            sum,
            at_end,
        },
    )
}

fn any_record() -> impl Strategy<Value = Step> {
    let text_id = Schema::new("t", Encoding::Utf8).hashed_id().get();
    let kind = prop_oneof![any::<u32>(), Just(text_id), Just(4096)];
    let bytes = prop_oneof![
        20 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(vec![7; 65_520]), // the longest payload of a ring
    ];
    let late = prop_oneof![Just(0), any::<u64>()];
    (0..4u8, 0..10_000u64, kind, bytes, any::<Option<u64>>(), late).prop_map(
        |(ring, pos, kind, bytes, time, late)| Step::Record { ring, pos, kind, bytes, time, late },
    )
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    let ring = || 0..4u8;
    prop_oneof![
        2 => ring().prop_map(Step::Begin),
        10 => any_record(),
        2 => (ring(), any_loss()).prop_map(|(ring, loss)| Step::Lost { ring, loss }),
        1 => ring().prop_map(Step::End),
        1 => (ring(), "[a-z]{1,3}").prop_map(|(ring, name)| Step::NewType { ring, name }),
        1 => (ring(), any_anchor()).prop_map(|(ring, anchor)| Step::NewAnchor { ring, anchor }),
        1 => Just(Step::Flush),
    ]
}
