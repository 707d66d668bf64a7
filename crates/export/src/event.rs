//! What outputs are told.

use perfring_consumer::{Anchors, Cause, OwnerInfo, Policy, RecordType};
use perfring_types::read::{BadPayload, Type, TypeTable, Value};
use std::cell::OnceCell;
use std::fmt;

/// A ring as outputs know it: one of perfring's, of the kernel's, or of a recording.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its number among all that this process has read, never given to another.
    pub id: u32,
    /// What people call it: its file's name, or its name in its set.
    pub name: String,
    /// Where it is or was: a path, `shm:NAME`, or what a recording says.
    pub location: String,
    /// The ring's own id. It names the ring for ever, also once its file is gone.
    pub uuid: [u8; 16],
    /// How many producers had attached when it was opened.
    pub epoch: u64,
    /// What it does when it is full; `None` for a ring of the kernel.
    pub policy: Option<Policy>,
    /// Whether its records have stamps.
    pub timed: bool,
    /// Bytes of its data area.
    pub data_size: u64,
    /// Who produced into it when it was opened: hints, as the file has them.
    pub producer: OwnerInfo,
    /// The types of its records, as far as they are known now. They become more.
    pub types: TypeTable,
    /// From stamps to wall-clock times, as known now.
    pub anchors: Anchors,
}

impl Origin {
    /// The uuid as people write it.
    #[must_use]
    pub fn uuid_text(&self) -> String {
        uuid::Uuid::from_bytes(self.uuid).hyphenated().to_string()
    }
}

/// Something that was read, or happened to a ring.
#[derive(Debug)]
pub struct Event<'a> {
    /// Its number in this run: rises by one from event to event, the same for all outputs.
    pub seq: u64,
    /// The ring it is of.
    pub origin: &'a Origin,
    /// What it is.
    pub what: What<'a>,
}

/// What an [`Event`] is.
#[derive(Debug)]
pub enum What<'a> {
    /// A ring is read from now on: before any other event of its.
    Began,
    /// A record.
    Record(Rec<'a>),
    /// Records that are not there.
    Lost(Loss),
    /// The ring is drained and gone: after any other event of its.
    Ended,
}

/// A record as outputs see it.
#[derive(Debug)]
pub struct Rec<'a> {
    /// Its position in its ring.
    pub pos: u64,
    /// Its type's number.
    pub kind: u32,
    /// Its payload.
    pub bytes: &'a [u8],
    /// Its stamp: ns of the machine's `CLOCK_BOOTTIME`, if its ring stamps.
    pub time: Option<u64>,
    /// The wall-clock time of the stamp, ns since 1970, if it can be told.
    pub wall: Option<u64>,
    /// By how many ns it came too late for its place in the order of time; 0 if it did not.
    pub late: u64,
    kind_of: Option<&'a Type>,
    /// In a box, as a record is moved about more often than it is decoded.
    value: OnceCell<Box<Result<Value, BadPayload>>>,
}

impl<'a> Rec<'a> {
    /// A record of this origin, as a reader gave it.
    #[must_use]
    #[inline(always)]
    pub fn new(record: perfring_consumer::Record<'a>, origin: &'a Origin) -> Self {
        Self::new_late(record, origin, 0)
    }

    /// As [`Rec::new`], of one that came by so many ns too late.
    #[must_use]
    #[inline(always)]
    pub fn new_late(record: perfring_consumer::Record<'a>, origin: &'a Origin, late: u64) -> Self {
        Rec {
            pos: record.pos,
            kind: record.kind,
            bytes: record.bytes,
            time: record.time,
            wall: record.wall(&origin.anchors),
            late,
            kind_of: RecordType::new(record.kind).and_then(|kind| origin.types.get(kind)),
            value: OnceCell::new(),
        }
    }

    /// Its type, if the ring's table has it.
    #[must_use]
    pub fn kind_of(&self) -> Option<&'a Type> {
        self.kind_of
    }

    /// What it holds by its type: decoded at the first call, for all outputs. `None` without a type.
    pub fn value(&self) -> Option<&Result<Value, BadPayload>> {
        let kind = self.kind_of?;
        Some(self.value.get_or_init(|| Box::new(kind.decode(self.bytes))))
    }
}

/// Why records are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The ring says so, or its reader was lapped.
    Ring(Cause),
    /// The output that is told was busy for too long, and promises no delivery.
    Busy,
}

impl LossCause {
    /// Its name, as all of perfring's doors have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LossCause::Ring(cause) => cause.name(),
            LossCause::Busy => "output busy",
        }
    }
}

/// Records that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// They would stand before this position.
    pub pos: u64,
    /// How many.
    pub records: u64,
    /// How many bytes, headers included.
    pub bytes: u64,
    /// Why.
    pub cause: LossCause,
    /// When, ns of `CLOCK_BOOTTIME`, as far as it is known: of the record read before.
    pub time: Option<u64>,
    /// The same on the wall clock, ns since 1970.
    pub wall: Option<u64>,
}

/// What tells one event from all others, of any ring, for ever: who gets one twice (delivery is at
/// least once) knows it by its key.
///
/// A position never comes twice in a ring, whoever produces into it, so a key has no epoch: the
/// number of producers so far may be another when a record is handed on for the second time, and
/// then its key would be.
///
/// ```
/// use perfring_export::Key;
/// let key = Key { uuid: [0xab; 16], pos: 4096, lost: None };
/// assert_eq!(key.to_string(), "abababababababababababababababab-4096");
/// let lost = Key { lost: Some("too_large"), ..key };
/// assert_eq!(lost.to_string(), "abababababababababababababababab-4096-lost-too_large");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The ring's id.
    pub uuid: [u8; 16],
    /// The position.
    pub pos: u64,
    /// It is of a loss before the position, by this cause's name, and not of the record at it. There
    /// can be several, each of another cause.
    pub lost: Option<&'static str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", uuid::Uuid::from_bytes(self.uuid).simple(), self.pos)?;
        match self.lost {
            Some(cause) => write!(f, "-lost-{}", cause.replace(' ', "-")),
            None => Ok(()),
        }
    }
}

impl Event<'_> {
    /// Its key; none if it is neither a record nor a loss.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        let (pos, lost) = match &self.what {
            What::Record(record) => (record.pos, None),
            What::Lost(loss) => (loss.pos, Some(loss.cause.name())),
            What::Began | What::Ended => return None,
        };
        Some(Key { uuid: self.origin.uuid, pos, lost })
    }
}

/// How much went by: records, and what was lost, by cause.
///
/// ```
/// use perfring_consumer::Cause;
/// use perfring_export::{Loss, LossCause, Totals};
/// let mut totals = Totals::default();
/// let cause = LossCause::Ring(Cause::Full);
/// totals.lose(&Loss { pos: 0, records: 3, bytes: 48, cause, time: None, wall: None });
/// assert_eq!((totals.lost(), totals.to_string()), (3, "0 records, lost 3: full 3".to_owned()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records and bytes that were lost, of each cause that there was, in the order in which the
    /// causes came.
    pub losses: Vec<(LossCause, u64, u64)>,
}

impl Totals {
    /// Counts an event.
    pub fn add(&mut self, event: &Event<'_>) {
        match &event.what {
            What::Record(record) => {
                self.records += 1;
                self.bytes = self.bytes.saturating_add(record.bytes.len() as u64);
            }
            What::Lost(loss) => self.lose(loss),
            What::Began | What::Ended => {}
        }
    }

    /// Counts a loss. What a hostile ring says never makes it overflow.
    pub fn lose(&mut self, loss: &Loss) {
        let at = self.losses.iter().position(|(cause, ..)| *cause == loss.cause);
        let at = at.unwrap_or_else(|| {
            self.losses.push((loss.cause, 0, 0));
            self.losses.len() - 1
        });
        let (_, records, bytes) = &mut self.losses[at];
        *records = records.saturating_add(loss.records);
        *bytes = bytes.saturating_add(loss.bytes);
    }

    /// Records that were lost, of all causes.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |sum, (_, records, _)| sum.saturating_add(*records))
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (records, lost) = (self.records, self.lost());
        let plural = if records == 1 { "" } else { "s" };
        write!(f, "{records} record{plural}, lost {lost}")?;
        for (nth, (cause, records, _)) in self.losses.iter().enumerate() {
            write!(f, "{} {} {records}", if nth == 0 { ":" } else { "," }, cause.name())?;
        }
        Ok(())
    }
}
