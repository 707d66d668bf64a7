//! Helpers for the tests of shared rings: payloads that name their producer, a reader of the raw
//! file, the sums that must hold for a ring at rest, and a producer process that is driven line by
//! line.

use crate::{actor, number_of, numbered};
use perfring_abi::{FIELDS, RecordWord};
use perfring_consumer::{
    Cause, Consumer, Item, Observer, Policy,
    stat::{Count, Refused, Stat},
};
use perfring_producer::ReserveError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// The count of numbers of each producer.
const EACH: u64 = 1 << 32;

/// Returns a payload that names its producer and the record's number.
#[must_use]
pub fn said(who: u64, seq: u64, len: usize) -> Vec<u8> {
    numbered(who * EACH + seq, len)
}

/// Returns the producer and the number of a payload.
///
/// # Panics
/// If it is torn.
#[must_use]
pub fn reporter(bytes: &[u8]) -> (u64, u64) {
    let number = number_of(bytes);
    (number / EACH, number % EACH)
}

/// A refusal as the driven programs answer it, in the words of the programs of commit da0ee0c.
#[must_use]
pub fn answer(error: ReserveError) -> String {
    match error {
        ReserveError::Full => "Full".to_owned(),
        ReserveError::TooLarge { len, max } => format!("TooLarge {{ len: {len}, max: {max} }}"),
        ReserveError::Contended { slot } => format!("Contended {{ slot: {slot} }}"),
        ReserveError::Pending { slot } => format!("Pending {{ slot: {slot} }}"),
        ReserveError::Forked => "Forked".to_owned(),
        ReserveError::Corrupt { tail } => format!("Corrupt {{ tail: {tail} }}"),
        other => other.to_string(),
    }
}

/// The items that a reader returned, producer by producer, in the order of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The numbers of each producer's records.
    pub of: BTreeMap<u64, Vec<u64>>,
    /// The number of records.
    pub records: u64,
    /// Records reported lost, by the cause's name.
    pub lost: BTreeMap<&'static str, u64>,
}

impl Reported {
    /// Adds one item.
    ///
    /// # Panics
    /// If a record is torn.
    pub fn note(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => {
                let (who, seq) = reporter(record.bytes);
                self.of.entry(who).or_default().push(seq);
                self.records += 1;
            }
            Item::Lost(lost) => *self.lost.entry(lost.cause.name()).or_default() += lost.records,
        }
    }

    /// Adds everything that a consumer finds now.
    ///
    /// # Panics
    /// If the ring is corrupt.
    pub fn drain(&mut self, consumer: &mut Consumer) {
        while let Some(item) = consumer.read().expect("an intact ring") {
            self.note(item);
        }
        consumer.release();
    }

    /// Adds everything that an observer finds now.
    ///
    /// # Panics
    /// If the ring is corrupt.
    pub fn watch(&mut self, observer: &mut Observer) {
        while let Some(item) = observer.read().expect("an intact ring") {
            self.note(item);
        }
    }

    /// Returns the numbers of one producer.
    #[must_use]
    pub fn by(&self, who: u64) -> &[u64] {
        self.of.get(&who).map_or(&[], Vec::as_slice)
    }

    /// Returns the records reported lost for a cause.
    #[must_use]
    pub fn lost(&self, cause: Cause) -> u64 {
        self.lost.get(cause.name()).copied().unwrap_or_default()
    }
}

/// The bytes of a ring file at one moment, read without any code of the ring's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

impl Raw {
    /// Reads a file.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn read(ring: &Path) -> Self {
        Raw { bytes: std::fs::read(ring).expect("a ring file") }
    }

    /// Reads an open file again.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn again(&mut self, ring: &File) {
        ring.read_exact_at(&mut self.bytes, 0).expect("a ring file");
    }

    /// Returns the 64 bits at an offset.
    ///
    /// # Panics
    /// Beyond the end.
    #[must_use]
    pub fn at(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes[offset..offset + 8].try_into().expect("eight bytes"))
    }

    /// Returns a field of 64 bits.
    ///
    /// # Panics
    /// If there is no field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> u64 {
        let field = FIELDS.iter().find(|field| field.name == name).expect("a field of that name");
        self.at(field.offset)
    }

    /// Returns `data_head`, at perf's offset.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.at(1024)
    }

    /// Returns `data_tail`, at perf's offset.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.at(1032)
    }

    /// Returns the slot that the ring's lock names.
    #[must_use]
    pub fn locked_by(&self) -> Option<u32> {
        let word = self.field("shared_lock");
        (word != 0).then(|| (word & 0xffff) as u32 - 1)
    }

    /// Returns the unpublished reservations: positions and header words.
    #[must_use]
    pub fn beyond(&self) -> Vec<(u64, RecordWord)> {
        self.from(self.head())
    }

    /// Returns the end of the last record, published or reserved.
    #[must_use]
    pub fn end(&self) -> u64 {
        // In a ring per CPU that is open, the other position is behind.
        self.head().max(self.field("producer_pos"))
    }

    /// Returns the published and reserved records from a position on: positions and header words.
    #[must_use]
    pub fn from(&self, mut pos: u64) -> Vec<(u64, RecordWord)> {
        let end = self.end();
        let (offset, size) = (self.field("data_offset"), self.field("data_size"));
        let mut found = Vec::new();
        while pos < end {
            let word = RecordWord::from_raw(self.at((offset + (pos & (size - 1))) as usize));
            found.push((pos, word));
            pos += word.size().max(8);
        }
        found
    }

    /// Returns the open reservations of a slot.
    #[must_use]
    pub fn open(&self, slot: u32) -> u64 {
        self.beyond().iter().filter(|(_, word)| word.owner() == Some(slot)).count() as u64
    }

    /// Returns the named field, or the part of the file, that a byte belongs to.
    #[must_use]
    pub fn part(&self, offset: usize) -> &'static str {
        let (data, size) = (self.field("data_offset") as usize, self.field("data_size") as usize);
        let control = self.field("control_offset") as usize;
        if offset >= control + self.field("control_size") as usize {
            return if self.field("aux_size") > 0 { "aux" } else { "types" };
        }
        if offset >= data + size {
            return match (offset - data - size) % 1024 {
                0..128 => "slot holder",
                128..256 => "slot written",
                256..640 => "slot losses",
                _ => "slot base",
            };
        }
        if offset >= data {
            return "data";
        }
        let inside = |field: &&perfring_abi::PageField| {
            (field.offset..field.offset + field.size).contains(&offset)
        };
        FIELDS.iter().find(inside).map_or("?", |field| field.name)
    }
}

/// Adds up refusals.
#[must_use]
pub fn sum(counts: impl IntoIterator<Item = Refused>) -> Refused {
    counts.into_iter().fold(Refused::default(), |a, b| Refused {
        full: a.full.plus(b.full),
        too_large: a.too_large.plus(b.too_large),
        contended: a.contended.plus(b.contended),
        pending: a.pending.plus(b.pending),
    })
}

/// Checks the totals of a ring whose reservations have all ended: all records are accounted for, to
/// the byte. If no slot had two holders (`fresh`), the slots' figures add up to the ring's.
///
/// # Panics
/// If they are not.
#[expect(clippy::must_use_candidate, reason = "what it is for is to panic")]
pub fn balance(ring: &Path, fresh: bool) -> Stat {
    let (stat, raw) = (Stat::read(ring).expect("the ring's figures"), Raw::read(ring));
    let totals = stat.totals.expect("figures that can be believed");
    let p = totals.producer;
    assert_eq!((raw.field("shared_lock"), raw.beyond()), (0, vec![]), "locked, or open");
    assert_eq!((p.pos, totals.tail), (raw.head(), raw.tail()));
    assert_eq!(
        p.pos,
        p.written.bytes + p.discarded.bytes + p.reclaimed.bytes + 32 * p.lost_markers,
        "positions are made of records, holes and markers: {p:?}"
    );
    assert_eq!(totals.stranded, Count::default());
    let gone = match stat.layout.policy {
        Policy::Drop => totals.consumer.read,
        Policy::Overwrite => totals.overwritten,
    };
    assert_eq!(p.written, gone.plus(totals.present), "{totals:?}");
    assert_eq!(stat.held_up, None);
    let figures = || stat.producers.iter().map(|member| &member.figures);
    assert!(figures().all(|figures| figures.open == Count::default()));
    if fresh {
        let count = |of: fn(&perfring_consumer::stat::ProducerFigures) -> Count| {
            figures().map(of).fold(Count::default(), Count::plus)
        };
        assert_eq!(count(|figures| figures.written), p.written, "{stat:#?}");
        assert_eq!(count(|figures| figures.reclaimed), p.reclaimed, "{stat:#?}");
        // The rest of a record that was committed shorter counts as no discard.
        let discarded = count(|figures| figures.discarded);
        assert_eq!(discarded.records, p.discarded.records, "{stat:#?}");
        assert!(discarded.bytes <= p.discarded.bytes);
        assert_eq!(sum(figures().map(|figures| figures.refused)), p.refused);
        assert_eq!(sum(figures().map(|figures| figures.reported)), p.reported);
    }
    stat
}

/// A process that answers each line with a line.
#[derive(Debug)]
pub struct Driven {
    /// The process.
    pub child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Driven {
    /// Starts `exe ARGS RING` and waits for its first line, which is returned.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(exe: &str, args: &[&str], ring: &Path) -> (Self, String) {
        Self::of(&mut actor(exe, args, ring))
    }

    /// Starts any command and waits for its first line, which is returned.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn of(command: &mut std::process::Command) -> (Self, String) {
        let mut driven = Self::spawn(command);
        let line = driven.line();
        (driven, line)
    }

    /// Starts any command without waiting.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(command: &mut std::process::Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("its stdout"));
        Driven { child, to, from }
    }

    /// Sends a line.
    ///
    /// # Panics
    /// If it does not read its input.
    pub fn send(&mut self, what: &str) {
        writeln!(self.to.as_mut().expect("its stdin"), "{what}").expect("the process listens");
    }

    /// Returns its next line; empty if it is dead.
    ///
    /// # Panics
    /// If nothing can be read.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the process answers");
        line.trim().to_owned()
    }

    /// Sends a line, and returns the answer.
    ///
    /// # Panics
    /// As for [`Driven::send`].
    pub fn ask(&mut self, what: &str) -> String {
        self.send(what);
        self.line()
    }

    /// Kills it, and waits for its death.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a death");
    }

    /// Closes its input, and waits until it ends by itself.
    ///
    /// # Panics
    /// If it fails.
    pub fn end(&mut self) {
        self.to = None;
        assert!(self.child.wait().expect("an end").success());
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // After a failed test: nothing is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
