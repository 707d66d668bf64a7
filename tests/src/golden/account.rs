//! The expected content of a golden file, computed from the actions on the ring.

use perfring_abi::{
    ANCHOR, AUX_SIZE, Cause, Evict, FEATURE_TIME, Lead, PERF_CAPABILITIES, Policy, Producers,
    RecordType, RecordWord, Report, SLOT_SIZE, WriterId, range_size, record_size,
};
use perfring_producer::Options;
use perfring_testkit::image::{at, word};
use serde_json::{Value, json};
use std::num::NonZeroU32;

/// The data area of most of them: the smallest size.
pub(super) const SMALL: u64 = 4096;
/// The page size of all of them, and the offset of the data area.
pub(super) const PAGE: u64 = 4096;
/// Replaces the time of day.
pub(super) const TIME: u64 = 1_700_000_000_000_000_000;

/// Replaces the boot clock, at position 0; and the position at which the wall clock was set.
pub(super) const BOOT_CLOCK: u64 = 86_400_000_000_000;
pub(super) const SET_AT: u64 = 100;

/// A ring file, and the content that a reader must find in it.
#[derive(Clone, Debug)]
pub struct Golden {
    pub name: &'static str,
    pub file: Vec<u8>,
    pub expect: Value,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Count {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }

    pub(super) fn since(self, then: Count) -> Count {
        Count { records: self.records - then.records, bytes: self.bytes - then.bytes }
    }
}

/// Refused records, in the order of [`Cause::REFUSED`].
pub(super) type Refused = [Count; Cause::REFUSED.len()];

#[derive(Clone)]
pub(super) enum Kind {
    Record {
        kind: u32,
        payload: Vec<u8>,
    },
    Lost {
        cause: &'static str,
        count: Count,
    },
    /// A record whose range in the AUX area was overwritten.
    Gone,
    /// Discarded.
    Hole,
    /// Left by a shorter commit, in a shared ring.
    Rest,
    /// Not ended by its producer, in this slot of a shared ring.
    Open(u32),
    /// Ended by a sweep, because its producer is dead.
    Reclaimed,
}

#[derive(Clone)]
pub(super) struct Item {
    pub(super) pos: u64,
    pub(super) size: u64,
    pub(super) kind: Kind,
}

/// Returns the shape in the expectation's form.
pub(super) fn layout(options: &Options, file: &[u8]) -> Value {
    let mut layout = json!({
        "page_size": PAGE,
        "data_size": options.size,
        "policy": options.policy.name(),
        "evict": match options.evict { Evict::Exact => "exact", Evict::Half => "half" },
        "tell": match options.report {
            Report::InStream => "in_stream",
            Report::CountersOnly => "counters_only",
        },
        "producers": options.producers.name(),
        "time": options.time,
        "slot_count": if options.producers == Producers::One { 1 } else { options.slots },
        "created_ns": TIME,
        "creator_pid": 4000,
        "creator_uid": 1000,
        "uuid": hex(&file[at("uuid")]),
        "boot_id": hex(&file[at("boot_id")]),
    });
    if options.producers == Producers::Cpu {
        layout["cpu_number"] = options.cpu.into();
    }
    if options.sample_id {
        layout["sample_id"] = true.into();
    }
    layout
}

/// Returns all figures of the totals: these, and zero for the others.
pub(super) fn totals(counts: &[(&str, Count)], lost_markers: u64, consumer_pos: u64) -> Value {
    let mut totals = json!({ "lost_markers": lost_markers, "consumer_pos": consumer_pos });
    let causes = Cause::REFUSED.map(Cause::name);
    let names = ["written", "discarded", "reclaimed", "read", "lapped", "overwritten", "present"];
    let names = names.into_iter().chain(["stranded"]).chain(causes).map(str::to_owned);
    for name in names.chain(causes.map(|cause| format!("told_{cause}"))) {
        let given = counts.iter().find(|(given, _)| *given == name);
        count_in(&mut totals, &name, given.map_or(Count::default(), |(_, count)| *count));
    }
    assert!(counts.iter().all(|(name, _)| totals.get(format!("{name}_records")).is_some()));
    totals
}

pub(super) fn count_in(totals: &mut Value, name: &str, count: Count) {
    totals[format!("{name}_records")] = count.records.into();
    totals[format!("{name}_bytes")] = count.bytes.into();
}

/// Returns an item in the expectation's form; readers do not see holes.
pub(super) fn shown(item: &Item) -> Option<Value> {
    match &item.kind {
        Kind::Hole | Kind::Rest | Kind::Open(_) | Kind::Reclaimed => None,
        Kind::Lost { cause, count } => Some(json!({
            "pos": item.pos,
            "cause": cause,
            "lost_records": count.records,
            "lost_bytes": count.bytes,
        })),
        Kind::Gone => Some(json!({
            "pos": item.pos,
            "cause": "lapped",
            "lost_records": 1,
            "lost_bytes": item.size,
        })),
        Kind::Record { kind, payload } => Some(record(item.pos, *kind, payload)),
    }
}

/// Returns the bytes that a payload takes in such a ring's data area.
pub(super) fn size_of(options: &Options, len: usize) -> u64 {
    if is_large(options, len) {
        return AUX_SIZE.into();
    }
    record_size(len + Lead::of(options.time, options.sample_id).len())
}

/// Returns the bytes that a refused payload would have taken, in both areas.
pub(super) fn refused_size(options: &Options, len: usize) -> u64 {
    let range = if is_large(options, len) { range_size(len) } else { 0 };
    size_of(options, len) + range
}

/// Returns the replacement of a record's timestamp.
pub(super) fn timestamp_at(pos: u64) -> u64 {
    BOOT_CLOCK + 10 * pos
}

/// Returns the writer of the record at a position.
pub(super) fn writer_at(pos: u64) -> WriterId {
    WriterId { pid: NonZeroU32::new(4100 + pos as u32 % 3).unwrap(), tid: 4200 + pos as u32 }
}

/// Returns the replacement of the anchors: the wall clock was set an hour ahead before `SET_AT`.
pub(super) fn anchors() -> [[u64; ANCHOR]; 2] {
    let hour = 3_600_000_000_000;
    [[0, 0], [SET_AT, hour]]
        .map(|[pos, ahead]| [pos, timestamp_at(pos), TIME + 10 * pos + ahead, 40])
}

/// Adds to every record of an expectation its timestamp, its wall-clock time and its writer.
pub(super) fn add_leads(value: &mut Value, sample_id: bool) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| add_leads(value, sample_id)),
        Value::Object(object) => {
            if let (Some(pos), Some(_)) =
                (object.get("pos").and_then(Value::as_u64), object.get("type"))
            {
                let anchor = anchors()[usize::from(pos >= SET_AT)];
                object.insert("time".into(), timestamp_at(pos).into());
                object.insert("wall".into(), (anchor[2] + timestamp_at(pos) - anchor[1]).into());
                if sample_id {
                    let WriterId { pid, tid } = writer_at(pos);
                    object.insert("pid".into(), pid.get().into());
                    object.insert("tid".into(), tid.into());
                }
            }
            object.values_mut().for_each(|value| add_leads(value, sample_id));
        }
        _ => {}
    }
}

/// Replaces the times of a ring that has not wrapped yet, and in which nothing is open.
pub(super) fn anonymise_times(file: &mut [u8]) {
    let put = |file: &mut [u8], at: usize, word: u64| {
        file[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    };
    let head = word(file, "data_head");
    assert!(head < word(file, "data_size"), "it has wrapped");
    let (mut pos, data) = (0, word(file, "data_offset") as usize);
    while pos < head {
        let at = data + pos as usize;
        let word = u64::from_ne_bytes(file[at..at + 8].try_into().unwrap());
        let word = RecordWord::from_raw(word);
        if word.is_data() || word.kind() == RecordType::NOP && word.size() > 8 {
            put(file, at + 8, timestamp_at(pos));
        }
        pos += word.size();
    }
    put(file, at("newest_timestamp").start, timestamp_at(head));
    file[at("time_boot")].copy_from_slice(&[0xb0; 8]);
    put(file, at("anchors_written").start, anchors().len() as u64);
    for (index, word) in anchors().into_iter().flatten().enumerate() {
        put(file, at("anchors").start + 8 * index, word);
    }
    for field in ["lock", "time_shift", "time_mult", "time_zero"] {
        file[at(field)].fill(0);
    }
    put(file, at("capabilities").start, PERF_CAPABILITIES);
}

/// Returns a record in the expectation's form: short payloads as text, others by their hash.
#[must_use]
pub fn record(pos: u64, kind: u32, payload: &[u8]) -> Value {
    let mut shown = json!({ "pos": pos, "type": kind, "len": payload.len() });
    match std::str::from_utf8(payload) {
        Ok(text) if text.len() <= 32 => shown["text"] = text.into(),
        _ => shown["fnv1a64"] = format!("{:016x}", fnv1a64(payload)).into(),
    }
    shown
}

pub(super) fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn control(file: &[u8]) -> usize {
    word(file, "control_offset") as usize
}

/// Replaces the bytes that differ from run to run.
pub(super) fn anonymise(file: &mut [u8], name: &str) {
    file[at("created_ns")].copy_from_slice(&TIME.to_ne_bytes());
    file[at("creator_pid")].copy_from_slice(&4000u32.to_ne_bytes());
    file[at("creator_uid")].copy_from_slice(&1000u32.to_ne_bytes());
    let id = fnv1a64(name.as_bytes()).to_be_bytes();
    file[at("uuid")].copy_from_slice(&[id, id].concat());
    file[at("boot_id")].copy_from_slice(&[0xb0; 16]);
    if word(file, "features_required") == FEATURE_TIME {
        anonymise_times(file);
    }
    let place = at("consumer_epoch").start;
    let shared = file[at("producers")] != Producers::One.code().to_ne_bytes();
    let slots = u32::from_ne_bytes(file[at("slot_count")].try_into().unwrap());
    let slots = (0..slots).map(|index| {
        (control(file) + index as usize * SLOT_SIZE as usize, slot_pid(shared, index))
    });
    for (holder, pid) in slots.chain([(place, 4002)]).collect::<Vec<_>>() {
        // A slot's holder has the layout of the consumer's seat.
        let within = |name| at(name).start - place + holder;
        if file[holder..holder + 8] != [0; 8] {
            for (field, value) in [("consumer_pid", pid), ("consumer_uid", 1000)] {
                file[within(field)..][..4].copy_from_slice(&value.to_ne_bytes());
            }
            file[within("consumer_attached_ns")..][..8].copy_from_slice(&TIME.to_ne_bytes());
        }
    }
    if word(file, "stuck_since_ns") != 0 {
        file[at("stuck_since_ns")].copy_from_slice(&TIME.to_ne_bytes());
    }
}

/// Returns the pid of a slot's holder.
pub(super) fn slot_pid(shared: bool, index: u32) -> u32 {
    if shared { 4100 + index } else { 4001 }
}

/// Returns the expected content of a seat: a holder that attached once, or no holder.
pub(super) fn holder(file: &[u8], place: usize, pid: u32, name: &str) -> Value {
    if file[place..place + 8] == [0; 8] {
        json!({ "alive": false, "epoch": 0, "attached_ns": 0, "pid": 0, "uid": 0, "name": "" })
    } else {
        json!({
            "alive": false,
            "epoch": 1,
            "attached_ns": TIME,
            "pid": pid,
            "uid": 1000,
            "name": name,
        })
    }
}

/// Returns a payload of so many bytes.
pub(super) fn text(n: usize, len: usize) -> Vec<u8> {
    format!("record {n}; ").into_bytes().into_iter().cycle().take(len).collect()
}

pub(super) fn options(policy: Policy) -> Options {
    Options { size: SMALL, policy, types_size: 0, ..Options::default() }
}

/// Returns whether a payload is in the AUX area.
pub(super) fn is_large(options: &Options, len: usize) -> bool {
    let lead = Lead::of(options.time, options.sample_id).len();
    let longest = (options.size - 16).min(65_520) as usize - lead;
    options.aux_size != 0 && len > longest
}

/// The AUX area by a script's account.
#[derive(Default)]
pub(super) struct Area {
    pub(super) head: u64,
    tail: u64,
    /// The position of the record, the beginning of its range, and the beginning of the next one.
    ranges: Vec<(u64, u64, u64)>,
}

impl Area {
    /// Notes the range of the last record, and which others it overwrites.
    pub(super) fn reserved(&mut self, options: &Options, items: &mut [Item], len: usize) {
        if !is_large(options, len) {
            return;
        }
        let start = self.head;
        self.head += range_size(len);
        self.ranges.push((items.last().unwrap().pos, start, self.head));
        if options.policy == Policy::Overwrite {
            self.tail = self.tail.max(self.head.saturating_sub(options.aux_size));
            for &(pos, ..) in self.ranges.iter().filter(|(_, start, _)| *start < self.tail) {
                let item = items.iter_mut().find(|item| item.pos == pos).unwrap();
                item.kind = Kind::Gone;
            }
        }
    }

    /// Notes that the consumer of a drop ring has released everything before this position.
    pub(super) fn released(&mut self, pos: u64) {
        let before = self.ranges.iter().filter(|(record, ..)| *record < pos);
        self.tail = before.map(|(.., end)| *end).max().unwrap_or(0);
    }

    /// Returns whether the record there has a range.
    pub(super) fn has(&self, pos: u64) -> bool {
        self.ranges.iter().any(|(record, ..)| *record == pos)
    }

    /// Adds the expected content of the AUX area.
    pub(super) fn add_to(&self, expect: &mut Value, options: &Options, file: &[u8]) {
        if options.aux_size == 0 {
            return;
        }
        let found = ["aux_size", "aux_head", "aux_tail"].map(|field| word(file, field));
        assert_eq!(found, [options.aux_size, self.head, self.tail], "{}", expect["what"]);
        expect["aux"] = json!({
            "aux_size": options.aux_size,
            "aux_head": self.head,
            "aux_tail": self.tail,
        });
    }
}
