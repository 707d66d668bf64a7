//! The structures of a `perf.data` file. Numbers and layouts are those of Linux's
//! `include/uapi/linux/perf_event.h` and `tools/perf/util/header.h`.

use perfring_events::mangle::truncated;

/// Bytes of the file's header.
pub(super) const HEADER: u64 = 104;
/// Bytes of a `perf_event_attr` (`PERF_ATTR_SIZE_VER7`).
const ATTR: usize = 128;

const LOST: u32 = 2;
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
const FINISHED_ROUND: u32 = 68;
const MISC_USER: u16 = 2;

const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

const TYPE_TRACEPOINT: u32 = 2;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const CLOCK_BOOTTIME: u32 = 7;

/// Features, by their bits.
const TRACING_DATA: u32 = 1;
const EVENT_DESC: u32 = 12;
const CLOCKID: u32 = 23;
const CLOCK_DATA: u32 = 29;

/// The limit of raw bytes in a sample: a record's size has 16 bits.
pub(super) const RAW_MAX: usize = 65_528 - 52;

/// The process and the time of an event.
#[derive(Clone, Copy)]
pub(super) struct Timestamp {
    /// The attribute's id.
    pub(super) id: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time: u64,
}

fn header(out: &mut Vec<u8>, kind: u32, misc: u16, size: usize) {
    out.extend(kind.to_ne_bytes());
    out.extend(misc.to_ne_bytes());
    out.extend(u16::try_from(size).unwrap_or_default().to_ne_bytes());
}

/// Writes the fields that `sample_id_all` appends to other records.
fn trailer(out: &mut Vec<u8>, timestamp: Timestamp) {
    out.extend(timestamp.pid.to_ne_bytes());
    out.extend(timestamp.tid.to_ne_bytes());
    out.extend(timestamp.time.to_ne_bytes());
    out.extend(timestamp.id.to_ne_bytes());
}

/// Writes a sample; `raw` has at most [`RAW_MAX`] bytes.
pub(super) fn sample(out: &mut Vec<u8>, timestamp: Timestamp, raw: &[u8]) {
    let padded = (raw.len() + 4).next_multiple_of(8) - 4;
    header(out, SAMPLE, MISC_USER, 8 + 8 + 8 + 8 + 8 + 8 + 4 + padded);
    out.extend(timestamp.id.to_ne_bytes());
    out.extend(0u64.to_ne_bytes()); // ip: without one perf shows nothing
    out.extend(timestamp.pid.to_ne_bytes());
    out.extend(timestamp.tid.to_ne_bytes());
    out.extend(timestamp.time.to_ne_bytes());
    out.extend(1u64.to_ne_bytes()); // period
    out.extend((padded as u32).to_ne_bytes());
    out.extend(raw);
    out.resize(out.len() + padded - raw.len(), 0);
}

pub(super) fn lost(out: &mut Vec<u8>, timestamp: Timestamp, records: u64) {
    header(out, LOST, 0, 8 + 16 + 24);
    out.extend(timestamp.id.to_ne_bytes());
    out.extend(records.to_ne_bytes());
    trailer(out, timestamp);
}

pub(super) fn comm(out: &mut Vec<u8>, timestamp: Timestamp, name: &str) {
    let mut comm = [0; 16]; // ended by a zero, as the kernel's
    let name = truncated(name, 15);
    comm[..name.len()].copy_from_slice(name.as_bytes());
    header(out, COMM, 0, 8 + 8 + 16 + 24);
    out.extend(timestamp.pid.to_ne_bytes());
    out.extend(timestamp.tid.to_ne_bytes());
    out.extend(comm);
    trailer(out, timestamp);
}

/// Writes a record which promises that later records are newer than those before the previous
/// round.
pub(super) fn finished_round(out: &mut Vec<u8>) {
    header(out, FINISHED_ROUND, 0, 8);
}

/// The sections at the end of a file.
pub(super) struct End {
    /// The tracepoints: id and full name.
    pub(super) events: Vec<(u16, String)>,
    /// The section of [`super::tracing`].
    pub(super) tracing: Vec<u8>,
    /// The timestamps' clock and the wall clock at one moment.
    pub(super) clocks: Option<(u64, u64)>,
    /// Bytes of records.
    pub(super) data: u64,
}

impl End {
    /// Returns the sections that follow the records, and the header that precedes them.
    pub(super) fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let mut features = vec![(TRACING_DATA, self.tracing.clone())];
        features.push((EVENT_DESC, self.event_desc()));
        features.push((CLOCKID, 1u64.to_ne_bytes().to_vec())); // its resolution, ns
        if let Some((clock, wall)) = self.clocks {
            let mut data = 1u32.to_ne_bytes().to_vec(); // its version
            data.extend(CLOCK_BOOTTIME.to_ne_bytes());
            data.extend(wall.to_ne_bytes());
            data.extend(clock.to_ne_bytes());
            features.push((CLOCK_DATA, data));
        }
        // A table of the features, their data, the ids, the attributes.
        let mut out = Vec::new();
        let mut at = HEADER + self.data + 16 * features.len() as u64;
        for (_, data) in &features {
            out.extend(at.to_ne_bytes());
            out.extend((data.len() as u64).to_ne_bytes());
            at += data.len() as u64;
        }
        features.iter().for_each(|(_, data)| out.extend(data));
        let ids = at;
        for (id, _) in &self.events {
            out.extend(u64::from(*id).to_ne_bytes());
        }
        let attrs = ids + 8 * self.events.len() as u64;
        for (index, (id, _)) in self.events.iter().enumerate() {
            out.extend(attr(*id));
            out.extend((ids + 8 * index as u64).to_ne_bytes());
            out.extend(8u64.to_ne_bytes());
        }
        let mut head = b"PERFILE2".to_vec();
        let attr_size = ATTR as u64 + 16;
        let sections = [attrs, attr_size * self.events.len() as u64, HEADER, self.data, 0, 0];
        for word in [HEADER, attr_size].iter().chain(&sections) {
            head.extend(word.to_ne_bytes());
        }
        let bits = features.iter().fold(0u64, |bits, (feature, _)| bits | 1 << feature);
        for word in [bits, 0, 0, 0] {
            head.extend(word.to_ne_bytes());
        }
        (head, out)
    }

    fn event_desc(&self) -> Vec<u8> {
        let mut out = (self.events.len() as u32).to_ne_bytes().to_vec();
        out.extend((ATTR as u32).to_ne_bytes());
        for (id, name) in &self.events {
            out.extend(attr(*id));
            out.extend(1u32.to_ne_bytes());
            let len = (name.len() + 1).next_multiple_of(64);
            out.extend((len as u32).to_ne_bytes());
            out.extend(name.as_bytes());
            out.resize(out.len() + len - name.len(), 0);
            out.extend(u64::from(*id).to_ne_bytes());
        }
        out
    }
}

/// A `perf_event_attr`.
fn attr(id: u16) -> [u8; ATTR] {
    let mut attr = [0; ATTR];
    let mut put = |at: usize, bytes: &[u8]| attr[at..at + bytes.len()].copy_from_slice(bytes);
    let samples =
        SAMPLE_IDENTIFIER | SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_PERIOD | SAMPLE_RAW;
    put(0, &TYPE_TRACEPOINT.to_ne_bytes());
    put(4, &(ATTR as u32).to_ne_bytes());
    put(8, &u64::from(id).to_ne_bytes()); // config: the tracepoint
    put(16, &1u64.to_ne_bytes()); // each one
    put(24, &samples.to_ne_bytes());
    put(40, &(FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID).to_ne_bytes());
    put(92, &CLOCK_BOOTTIME.to_ne_bytes());
    attr
}
