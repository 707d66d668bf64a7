//! The events that outputs receive.

use super::rule_name::RuleName;
use perfring_consumer::{
    Anchors, Cause, Layout, Location, Lost, Observer, Policy, Producers, RecordType, WriterId,
    advanced::Saved, stat::OwnerInfo,
};
use perfring_context::Birth;
use perfring_types::read::{BadPayload, Type, TypeTable, Value};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

/// A ring as outputs know it: one of perfring's, of the kernel's, or of a recording.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its number among all rings that this process has read; never reused.
    pub id: u32,
    /// Its file's name; of a ring per CPU with the name of its set before it: `requests/cpu3`.
    pub name: String,
    /// Its present or last location: a path, `shm:NAME`, or the one in a recording.
    pub location: String,
    /// The ring's own id. It stays unique after the file is removed.
    pub uuid: [u8; 16],
    /// How many producers had attached when it was opened.
    pub epoch: u64,
    /// What it does when it is full; `None` for a ring of the kernel.
    pub policy: Option<Policy>,
    /// Whether its records have timestamps.
    pub timed: bool,
    /// Whether it is one of a set of rings, one for each CPU, which are in one directory.
    pub per_cpu: bool,
    /// Bytes of its data area.
    pub data_size: u64,
    /// The producer's owner info: hints, as stored in the file. Of a live ring with one producer, that of the present
    /// producer, or of the last one.
    pub producer: OwnerInfo,
    /// The boot of the machine that created it; zeros if unknown.
    pub boot: [u8; 16],
    /// The birth of the producer, as far as it was seen alive: its pid alone does not say which process it is. Of a
    /// ring of the kernel, the pid namespace of its pids.
    pub birth: Option<Birth>,
    /// The types of its records that are known now. More may be added.
    pub types: TypeTable,
    /// Converts timestamps to wall-clock times, as known now.
    pub anchors: Anchors,
}

impl Origin {
    /// Makes the ring's location its name, if a ring that is read already has its name: two rings have two names. Returns
    /// whether it did.
    ///
    /// ```
    /// use perfring_events::Origin;
    /// let mut second = Origin { name: "orders".into(), location: "/run/b/orders".into(), ..Origin::default() };
    /// assert!(second.distinguish(|name| name == "orders"));
    /// assert_eq!(second.name, "/run/b/orders");
    /// ```
    pub fn distinguish(&mut self, is_taken: impl Fn(&str) -> bool) -> bool {
        let is_known = is_taken(&self.name);
        if is_known {
            let numbered = (2u32..).map(|nth| format!("{}#{nth}", self.location));
            let mut names = std::iter::once(self.location.clone()).chain(numbered);
            self.name = names.find(|name| !is_taken(name)).unwrap_or_default();
        }
        is_known
    }

    /// Creates the origin of a ring of this layout, of which nothing is known yet.
    #[must_use]
    pub fn of(
        id: u32,
        location: &Location,
        layout: &Layout,
        epoch: u64,
        producer: OwnerInfo,
    ) -> Self {
        Origin {
            id,
            name: location.name(layout),
            location: location.to_string(),
            uuid: layout.uuid,
            epoch,
            policy: Some(layout.policy),
            timed: layout.time,
            per_cpu: layout.producers == Producers::Cpu,
            data_size: layout.data_size,
            producer,
            boot: layout.boot_id,
            ..Origin::default()
        }
    }

    /// Creates the origin of a ring of the kernel's events on this machine, which has no file: its location is its name.
    #[must_use]
    pub fn of_kernel(id: u32, name: &str, uuid: [u8; 16]) -> Self {
        let birth = Birth::namespace_here().map(|namespace| Birth { namespace, started_ns: 0 });
        let (location, name, timed) = (name.to_owned(), name.to_owned(), true);
        Origin { id, name, location, uuid, timed, birth, ..Origin::default() }
    }

    /// Sets the birth of the producer, if that is alive and can be seen; else removes it.
    pub fn find_birth(&mut self, ring: &Observer) {
        self.birth = None;
        if self.producer.epoch > 0
            && ring.has_producer().unwrap_or(true)
            && let Ok(file) = std::fs::metadata(ring.location().path())
        {
            self.birth = Birth::of_who_maps(self.producer.pid, &file);
        }
    }

    /// Returns the uuid in its usual text form.
    #[must_use]
    pub fn uuid_text(&self) -> String {
        uuid::Uuid::from_bytes(self.uuid).hyphenated().to_string()
    }
}

/// A record, a loss, or a change of a ring.
#[derive(Debug)]
pub struct Event<'a> {
    /// Its number in this run: rises with each event, and is the same for all outputs.
    pub seq: u64,
    /// The ring of the event.
    pub origin: &'a Origin,
    /// The content of the event.
    pub what: What<'a>,
}

/// The content of an [`Event`].
#[derive(Debug)]
pub enum What<'a> {
    /// The ring is read from now on: precedes any other event of the ring.
    Began,
    /// A record.
    Record(Rec<'a>),
    /// Records that were lost.
    Lost(Loss),
    /// The ring is drained and removed: follows any other event of the ring.
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
    /// Its timestamp: ns of the machine's `CLOCK_BOOTTIME`, if its ring has timestamps.
    pub time: Option<u64>,
    /// The thread that wrote it, if its ring's records say so.
    pub writer: Option<WriterId>,
    /// The wall-clock time of the timestamp, ns since 1970, if known.
    pub wall: Option<u64>,
    /// How many ns it arrived too late for the order of time; 0 if it did not.
    pub late: u64,
    kind_of: Option<&'a Type>,
    /// Boxed, as a record is moved more often than it is decoded.
    value: OnceCell<Box<Result<Value, BadPayload>>>,
}

impl<'a> Rec<'a> {
    /// Creates a record of this origin from one that a reader returned.
    #[must_use]
    #[inline(always)]
    pub fn new(record: perfring_consumer::RecordRef<'a>, origin: &'a Origin) -> Self {
        Self::new_late(record, origin, 0)
    }

    /// Creates a record of this origin that arrived `late` ns too late for the order of time.
    #[must_use]
    #[inline(always)]
    pub fn new_late(
        record: perfring_consumer::RecordRef<'a>,
        origin: &'a Origin,
        late: u64,
    ) -> Self {
        Rec {
            pos: record.pos,
            kind: record.kind,
            bytes: record.bytes,
            time: record.time,
            writer: record.writer,
            wall: record.wall(&origin.anchors),
            late,
            kind_of: match origin.types.is_empty() {
                true => None,
                false => RecordType::new(record.kind).and_then(|kind| origin.types.get(kind)),
            },
            value: OnceCell::new(),
        }
    }

    /// Returns how many bytes it has in its ring, header included.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        ring_bytes(self.time.is_some(), self.writer.is_some(), self.bytes)
    }

    /// Its type, if the ring's table has it.
    #[must_use]
    pub fn kind_of(&self) -> Option<&'a Type> {
        self.kind_of
    }

    /// Returns its value by its type: decoded at the first call, for all outputs. `None` without a
    /// type.
    pub fn value(&self) -> Option<&Result<Value, BadPayload>> {
        let kind = self.kind_of?;
        Some(self.value.get_or_init(|| Box::new(kind.decode(self.bytes))))
    }

    /// Returns the value at a path, see [`Value::get`]: without decoding the record, if that need not be.
    pub fn get(&self, path: &str) -> Option<Cow<'_, Value>> {
        if self.value.get().is_none()
            && let Some(found) = self.kind_of?.decode_one(self.bytes, path)
        {
            return found.map(Cow::Owned);
        }
        self.value()?.as_ref().ok()?.get(path).map(Cow::Borrowed)
    }
}

/// Returns how many bytes a record has in its ring: its header, a timestamp and its writer, if it has
/// them, and its payload.
pub fn ring_bytes(timed: bool, has_writer: bool, payload: &[u8]) -> u64 {
    let words = 1 + u64::from(timed) + u64::from(has_writer);
    (8 * words + payload.len() as u64).next_multiple_of(8)
}

/// Why records were lost.
// A new one also needs a number in files/recording/frame.rs, both ways (the compiler finds only one), a case in
// tests/steps/mod.rs, and a decision in `Loss::is_damage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The ring reports so, or its reader was lapped.
    Ring(Cause),
    /// The output was busy for too long, and does not promise delivery.
    Busy,
    /// A rule left them out: they are not for this output.
    Rule(RuleName),
    /// The buffer on disk before the output was damaged.
    Damaged,
    /// The same, and how many it took is not known: at least the number of records, which may be 0.
    UnknownDamage,
    /// The ring is damaged, and is not read from there on. The number of records is unknown if it is 0.
    RingDamaged,
}

impl LossCause {
    /// Returns its name, the same in all of perfring's interfaces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LossCause::Ring(cause) => cause.name(),
            LossCause::Busy => "output busy",
            LossCause::Rule(rule) => rule.cause(),
            LossCause::Damaged => "buffer damaged",
            LossCause::UnknownDamage => "unknown buffer damage",
            LossCause::RingDamaged => "ring damaged",
        }
    }
}

/// Records that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The position before which they would be.
    pub pos: u64,
    /// The number of records; 0 if it is unknown: see [`Loss::is_uncounted`].
    pub records: u64,
    /// The number of bytes, headers included.
    pub bytes: u64,
    /// The cause of the loss.
    pub cause: LossCause,
    /// When they were lost, ns of `CLOCK_BOOTTIME`, as far as known: the time of the previous
    /// record.
    pub time: Option<u64>,
    /// The same time on the wall clock, ns since 1970.
    pub wall: Option<u64>,
    /// How many records the ring's producers have lost by this cause since it was created, these included. It tells losses
    /// at one position apart, and which come twice. `None` for other causes, and if that is unknown.
    pub sum: Option<u64>,
    /// Whether its place in the stream is unknown: see [`Lost::at_end`].
    pub at_end: bool,
}

impl Loss {
    /// Returns a loss of which no more is known.
    #[must_use]
    pub fn new(pos: u64, records: u64, bytes: u64, cause: LossCause) -> Self {
        Loss { pos, records, bytes, cause, time: None, wall: None, sum: None, at_end: false }
    }

    /// Returns a loss that a ring reports. `after` is the reader's position after it, and `time` the time of the previous
    /// record.
    #[must_use]
    pub fn of(lost: Lost, after: &Saved, time: Option<u64>, origin: &Origin) -> Self {
        let Lost { pos, records, bytes, cause, at_end } = lost;
        let mut told = after.told.by_cause().into_iter();
        let told = told.find(|(its, _)| *its == cause).map(|(_, count)| count.records);
        let sum = told.filter(|told| *told >= records);
        let wall = time.and_then(|time| origin.anchors.wall(pos, time));
        Loss { time, wall, sum, at_end, ..Loss::new(pos, records, bytes, LossCause::Ring(cause)) }
    }

    /// Returns whether the number of records is unknown. The kernel does not count what it overwrites.
    #[must_use]
    pub fn is_uncounted(&self) -> bool {
        let is_damage = matches!(self.cause, LossCause::UnknownDamage | LossCause::RingDamaged);
        self.records == 0 && (is_damage || self.bytes > 0)
    }

    /// Returns the number of records, if it is known.
    #[must_use]
    pub fn counted(&self) -> Option<u64> {
        Some(self.records).filter(|_| !self.is_uncounted())
    }

    /// Returns whether damage to a buffer is its cause.
    pub fn is_damage(&self) -> bool {
        matches!(self.cause, LossCause::Damaged | LossCause::UnknownDamage)
    }
}

/// Identifies an event among those of all rings, for ever. As delivery is at least once, a receiver
/// uses it to recognise a duplicate.
///
/// A position is never reused in a ring, whoever produces into it, so a key has no epoch: the
/// number of producers so far may differ when a record is delivered a second time, and a key with
/// it would differ too.
///
/// ```
/// use perfring_events::Key;
/// let key = Key { uuid: [0xab; 16], pos: 4096, lost: None, sum: None };
/// assert_eq!(key.to_string(), "abababababababababababababababab-4096");
/// let lost = Key { lost: Some("too_large"), ..key };
/// assert_eq!(lost.to_string(), "abababababababababababababababab-4096-lost-too_large");
/// let later = Key { sum: Some(7), ..lost };
/// assert_eq!(later.to_string(), "abababababababababababababababab-4096-lost-too_large-7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The ring's id.
    pub uuid: [u8; 16],
    /// The position.
    pub pos: u64,
    /// The cause of a loss before the position; `None` for the record at it. There can be several
    /// losses at one position, each with another cause,
    pub lost: Option<&'static str>,
    /// or another [`Loss::sum`].
    pub sum: Option<u64>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", uuid::Uuid::from_bytes(self.uuid).simple(), self.pos)?;
        if let Some(cause) = self.lost {
            write!(f, "-lost-{}", cause.replace(' ', "-"))?;
        }
        self.sum.map_or(Ok(()), |sum| write!(f, "-{sum}"))
    }
}

impl Event<'_> {
    /// Returns its key; `None` if it is neither a record nor a loss.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        let (pos, lost, sum) = match &self.what {
            What::Record(record) => (record.pos, None, None),
            What::Lost(loss) => (loss.pos, Some(loss.cause.name()), loss.sum),
            What::Began | What::Ended => return None,
        };
        Some(Key { uuid: self.origin.uuid, pos, lost, sum })
    }
}

/// Returns the sum for a key, which is a new one at its first occurrence: for sums by cause.
///
/// ```
/// let mut lost = vec![("full", 3)];
/// *perfring_events::sum_of(&mut lost, "lapped") += 2;
/// *perfring_events::sum_of(&mut lost, "full") += 1;
/// assert_eq!(lost, [("full", 4), ("lapped", 2)]);
/// ```
pub fn sum_of<K: PartialEq, V: Default>(sums: &mut Vec<(K, V)>, key: K) -> &mut V {
    let at = sums.iter().position(|(known, _)| *known == key);
    let at = at.unwrap_or_else(|| {
        sums.push((key, V::default()));
        sums.len() - 1
    });
    &mut sums[at].1
}
