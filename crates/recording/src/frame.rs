//! Frames: the content of a block. `u16 what, u16 flags, u32 size`, a body, zeros to a multiple of
//! 8.

use super::machine::Machine;
use perfring_consumer::{
    Anchors, Cause, Policy, RecordRef, RecordType, WriterId,
    advanced::{Anchor, Saved},
    stat::{Count, OwnerInfo, Refused},
};
use perfring_context::Birth;
use perfring_events::{Loss, LossCause, Origin, Rec, RuleName, Totals, mangle::truncated};
use perfring_types::Entry;

/// The program that records, its machine and the time.
pub(super) const START: u16 = 1;
/// A ring.
pub(super) const ORIGIN: u16 = 2;
/// A type of a ring.
pub(super) const TYPE: u16 = 3;
/// Anchors that convert timestamps to wall-clock times.
pub(super) const ANCHORS: u16 = 4;
/// A record.
pub(super) const RECORD: u16 = 5;
/// Lost records.
pub(super) const LOSS: u16 = 6;
/// The ring is read from now on.
pub(super) const BEGAN: u16 = 7;
/// The ring has ended.
pub(super) const ENDED: u16 = 8;
/// Totals.
pub(super) const END: u16 = 9;
/// What there is of rings so far: `counts` has it.
pub(super) const COUNTS: u16 = 10;
/// The position up to which a ring was read.
pub(super) const READ_TO: u16 = 11;

/// Bytes of a frame's header.
pub(super) const FRAME_HEAD: usize = 8;
/// The limit of a frame's size.
pub(super) const FRAME_MAX: usize = 2 << 20;
/// The limit of a text's length, except a type's entry.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// The flag bits with the number of padding bytes at a frame's end.
const PADDING: u16 = 0b111;
/// For a record or a loss: it has a timestamp. For a ring: its records have timestamps.
pub(super) const TIMED: u16 = 1 << 3;
/// For a record: it was late. For a loss: it has a wall-clock time.
pub(super) const MORE: u16 = 1 << 4;
/// For a record: it says who wrote it.
pub(super) const WRITER: u16 = 1 << 5;
/// For a ring: it is one of a set, one for each CPU.
const PER_CPU: u16 = 1 << 5;
/// For a loss: it has the sum of its cause.
const SUM: u16 = 1 << 5;
/// For a loss: its place in the stream is unknown.
const AT_END: u16 = 1 << 6;

/// The numbers of `LossCause::Busy` and of those behind it; the others are the ABI's.
const BUSY: u32 = 256;
const RULE: u32 = 257;
const DAMAGED: u32 = 258;
const UNKNOWN_DAMAGE: u32 = 259;
const RING_DAMAGED: u32 = 260;

/// Appends a frame.
pub(super) fn put(out: &mut Vec<u8>, what: u16, flags: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; FRAME_HEAD]);
    body(out);
    let padding = (8 - (out.len() - at) % 8) % 8;
    out.extend_from_slice(&[0; 8][..padding]);
    let size = (out.len() - at) as u32;
    out[at..at + 2].copy_from_slice(&what.to_le_bytes());
    out[at + 2..at + 4].copy_from_slice(&(flags | padding as u16).to_le_bytes());
    out[at + 4..at + 8].copy_from_slice(&size.to_le_bytes());
}

fn word(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn long(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn longs<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    out.extend_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
}

fn text(out: &mut Vec<u8>, text: &str) {
    let text = truncated(text, TEXT_MAX);
    word(out, text.len() as u32);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn put_start(out: &mut Vec<u8>, machine: &Machine) {
    put(out, START, 0, |out| {
        word(out, if cfg!(target_endian = "little") { 1 } else { 2 });
        word(out, 0);
        out.extend_from_slice(&machine.boot);
        long(out, machine.clock_ns);
        long(out, machine.wall_ns);
        text(out, &machine.host);
        text(out, &machine.writer);
    });
}

pub(super) fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    let flags = if origin.timed { TIMED } else { 0 } | if origin.per_cpu { PER_CPU } else { 0 };
    put(out, ORIGIN, flags, |out| {
        word(out, origin.id);
        let policy = match origin.policy {
            None => 0,
            Some(Policy::Drop) => 1,
            Some(Policy::Overwrite) => 2,
        };
        word(out, policy);
        out.extend_from_slice(&origin.uuid);
        let OwnerInfo { epoch, attached_ns, pid, uid, name } = &origin.producer;
        longs(out, [origin.epoch, origin.data_size, *epoch, *attached_ns]);
        word(out, *pid);
        word(out, *uid);
        text(out, &origin.name);
        text(out, &origin.location);
        text(out, name);
        // Readers from before ignore these.
        out.extend_from_slice(&origin.boot);
        let born = origin.birth.unwrap_or(Birth { namespace: 0, started_ns: 0 });
        longs(out, [born.namespace, born.started_ns]);
    });
}

pub(super) fn put_type(out: &mut Vec<u8>, origin: u32, entry: &Entry<'_>) {
    put(out, TYPE, 0, |out| {
        word(out, origin);
        word(out, entry.id.get());
        long(out, entry.layout);
        out.extend_from_slice(entry.text.as_bytes());
    });
}

pub(super) fn put_anchors(out: &mut Vec<u8>, origin: u32, anchors: &Anchors) {
    put(out, ANCHORS, 0, |out| {
        word(out, origin);
        word(out, anchors.all().len() as u32);
        for anchor in anchors.all() {
            let Anchor { pos, clock_ns, realtime_ns, error_ns } = *anchor;
            longs(out, [pos, clock_ns, realtime_ns, error_ns]);
        }
    });
}

#[inline]
pub(super) fn put_record(out: &mut Vec<u8>, origin: u32, record: &Rec<'_>) {
    let (timed, late) = (record.time.is_some(), record.late > 0);
    let flags = if timed { TIMED } else { 0 }
        | if late { MORE } else { 0 }
        | if record.writer.is_some() { WRITER } else { 0 };
    put(out, RECORD, flags, |out| {
        word(out, origin);
        word(out, record.kind);
        long(out, record.pos);
        if let Some(time) = record.time {
            long(out, time);
        }
        if late {
            long(out, record.late);
        }
        if let Some(writer) = record.writer {
            long(out, writer.to_word());
        }
        out.extend_from_slice(record.bytes);
    });
}

pub(super) fn put_loss(out: &mut Vec<u8>, origin: u32, loss: &Loss) {
    let timed = if loss.time.is_some() { TIMED } else { 0 };
    let flags = timed
        | if loss.wall.is_some() { MORE } else { 0 }
        | if loss.sum.is_some() { SUM } else { 0 }
        | if loss.at_end { AT_END } else { 0 };
    put(out, LOSS, flags, |out| {
        word(out, origin);
        word(out, cause_number(loss.cause));
        longs(out, [loss.pos, loss.records, loss.bytes]);
        loss.time.into_iter().chain(loss.wall).for_each(|ns| long(out, ns));
        put_rule(out, loss.cause);
        // Readers from before ignore it.
        loss.sum.into_iter().for_each(|sum| long(out, sum));
    });
}

fn cause_number(cause: LossCause) -> u32 {
    match cause {
        LossCause::Ring(cause) => cause.code() as u32,
        LossCause::Busy => BUSY,
        LossCause::Rule(_) => RULE,
        LossCause::Damaged => DAMAGED,
        LossCause::UnknownDamage => UNKNOWN_DAMAGE,
        LossCause::RingDamaged => RING_DAMAGED,
    }
}

/// Appends the name of a rule: readers from before ignore what follows.
fn put_rule(out: &mut Vec<u8>, cause: LossCause) {
    if let LossCause::Rule(rule) = cause {
        text(out, rule.as_str());
    }
}

fn cause_of(number: u32) -> LossCause {
    match number {
        BUSY => LossCause::Busy,
        RULE => LossCause::Rule(RuleName::UNKNOWN),
        DAMAGED => LossCause::Damaged,
        UNKNOWN_DAMAGE => LossCause::UnknownDamage,
        RING_DAMAGED => LossCause::RingDamaged,
        number => LossCause::Ring(Cause::from_code(number.into())),
    }
}

/// Appends a `BEGAN` or an `ENDED`.
pub(super) fn put_turn(out: &mut Vec<u8>, what: u16, origin: u32) {
    put(out, what, 0, |out| word(out, origin));
}

pub(super) fn put_read_to(out: &mut Vec<u8>, origin: u32, at: &Saved) {
    put(out, READ_TO, 0, |out| {
        word(out, origin);
        let told = at.told.by_cause();
        word(out, told.len() as u32);
        longs(out, [at.pos, at.before.records, at.before.bytes]);
        for (cause, count) in told {
            longs(out, [cause.code(), count.records, count.bytes]);
        }
    });
}

pub(super) fn put_end(out: &mut Vec<u8>, totals: &Totals, wall_ns: u64) {
    put(out, END, 0, |out| {
        longs(out, [totals.records, totals.bytes, wall_ns]);
        word(out, totals.losses.len() as u32);
        word(out, 0);
        for (cause, records, bytes) in &totals.losses {
            word(out, cause_number(*cause));
            word(out, 0);
            longs(out, [*records, *bytes]);
        }
        totals.losses.iter().for_each(|(cause, ..)| put_rule(out, *cause));
    });
}

/// A frame whose size is validated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) what: u16,
    pub(super) flags: u16,
    pub(super) body: Body<'a>,
    /// Bytes that it occupies.
    pub(super) size: usize,
}

impl<'a> Frame<'a> {
    /// Parses the frame at the beginning of these bytes.
    pub(super) fn first(bytes: &'a [u8]) -> Option<Self> {
        let mut head = Body(bytes.get(..FRAME_HEAD)?);
        let (kind, size) = (head.word()?, head.word()? as usize);
        let (what, flags) = (kind as u16, (kind >> 16) as u16);
        let end = size.checked_sub(usize::from(flags & PADDING))?;
        if !size.is_multiple_of(8) || size > FRAME_MAX || size > bytes.len() || end < FRAME_HEAD {
            return None;
        }
        Some(Frame { what, flags, body: Body(&bytes[FRAME_HEAD..end]), size })
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// The unread rest of a frame's body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number that is present if a flag is set.
    fn long_if(&mut self, present: bool) -> Option<Option<u64>> {
        if present { self.long().map(Some) } else { Some(None) }
    }

    fn text(&mut self) -> Option<String> {
        let len = self.word()? as usize;
        if len > TEXT_MAX {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }

    /// Reads the machine, and whether its byte order is this one's.
    pub(super) fn start(mut self) -> Option<(Machine, bool)> {
        let order = self.word()?;
        self.word()?;
        let machine = Machine {
            boot: self.array()?,
            clock_ns: self.long()?,
            wall_ns: self.long()?,
            host: self.text()?,
            writer: self.text()?,
        };
        Some((machine, order == if cfg!(target_endian = "little") { 1 } else { 2 }))
    }

    /// Reads an origin with its number in the file, without types and anchors.
    pub(super) fn origin(mut self, has: impl Fn(u16) -> bool) -> Option<Origin> {
        let (id, policy) = (self.word()?, self.word()?);
        let uuid = self.array()?;
        let (epoch, data_size) = (self.long()?, self.long()?);
        let (holders, attached_ns) = (self.long()?, self.long()?);
        let (pid, uid) = (self.word()?, self.word()?);
        let (name, location) = (self.text()?, self.text()?);
        let producer = OwnerInfo { epoch: holders, attached_ns, pid, uid, name: self.text()? };
        // A writer from before did not write these.
        let boot = self.array().unwrap_or_default();
        let born = self.long().zip(self.long());
        let born = born.map(|(namespace, started_ns)| Birth { namespace, started_ns });
        let birth = born.filter(|born| born.namespace != 0);
        let policy = match policy {
            1 => Some(Policy::Drop),
            2 => Some(Policy::Overwrite),
            _ => None,
        };
        let (timed, per_cpu) = (has(TIMED), has(PER_CPU));
        let origin = Origin { id, name, location, uuid, epoch, policy, timed, ..Origin::default() };
        Some(Origin { data_size, producer, per_cpu, boot, birth, ..origin })
    }

    /// Reads an entry of a type table, after the origin's number.
    pub(super) fn entry(mut self) -> Option<Entry<'a>> {
        let id = RecordType::new(self.word()?)?;
        let layout = self.long()?;
        Some(Entry { id, layout, text: std::str::from_utf8(self.0).ok()? })
    }

    /// Reads anchors, after the origin's number.
    pub(super) fn anchors(mut self) -> Option<Anchors> {
        let count = self.word()?;
        let mut anchor = || {
            let (pos, clock_ns) = (self.long()?, self.long()?);
            let (realtime_ns, error_ns) = (self.long()?, self.long()?);
            Some(Anchor { pos, clock_ns, realtime_ns, error_ns })
        };
        // No more than the frame has room for.
        (0..count).map(|_| anchor()).collect()
    }

    /// Reads a record, after the origin's number, and how late it was.
    pub(super) fn record(mut self, has: impl Fn(u16) -> bool) -> Option<(RecordRef<'a>, u64)> {
        let (kind, pos) = (self.word()?, self.long()?);
        let time = self.long_if(has(TIMED))?;
        let late = self.long_if(has(MORE))?.unwrap_or(0);
        let writer = self.long_if(has(WRITER))?.and_then(WriterId::from_word);
        Some((RecordRef { pos, kind, bytes: self.0, time, writer }, late))
    }

    /// Reads a loss, after the origin's number.
    pub(super) fn loss(mut self, has: impl Fn(u16) -> bool) -> Option<Loss> {
        let cause = cause_of(self.word()?);
        let (pos, records, bytes) = (self.long()?, self.long()?, self.long()?);
        let (time, wall) = (self.long_if(has(TIMED))?, self.long_if(has(MORE))?);
        let cause = self.named(cause);
        let sum = self.long_if(has(SUM))?;
        Some(Loss { pos, records, bytes, cause, time, wall, sum, at_end: has(AT_END) })
    }

    /// Returns the cause with the name of its rule, which is next if it is one.
    fn named(&mut self, cause: LossCause) -> LossCause {
        match cause {
            LossCause::Rule(unknown) => {
                let name = self.text().and_then(|name| RuleName::new(&name));
                LossCause::Rule(name.unwrap_or(unknown))
            }
            known => known,
        }
    }

    /// Reads the position up to which a ring was read, after the ring's number.
    pub(super) fn read_to(mut self) -> Option<Saved> {
        let causes = self.word()?;
        let pos = self.long()?;
        let before = Count { records: self.long()?, bytes: self.long()? };
        let mut told = Refused::default();
        // No more than the frame has room for.
        for _ in 0..causes {
            let code = self.long()?;
            let count = Count { records: self.long()?, bytes: self.long()? };
            match Cause::from_code(code) {
                Cause::Full => told.full = count,
                Cause::TooLarge => told.too_large = count,
                Cause::Contended => told.contended = count,
                Cause::Pending => told.pending = count,
                _ => {}
            }
        }
        Some(Saved { pos, before, told })
    }

    /// Reads the totals at the end.
    pub(super) fn end(mut self) -> Option<Totals> {
        let (records, bytes, _wall_ns) = (self.long()?, self.long()?, self.long()?);
        let count = self.word()?;
        self.word()?;
        let mut loss = || {
            let cause = cause_of(self.word()?);
            self.word()?;
            Some((cause, self.long()?, self.long()?))
        };
        let mut losses = (0..count).map(|_| loss()).collect::<Option<Vec<_>>>()?;
        losses.iter_mut().for_each(|(cause, ..)| *cause = self.named(*cause));
        Some(Totals { records, bytes, losses, ..Totals::default() })
    }
}
