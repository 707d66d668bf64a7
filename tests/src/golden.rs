//! The golden ring files: how each is made, and what a reader must find in it.
//!
//! What must be found is reckoned from what the script did, never by asking a reader.

#[path = "golden/aux.rs"]
mod aux;
#[path = "golden/shared.rs"]
mod shared;
#[path = "golden/types.rs"]
mod types;

use perfring_abi::{
    ANCHOR, AUX_SIZE, Cause, Evict, FEATURE_TIME, FIELDS, Field, PERF_CAPABILITIES, Policy,
    Producers, RecordType, RecordWord, SLOT_SIZE, STAMP_LEN, Slot, Tell, range_size, record_size,
};
use perfring_consumer::Consumer;
use perfring_producer::{
    Options, Producer, ReserveError, SharedProducer, SharedReservation, create,
};
use serde_json::{Value, json};
use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The data area of most of them: as small as can be.
const SMALL: u64 = 4096;
/// Every page of them, and where the data area starts.
const PAGE: u64 = 4096;
/// What stands in place of the time of day.
const TIME: u64 = 1_700_000_000_000_000_000;

/// What stands in place of the boot clock, at position 0; and where the wall clock was set.
const BOOT_CLOCK: u64 = 86_400_000_000_000;
const SET_AT: u64 = 100;

/// A ring file, and what a reader must find in it.
pub(crate) struct Golden {
    pub(crate) name: &'static str,
    pub(crate) file: Vec<u8>,
    pub(crate) expect: Value,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Count {
    records: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }

    fn since(self, then: Count) -> Count {
        Count { records: self.records - then.records, bytes: self.bytes - then.bytes }
    }
}

/// Refused records, in the order of [`Cause::REFUSED`].
type Refused = [Count; Cause::REFUSED.len()];

#[derive(Clone)]
enum Kind {
    Record {
        kind: u32,
        payload: Vec<u8>,
    },
    Lost {
        cause: &'static str,
        count: Count,
    },
    /// A record of which the range in the AUX area was overwritten.
    Gone,
    /// Given back.
    Hole,
    /// Left by a shorter commit, in a shared ring.
    Rest,
    /// Its producer, in this slot of a shared ring, has not ended it.
    Open(u32),
    /// The same, when the producer is dead and was swept.
    Reclaimed,
}

#[derive(Clone)]
struct Item {
    pos: u64,
    size: u64,
    kind: Kind,
}

/// A ring in the making: every step is done with the real doors, and written down.
struct Script {
    what: &'static str,
    _dir: tempfile::TempDir,
    path: PathBuf,
    options: Options,
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    items: Vec<Item>,
    /// `data_head` and `data_tail` as they must be.
    head: u64,
    tail: u64,
    discarded: Count,
    full: Count,
    too_large: Count,
    told_full: Count,
    told_too_large: Count,
    lost_markers: u64,
    /// The consumer's book.
    consumed: u64,
    read: Count,
    aux: aux::Area,
}

impl Script {
    fn new(what: &'static str, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        create(&path, &options).unwrap();
        Script {
            what,
            _dir: dir,
            path,
            options,
            producer: None,
            consumer: None,
            items: Vec::new(),
            head: 0,
            tail: 0,
            discarded: Count::default(),
            full: Count::default(),
            too_large: Count::default(),
            told_full: Count::default(),
            told_too_large: Count::default(),
            lost_markers: 0,
            consumed: 0,
            read: Count::default(),
            aux: aux::Area::default(),
        }
    }

    fn with_producer(mut self) -> Self {
        self.producer = Some(Producer::attach_as(&self.path, "golden producer").unwrap());
        self
    }

    fn producer(&mut self) -> &mut Producer {
        self.producer.as_mut().unwrap()
    }

    /// Writes down that something stands at the head now, and what an exact ring evicts for it.
    fn stands(&mut self, size: u64, kind: Kind) {
        self.items.push(Item { pos: self.head, size, kind });
        self.head += size;
        if self.options.policy == Policy::Overwrite && self.options.evict == Evict::Exact {
            while self.head - self.tail >= self.options.size {
                self.tail = self.items.iter().find(|i| i.pos > self.tail).unwrap().pos;
            }
        }
    }

    /// The markers that come before the next record that fits.
    fn tell(&mut self) {
        if self.options.tell == Tell::CountersOnly {
            return;
        }
        for (cause, lost, told) in [
            ("full", self.full, &mut self.told_full),
            ("too_large", self.too_large, &mut self.told_too_large),
        ] {
            let count = lost.since(*told);
            *told = lost;
            if count.records != 0 {
                self.lost_markers += 1;
                self.items.push(Item {
                    pos: self.head,
                    size: 32,
                    kind: Kind::Lost { cause, count },
                });
                self.head += 32;
            }
        }
    }

    fn publish(&mut self, kind: u32, payload: &[u8]) {
        self.producer().publish(RecordType::new(kind).unwrap(), payload).unwrap();
        self.tell();
        let size = size_of(&self.options, payload.len());
        self.stands(size, Kind::Record { kind, payload: payload.to_vec() });
        self.aux.reserved(&self.options, &mut self.items, payload.len());
    }

    /// Publishes until `head` is at or beyond `pos`, with payloads of lengths that vary.
    fn publish_until(&mut self, pos: u64, lens: [usize; 3]) {
        let mut n = self.items.len();
        while self.head < pos {
            self.publish(4096, &text(n, lens[n % 3]));
            n += 1;
        }
    }

    fn discard(&mut self, len: usize) {
        drop(self.producer().reserve(RecordType::BYTES, len).unwrap());
        let size = size_of(&self.options, len);
        self.stands(size, Kind::Hole);
        self.discarded.add(size);
    }

    fn refused(&mut self, len: usize, error: ReserveError) {
        let payload = vec![0; len];
        let refused = self.producer().publish(RecordType::BYTES, &payload);
        assert_eq!(refused, Err(error), "{}", self.what);
        match error {
            ReserveError::Full => self.full.add(refused_size(&self.options, len)),
            _ => self.too_large.add(refused_size(&self.options, len)),
        }
    }

    /// The consumer reads so many items and releases them.
    fn consume(&mut self, count: usize) {
        let path = &self.path;
        let consumer = self
            .consumer
            .get_or_insert_with(|| Consumer::attach_as(path, "golden consumer").unwrap());
        for _ in 0..count {
            consumer.read().unwrap().expect("an item to read");
            let item = |item: &&Item| item.pos >= self.consumed && !matches!(item.kind, Kind::Hole);
            let item = self.items.iter().find(item).unwrap();
            if matches!(item.kind, Kind::Record { .. }) {
                self.read.add(item.size);
            }
            self.consumed = item.pos + item.size;
        }
        consumer.release();
        if self.options.policy == Policy::Drop {
            self.tail = self.consumed;
            self.aux.released(self.tail);
        }
    }

    /// The file as it is now, with its holders alive.
    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Everybody detaches, and the file is taken.
    fn end(mut self, name: &'static str) -> Golden {
        self.producer = None;
        self.consumer = None;
        let file = self.bytes();
        self.take(name, file)
    }

    /// The file as given, with what must be found by this script's account.
    fn take(&self, name: &'static str, mut file: Vec<u8>) -> Golden {
        assert_eq!(word(&file, "data_head"), self.head, "{name}: data_head");
        assert_eq!(word(&file, "data_tail"), self.tail, "{name}: data_tail");
        anonymise(&mut file, name);
        let mut expect = self.expect(&file);
        self.aux.add_to(&mut expect, &self.options, &file);
        if self.options.time {
            add_times(&mut expect);
        }
        Golden { name, file, expect }
    }

    /// Records before a position.
    fn before(&self, pos: u64) -> Count {
        let mut count = Count::default();
        for item in self.items.iter().filter(|item| item.pos < pos) {
            if matches!(item.kind, Kind::Record { .. } | Kind::Gone) {
                count.add(item.size);
            }
        }
        count
    }

    fn expect(&self, file: &[u8]) -> Value {
        let written = self.before(self.head);
        let gone = self.before(self.tail);
        let overwrites = self.options.policy == Policy::Overwrite;
        let overwritten = if overwrites { gone } else { Count::default() };
        // Whoever moves the tail without a book has read what stood before it.
        let (consumer_pos, read) =
            if overwrites { (self.consumed, self.read) } else { (self.tail, gone) };
        let items: Vec<_> = self
            .items
            .iter()
            .filter(|item| (self.tail..self.head).contains(&item.pos))
            .filter_map(shown)
            .collect();
        // What an overwrite ring's consumer comes to before them.
        let lapped = (overwrites && consumer_pos < self.tail).then(|| {
            let before = self.before(consumer_pos);
            json!({
                "pos": consumer_pos,
                "cause": "lapped",
                "lost_records": gone.records - before.records,
                "lost_bytes": gone.bytes - before.bytes,
            })
        });
        let unread: Vec<_> = lapped
            .into_iter()
            .chain(items.iter().filter(|i| i["pos"].as_u64().unwrap() >= consumer_pos).cloned())
            .collect();
        json!({
            "what": self.what,
            "layout": layout(&self.options, file),
            "data_tail": self.tail,
            "data_head": self.head,
            "items": items,
            "unread": unread,
            "books": books(&[
                ("written", written),
                ("discarded", self.discarded),
                ("full", self.full),
                ("too_large", self.too_large),
                ("told_full", self.told_full),
                ("told_too_large", self.told_too_large),
                ("read", read),
                ("overwritten", overwritten),
                ("present", written.since(gone)),
            ], self.lost_markers, consumer_pos),
            "producer": holder(file, control(file), 4001, "golden producer"),
            "consumer": holder(file, at("consumer_epoch").start, 4002, "golden consumer"),
        })
    }
}

/// The shape as the expectation has it.
fn layout(options: &Options, file: &[u8]) -> Value {
    json!({
        "page_size": PAGE,
        "data_size": options.size,
        "policy": options.policy.name(),
        "evict": match options.evict { Evict::Exact => "exact", Evict::Half => "half" },
        "tell": match options.tell {
            Tell::InStream => "in_stream",
            Tell::CountersOnly => "counters_only",
        },
        "producers": options.producers.name(),
        "time": options.time,
        "slot_count": if options.producers == Producers::One { 1 } else { options.slots },
        "created_ns": TIME,
        "creator_pid": 4000,
        "creator_uid": 1000,
        "uuid": hex(&file[at("uuid")]),
        "boot_id": hex(&file[at("boot_id")]),
    })
}

/// All figures of the books: these, and zero for what is not among them.
fn books(counts: &[(&str, Count)], lost_markers: u64, consumer_pos: u64) -> Value {
    let mut books = json!({ "lost_markers": lost_markers, "consumer_pos": consumer_pos });
    let causes = Cause::REFUSED.map(Cause::name);
    let names = ["written", "discarded", "reclaimed", "read", "lapped", "overwritten", "present"];
    let names = names.into_iter().chain(["stranded"]).chain(causes).map(str::to_owned);
    for name in names.chain(causes.map(|cause| format!("told_{cause}"))) {
        let given = counts.iter().find(|(given, _)| *given == name);
        count_in(&mut books, &name, given.map_or(Count::default(), |(_, count)| *count));
    }
    assert!(counts.iter().all(|(name, _)| books.get(format!("{name}_records")).is_some()));
    books
}

fn count_in(books: &mut Value, name: &str, count: Count) {
    books[format!("{name}_records")] = count.records.into();
    books[format!("{name}_bytes")] = count.bytes.into();
}

/// An item as the expectation has it; nobody sees a hole.
fn shown(item: &Item) -> Option<Value> {
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

/// Bytes that a payload takes in such a ring's data area.
fn size_of(options: &Options, len: usize) -> u64 {
    if aux::is_large(options, len) {
        return AUX_SIZE.into();
    }
    record_size(if options.time { len + STAMP_LEN as usize } else { len })
}

/// Bytes that a refused payload would have taken, in both areas.
fn refused_size(options: &Options, len: usize) -> u64 {
    let range = if aux::is_large(options, len) { range_size(len) } else { 0 };
    size_of(options, len) + range
}

/// What stands in place of a record's stamp.
fn stamp_at(pos: u64) -> u64 {
    BOOT_CLOCK + 10 * pos
}

/// What stands in place of the anchors: the wall clock was set an hour ahead before `SET_AT`.
fn anchors() -> [[u64; ANCHOR]; 2] {
    let hour = 3_600_000_000_000;
    [[0, 0], [SET_AT, hour]].map(|[pos, ahead]| [pos, stamp_at(pos), TIME + 10 * pos + ahead, 40])
}

/// Adds to every record of an expectation its stamp and its wall-clock time.
fn add_times(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(add_times),
        Value::Object(object) => {
            if let (Some(pos), Some(_)) =
                (object.get("pos").and_then(Value::as_u64), object.get("type"))
            {
                let anchor = anchors()[usize::from(pos >= SET_AT)];
                object.insert("time".into(), stamp_at(pos).into());
                object.insert("wall".into(), (anchor[2] + stamp_at(pos) - anchor[1]).into());
            }
            object.values_mut().for_each(add_times);
        }
        _ => {}
    }
}

/// Makes up the times of a ring that has not wrapped yet, and in which nothing is open.
fn anonymise_times(file: &mut [u8]) {
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
            put(file, at + 8, stamp_at(pos));
        }
        pos += word.size();
    }
    put(file, at("newest_stamp").start, stamp_at(head));
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

/// A record as the expectation has it: short payloads as text, others by their hash.
pub(crate) fn record(pos: u64, kind: u32, payload: &[u8]) -> Value {
    let mut shown = json!({ "pos": pos, "type": kind, "len": payload.len() });
    match std::str::from_utf8(payload) {
        Ok(text) if text.len() <= 32 => shown["text"] = text.into(),
        _ => shown["fnv1a64"] = format!("{:016x}", fnv1a64(payload)).into(),
    }
    shown
}

fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where a field stands.
pub(crate) fn at(name: &str) -> std::ops::Range<usize> {
    let field = |field: &&Field| field.name == name;
    let field = FIELDS.iter().find(field).unwrap_or_else(|| panic!("no field {name}"));
    field.offset..field.offset + field.size
}

/// A 64-bit field.
pub(crate) fn word(file: &[u8], name: &str) -> u64 {
    u64::from_ne_bytes(file[at(name)].try_into().unwrap())
}

fn control(file: &[u8]) -> usize {
    word(file, "control_offset") as usize
}

/// Replaces what differs from one run to the next.
fn anonymise(file: &mut [u8], name: &str) {
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
    let shared = file[at("producers")] == Producers::Many.code().to_ne_bytes();
    let slots = u32::from_ne_bytes(file[at("slot_count")].try_into().unwrap());
    let slots = (0..slots).map(|index| {
        (control(file) + index as usize * SLOT_SIZE as usize, slot_pid(shared, index))
    });
    for (holder, pid) in slots.chain([(place, 4002)]).collect::<Vec<_>>() {
        // A slot's holder is laid out as the consumer's place.
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

/// The pid of whoever signed for a slot.
fn slot_pid(shared: bool, index: u32) -> u32 {
    if shared { 4100 + index } else { 4001 }
}

/// What must be found of a place: who signed, once, or nobody.
fn holder(file: &[u8], place: usize, pid: u32, name: &str) -> Value {
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

/// A payload of so many bytes.
fn text(n: usize, len: usize) -> Vec<u8> {
    format!("record {n}; ").into_bytes().into_iter().cycle().take(len).collect()
}

fn options(policy: Policy) -> Options {
    Options { size: SMALL, policy, types_size: 0, ..Options::default() }
}

/// `before`, with these fields as in `after`: what a process leaves that is killed between them.
fn killed(before: &[u8], after: &[u8], fields: &[&str]) -> Vec<u8> {
    let mut file = before.to_vec();
    for &field in fields {
        file[at(field)].copy_from_slice(&after[at(field)]);
    }
    file
}

/// All golden files, made anew.
pub(crate) fn all() -> Vec<Golden> {
    vec![
        empty(),
        drop_few(),
        drop_wrapped_with_losses(),
        drop_counters_only(),
        drop_foreign_reader(),
        drop_max_record(),
        overwrite_wrapped(),
        overwrite_half(),
        overwrite_lapped_consumer(),
        killed_before_head(),
        killed_between_mark_and_tail(),
        killed_in_payload(),
        killed_in_book(),
        killed_long_after_book(),
        killed_between_consumer_book_and_tail(),
        timed_drop(),
    ]
    .into_iter()
    .chain(shared::all())
    .chain(types::all())
    .chain(aux::all())
    .collect()
}

fn empty() -> Golden {
    Script::new("A new ring that nobody has attached to.", options(Policy::Drop)).end("empty")
}

fn drop_few() -> Golden {
    let what = "A few records of several types, one of them empty, all unread.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    script.publish(5000, b"one");
    script.publish(5001, b"two words");
    script.publish(4096, b"");
    script.publish(9, b"\x04\x00\x00\x00raw!");
    script.publish(0xffff_ffff, b"12345678");
    script.publish(4096, &text(5, 1000));
    script.end("drop_few")
}

fn timed_drop() -> Golden {
    let what = "A ring with time: records of several lengths, a hole and a loss; the consumer has \
                read one. The wall clock was set an hour ahead before position 100.";
    let options = Options { time: true, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    script.publish(5000, b"one");
    script.publish(5001, b"two words");
    script.publish(4096, b"");
    script.consume(1);
    script.discard(20);
    script.refused(4080 - 7, ReserveError::TooLarge { len: 4080 - 7, max: 4080 - 8 });
    script.publish(9, b"\x04\x00\x00\x00raw!");
    script.publish(4096, &text(5, 1000));
    script.end("timed_drop")
}

fn drop_wrapped_with_losses() -> Golden {
    let what = "A drop ring, wrapped: the consumer has read some, a reservation was given back, records \
                were refused for want of space and for their size and are told in the stream.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    for n in 0..3 {
        script.publish(4096, &text(n, 1000));
    }
    script.consume(2);
    script.discard(500);
    script.publish(4096, &text(3, 900));
    script.refused(2000, ReserveError::Full);
    script.refused(1999, ReserveError::Full);
    let max = script.producer().max_len();
    script.refused(max + 1, ReserveError::TooLarge { len: max + 1, max });
    script.consume(1);
    script.publish(4096, &text(4, 700));
    script.publish(4096, &text(5, 33));
    assert!(script.head > SMALL && script.lost_markers == 2);
    script.end("drop_wrapped_with_losses")
}

fn drop_counters_only() -> Golden {
    let what = "A drop ring that tells its losses in the counters alone.";
    let options = Options { tell: Tell::CountersOnly, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    script.publish(4096, &text(0, 3000));
    script.refused(2000, ReserveError::Full);
    let max = script.producer().max_len();
    script.refused(9000, ReserveError::TooLarge { len: 9000, max });
    script.publish(4096, &text(1, 500));
    script.end("drop_counters_only")
}

fn drop_foreign_reader() -> Golden {
    let what = "A drop ring whose data_tail was moved by a perf reader, which keeps no book.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    script.publish_until(3000, [100, 0, 333]);
    script.producer = None;
    let mut file = script.bytes();
    script.tail = script.items[7].pos;
    file[at("data_tail")].copy_from_slice(&script.tail.to_ne_bytes());
    script.take("drop_foreign_reader", file)
}

fn drop_max_record() -> Golden {
    let what =
        "The largest record that there is, in a ring of 64 KiB that it fills but for one word.";
    let options = Options { size: 64 << 10, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    assert_eq!(script.producer().max_len(), 65_520);
    script.publish(4096, &text(0, 65_520));
    script.end("drop_max_record")
}

fn overwrite_wrapped() -> Golden {
    let what = "An overwrite ring that went round several times, with exact eviction.";
    let mut script = Script::new(what, options(Policy::Overwrite)).with_producer();
    script.publish_until(3 * SMALL, [100, 7, 333]);
    script.discard(64);
    script.publish_until(4 * SMALL + 1000, [1, 250, 40]);
    script.end("overwrite_wrapped")
}

fn overwrite_half() -> Golden {
    let what = "An overwrite ring that went round several times, with eviction by halves.";
    let options = Options { evict: Evict::Half, ..options(Policy::Overwrite) };
    let mut script = Script::new(what, options).with_producer();
    script.publish_until(4 * SMALL + 1000, [100, 7, 333]);
    script.producer = None;
    let file = script.bytes();
    // The one thing that is asked of the file: which boundary the producer took.
    script.tail = word(&file, "data_tail");
    assert!(script.items.iter().any(|item| item.pos == script.tail), "a record begins there");
    assert!(script.head - script.tail >= SMALL * 3 / 8);
    script.take("overwrite_half", file)
}

fn overwrite_lapped_consumer() -> Golden {
    let what = "An overwrite ring whose consumer saved its place and was then lapped.";
    let mut script = Script::new(what, options(Policy::Overwrite)).with_producer();
    script.publish_until(2000, [100, 7, 333]);
    script.consume(5);
    script.publish_until(2 * SMALL, [100, 7, 333]);
    assert!(script.tail > script.consumed);
    script.end("overwrite_lapped_consumer")
}

fn killed_before_head() -> Golden {
    let what = "Killed when the record and its header word were written, and data_head was not.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    script.publish(4096, b"committed");
    let before = script.bytes();
    script.producer().publish(RecordType::BYTES, b"never published").unwrap();
    let mut file = script.bytes();
    assert_ne!(word(&file, "data_head"), word(&before, "data_head"));
    // All but the head.
    file[at("data_head")].copy_from_slice(&before[at("data_head")]);
    script.take("killed_before_head", file)
}

/// An overwrite ring, before and after a publish that evicts and writes a mark; the script's account
/// is of before.
fn evicting(what: &'static str) -> (Script, Vec<u8>, Vec<u8>) {
    let mut script = Script::new(what, options(Policy::Overwrite)).with_producer();
    script.publish_until(2 * SMALL, [100, 7, 333]);
    let payload = text(999, 600);
    loop {
        let before = script.bytes();
        script.producer().publish(RecordType::BYTES, &payload).unwrap();
        let after = script.bytes();
        assert!(word(&after, "data_tail") > word(&before, "data_tail"));
        if after[at("tail_mark")] != before[at("tail_mark")] {
            return (script, before, after);
        }
        let kind = RecordType::BYTES.get();
        let size = size_of(&script.options, payload.len());
        script.stands(size, Kind::Record { kind, payload: payload.clone() });
    }
}

fn killed_between_mark_and_tail() -> Golden {
    let what = "Killed while evicting: the book and the tail mark are written, data_tail is not yet. The \
                older copy of the mark is at the tail, or between the tail and the newer one.";
    let (script, before, after) = evicting(what);
    let file = killed(&before, &after, &["producer_book", "tail_mark"]);
    let (older, newer) = file[at("tail_mark")].split_at(at("tail_mark").len() / 2);
    let marks = [older, newer].map(|copy| u64::from_ne_bytes(copy[..8].try_into().unwrap()));
    assert!(marks.iter().all(|mark| *mark >= script.tail) && marks[0] != marks[1]);
    script.take("killed_between_mark_and_tail", file)
}

fn killed_in_payload() -> Golden {
    let what =
        "Killed while writing a payload over the oldest records, which the tail has left behind.";
    let (mut script, before, after) = evicting(what);
    let mut file = killed(&before, &after, &["producer_book", "tail_mark", "data_tail"]);
    script.tail = word(&after, "data_tail");
    assert!(script.items.iter().any(|item| item.pos == script.tail), "a record begins there");
    // Half of the payload, which runs over the end of the data area or not; not the header word.
    for pos in script.head + 8..script.head + 300 {
        let at = (PAGE + pos % SMALL) as usize;
        file[at] = after[at];
    }
    script.take("killed_in_payload", file)
}

fn killed_in_book() -> Golden {
    let what = "Killed while writing the producer's book: one copy of it is torn.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    script.publish_until(1500, [100, 7, 333]);
    let before = script.bytes();
    let book = at("producer_book");
    let mut after = before.clone();
    while after[book.clone()] == before[book.clone()] {
        script.producer().publish(RecordType::BYTES, b"brings the book in the end").unwrap();
        after = script.bytes();
    }
    // The first half of the copy that was written.
    let half = book.len() / 4;
    let copy =
        if after[book.clone()][..2 * half] == before[book.clone()][..2 * half] { 1 } else { 0 };
    let torn = book.start + copy * 2 * half..book.start + copy * 2 * half + half;
    let mut file = before;
    file[torn.clone()].copy_from_slice(&after[torn.clone()]);
    let last = torn.start + 2 * half - 8;
    assert_ne!(file[torn.start..torn.start + 8], file[last..last + 8], "it is torn");
    script.take("killed_in_book", file)
}

fn killed_long_after_book() -> Golden {
    let what = "Killed some records after the last book: what stands behind it, losses and a hole among it, \
                is counted by walking.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    for n in 0..3 {
        script.publish(4096, &text(n, 1000));
    }
    let max = script.producer().max_len();
    script.refused(max + 1, ReserveError::TooLarge { len: max + 1, max });
    script.refused(2000, ReserveError::Full);
    script.consume(2);
    script.publish(5000, b"after the losses");
    script.discard(64);
    script.publish(5000, b"the last");
    let file = script.bytes();
    let copies = at("producer_book");
    let newest = [copies.start, copies.start + copies.len() / 2]
        .map(|copy| u64::from_ne_bytes(file[copy + 8..copy + 16].try_into().unwrap()));
    let lost = script.items.iter().find(|item| matches!(item.kind, Kind::Lost { .. })).unwrap();
    assert!(newest.iter().all(|&pos| pos <= lost.pos), "the book is older than the losses");
    script.take("killed_long_after_book", file)
}

fn killed_between_consumer_book_and_tail() -> Golden {
    let what = "The consumer was killed while releasing: its book is written, data_tail is not yet. The \
                older copy of the book fits the tail, and what it had read comes again.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    script.publish_until(1500, [100, 7, 333]);
    script.consume(3);
    let before = script.bytes();
    let (tail, consumed, read) = (script.tail, script.consumed, script.read);
    script.consume(2);
    let after = script.bytes();
    (script.tail, script.consumed, script.read) = (tail, consumed, read);
    let file = killed(&before, &after, &["consumer_book"]);
    assert_ne!(file, before);
    script.take("killed_between_consumer_book_and_tail", file)
}

/// Where a slot stands.
pub(crate) fn slot_at(file: &[u8], index: u32) -> std::ops::Range<usize> {
    let start = control(file) + index as usize * SLOT_SIZE as usize;
    start..start + SLOT_SIZE as usize
}
