//! The golden files of rings per CPU.
//!
//! Such a ring is filled on the heap. The twin in Rust of the restartable sequence runs there: it
//! needs no CPU. Then the ring's words are written to a file that was made for a ring per CPU.

use super::account::{
    Count, Golden, Kind, SMALL, anchors, options, refused_size, size_of, text, timestamp_at,
    writer_at,
};
use super::members::Members;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    Cause, Header, Lead, Policy, Producers, RecordType, RecordWord, SLOT_SIZE, Slot,
};
use perfring_producer::Options;
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Fences, OwnerInfo, Refusal, Reserved, Sequence, SharedWriter, System, Wake, close, section,
};
use perfring_testkit::image::{at, word};
use std::fs;
use std::mem::offset_of;

/// Makes all of them.
pub(super) fn all() -> Vec<Golden> {
    vec![per_cpu_drop(), per_cpu_overwrite(), per_cpu_sample_id()]
}

fn per_cpu_drop() -> Golden {
    let what = "A drop ring per CPU, open: records of sequences and of two producers on the slow path, a hole, \
                a rest and a loss that is reported. Two sequences have published since `producer_pos`, and \
                a third was killed before its last store, having been counted.";
    let mut ring = PerCpu::new(what, Policy::Drop, Lead::None);
    ring.open(0);
    ring.sequence(5000, b"in a sequence");
    ring.sequence(5001, b"");
    ring.sequence(4096, b"12345678");
    ring.slowly(1, 4096, &text(0, 600));
    let given_back = ring.reserve(0, 40);
    let shorter = ring.reserve(1, 100);
    ring.discard(0, given_back);
    ring.commit(1, shorter, b"shorter");
    ring.too_large(1);
    ring.open(1);
    ring.sequence(5000, b"after the loss");
    ring.open(0);
    ring.sequence(4096, &text(1, 300));
    ring.sequence(5002, b"the last");
    ring.killed(b"never published");
    ring.take("per_cpu_drop", 3)
}

fn per_cpu_overwrite() -> Golden {
    let what = "An overwrite ring per CPU, with time, that went round several times: a block of it is free. Closed \
                by a producer that was killed before it took the lock, so that the last records are not \
                counted. The wall clock was set an hour ahead before position 100.";
    let mut ring = PerCpu::new(what, Policy::Overwrite, Lead::Time);
    for n in 0.. {
        let slot = n as u32 % 2;
        if n % 20 == 7 {
            ring.slowly(slot, 5001, &text(n, 600));
        }
        let payload = text(n, [100, 7, 333, 40][n % 4]);
        if !ring.has_room(payload.len()) {
            ring.open(slot);
        }
        ring.sequence(5000, &payload);
        if ring.members.end() > 4 * SMALL + 1000 {
            break;
        }
    }
    ring.open(0);
    for n in 0..4 {
        ring.sequence(5002, &text(n, 20 * n));
    }
    ring.close(1);
    ring.take("per_cpu_overwrite", 0)
}

fn per_cpu_sample_id() -> Golden {
    let what = "A drop ring per CPU, with time, whose records say who wrote them: by sequences, under the lock, and \
                reserved. One is without a payload.";
    let mut ring = PerCpu::new(what, Policy::Drop, Lead::SampleId);
    ring.open(0);
    ring.sequence(5000, b"in a sequence");
    ring.sequence(5001, b"");
    ring.slowly(1, 4096, &text(0, 600));
    let given_back = ring.reserve(0, 40);
    let shorter = ring.reserve(1, 100);
    ring.discard(0, given_back);
    ring.commit(1, shorter, b"shorter");
    ring.too_large(0);
    ring.open(0);
    ring.sequence(5000, b"after the loss");
    ring.sequence(4096, &text(1, 299));
    ring.killed(b"never published");
    ring.take("per_cpu_sample_id", 2)
}

/// A ring per CPU under construction.
struct PerCpu {
    heap: HeapRing,
    writers: Vec<SharedWriter>,
    members: Members,
}

/// A system in which every blocking producer has ended.
struct Dead;

impl System for Dead {
    fn is_alive(&self, _slot: u32) -> bool {
        false
    }

    fn relax(&self, _round: u32) {}

    fn now_ns(&self) -> u64 {
        1
    }
}

impl PerCpu {
    /// Makes one with two producers.
    fn new(what: &'static str, policy: Policy, lead: Lead) -> Self {
        let (time, sample_id) = (lead != Lead::None, lead == Lead::SampleId);
        let like = Options { time, sample_id, ..options(policy) };
        let options = Options { producers: Producers::Cpu, cpu: 5, ..like };
        let members = Members::with(what, options);
        let mut heap = HeapRing::new(options.size, policy).unwrap().per_cpu(members.options.slots);
        if time {
            heap = if sample_id { heap.with_sample_id() } else { heap.timed() };
            let line = &heap.header().time;
            line.boot.store(u64::from_ne_bytes([0xb0; 8]), Ordering::Relaxed);
            line.anchors_written.store(anchors().len() as u64, Ordering::Relaxed);
            for (to, word) in line.anchors.as_flattened().iter().zip(anchors().as_flattened()) {
                to.store(*word, Ordering::Relaxed);
            }
        }
        let (at, layout) = (heap.shared(), heap.layout());
        let attach = |slot: u32| {
            let who = OwnerInfo { name: format!("golden producer {slot}"), ..OwnerInfo::default() };
            SharedWriter::attach(at, layout, Fences::Full, slot, &who, &Dead, |_| false).unwrap()
        };
        let writers = vec![attach(0), attach(1)];
        PerCpu { heap, writers, members }
    }

    fn now(&self) -> u64 {
        timestamp_at(self.members.end())
    }

    /// Returns whether a sequence may publish this payload.
    fn has_room(&self, len: usize) -> bool {
        let line = &self.heap.header().cpu;
        let end = self.members.end() + size_of(&self.members.options, len);
        line.state.load(Ordering::Relaxed) == 0 && end <= line.limit.load(Ordering::Relaxed)
    }

    /// A producer closes the ring.
    fn close(&self, slot: u32) {
        assert_eq!(close(self.heap.ring(), slot), Sequence::Done);
    }

    /// A producer closes the ring if it is open, and opens it.
    fn open(&mut self, slot: u32) {
        let _ = close(self.heap.ring(), slot);
        let at = self.heap.shared();
        self.writers[slot as usize].open_for_sequences(at, &Dead, 0).unwrap();
        self.members.reports(slot);
    }

    /// Publishes a record in a sequence, up to one of its steps.
    fn run(&self, kind: u32, payload: &[u8], mut step: impl FnMut() -> bool) -> Option<Sequence> {
        let lead = self.heap.layout().lead();
        let kind = RecordType::new(kind).unwrap();
        let header = RecordWord::of(kind, payload.len() + lead.len());
        let mut words = words(payload);
        if lead == Lead::SampleId {
            words.insert(0, writer_at(self.members.end()).to_word());
        }
        let now = (lead != Lead::None).then(|| self.now());
        section(self.heap.ring(), header, &words, now, &mut step)
    }

    fn sequence(&mut self, kind: u32, payload: &[u8]) {
        assert_eq!(self.run(kind, payload, || true), Some(Sequence::Done));
        let size = size_of(&self.members.options, payload.len());
        self.members.follows(size, Kind::Record { kind, payload: payload.to_vec() });
    }

    /// A sequence is aborted before its last store, and its thread is killed.
    fn killed(&self, payload: &[u8]) {
        // The steps before the stores: of the state, of the count, of each word, and of the head.
        let mut left = 3 + words(payload).len() + self.heap.layout().lead().len() / 8;
        let step = || {
            let go_on = left > 0;
            left = left.saturating_sub(1);
            go_on
        };
        assert_eq!(self.run(4096, payload, step), None);
        assert_eq!(self.heap.ring().head(), self.members.end());
    }

    /// Publishes a record under the lock.
    fn slowly(&mut self, slot: u32, kind: u32, payload: &[u8]) {
        let _ = close(self.heap.ring(), slot);
        let (at, now) = (self.heap.shared(), self.now());
        let put = |reserved: &Reserved| fill(self.heap.data(), reserved, payload);
        let (writer, of) = (&mut self.writers[slot as usize], RecordType::new(kind).unwrap());
        writer.set_writer(writer_at(self.members.end()).to_word());
        let _ = writer.publish(at, &Dead, of, payload.len(), Some(now), Wake::No, put).unwrap();
        let size = size_of(&self.members.options, payload.len());
        self.members.follows(size, Kind::Record { kind, payload: payload.to_vec() });
        self.members.slots[slot as usize].written.add(size);
    }

    fn reserve(&mut self, slot: u32, len: usize) -> Reserved {
        let _ = close(self.heap.ring(), slot);
        let (at, now) = (self.heap.shared(), self.now());
        let writer = &mut self.writers[slot as usize];
        writer.set_writer(writer_at(self.members.end()).to_word());
        let reserved = writer.reserve(at, &Dead, RecordType::BYTES, len, now).unwrap();
        self.members.follows(size_of(&self.members.options, len), Kind::Open(slot));
        reserved
    }

    fn commit(&mut self, slot: u32, reserved: Reserved, payload: &[u8]) {
        fill(self.heap.data(), &reserved, payload);
        let (at, pos, len) = (self.heap.shared(), reserved.pos(), payload.len());
        let _ = self.writers[slot as usize].commit(at, &Dead, reserved, len, Wake::No);
        let size = size_of(&self.members.options, len);
        self.members.committed(slot, pos, payload, size);
    }

    fn discard(&mut self, slot: u32, reserved: Reserved) {
        let pos = reserved.pos();
        let _ = self.writers[slot as usize].discard(self.heap.shared(), &Dead, reserved);
        self.members.discarded(slot, pos);
    }

    /// A record of a producer is refused for its size.
    fn too_large(&mut self, slot: u32) {
        let writer = &mut self.writers[slot as usize];
        let max = writer.max_len();
        let refusal = Refusal::TooLarge { max };
        let _ = writer.refuse(self.heap.shared(), refusal, max + 1);
        let cause = Cause::REFUSED.iter().position(|known| *known == Cause::TooLarge).unwrap();
        let refused: &mut Count = &mut self.members.slots[slot as usize].refused[cause];
        refused.add(refused_size(&self.members.options, max + 1));
    }

    /// Returns the ring as a file, of which a consumer has read some items.
    fn take(mut self, name: &'static str, read: usize) -> Golden {
        let mut file = self.members.bytes();
        self.image(&mut file);
        fs::write(&self.members.path, &file).unwrap();
        if read > 0 {
            self.members.consume(read);
        }
        if self.members.options.policy == Policy::Overwrite {
            // The one thing that is read from the file: up to where the producers evicted.
            self.members.tail = word(&file, "data_tail");
            let (tail, end) = (self.members.tail, self.members.end());
            assert!(
                self.members.items.iter().any(|item| item.pos == tail),
                "a record begins there"
            );
            assert!(end - tail >= SMALL * 5 / 8 && word(&file, "cpu_limit") - tail < SMALL);
        }
        assert!(word(&file, "producer_pos") < self.members.end(), "something is not counted");
        self.members.take(name, self.members.bytes())
    }

    /// Stores everything that changes while the ring is in use.
    fn image(&self, file: &mut [u8]) {
        let (header, data) = (self.heap.header(), word(file, "data_offset") as usize);
        for (name, words) in live(header) {
            put(file, at(name).start, words);
        }
        put(file, data, self.heap.data());
        let slots = word(file, "control_offset") as usize;
        for (index, slot) in self.heap.shared().slots().iter().enumerate() {
            put_slot(file, slots + index * SLOT_SIZE as usize, slot);
        }
    }
}

fn words(payload: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(bytes)
    };
    payload.chunks(8).map(word).collect()
}

/// Writes a payload, and its padding.
fn fill(data: &[AtomicU64], reserved: &Reserved, payload: &[u8]) {
    let first = reserved.payload_pos() as usize / 8;
    for (word, index) in words(payload).into_iter().zip(first..) {
        data[index % data.len()].store(word, Ordering::Relaxed);
    }
}

fn put(file: &mut [u8], offset: usize, words: &[AtomicU64]) {
    for (to, word) in file[offset..].chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
}

/// Returns the fields of the header page that producers change, as far as they are words.
fn live(header: &Header) -> Vec<(&'static str, &[AtomicU64])> {
    let one = std::slice::from_ref;
    let Header { shared, time, cpu, .. } = header;
    vec![
        ("data_head", one(&header.data_head)),
        ("data_tail", one(&header.data_tail)),
        ("tail_mark", header.tail_mark.copies.as_flattened()),
        ("producer_totals", header.producer.copies.as_flattened()),
        ("shared_lock", one(&shared.lock)),
        ("producer_pos", one(&shared.producer_pos)),
        ("running_written", one(&shared.running_written)),
        ("running_stale", one(&shared.running_stale)),
        ("newest_timestamp", one(&shared.newest_timestamp)),
        ("running_more", one(&shared.running_more)),
        ("running", &shared.running),
        ("time_boot", one(&time.boot)),
        ("anchors_written", one(&time.anchors_written)),
        ("anchors", time.anchors.as_flattened()),
        ("cpu_state", one(&cpu.state)),
        ("cpu_limit", one(&cpu.limit)),
        ("cpu_count", one(&cpu.count)),
    ]
}

fn put_slot(file: &mut [u8], start: usize, slot: &Slot) {
    let Slot { holder, written, losses, base, .. } = slot;
    let of_holder = at("consumer_epoch").start;
    put(file, start, std::slice::from_ref(&holder.epoch));
    put(file, start + at("consumer_name").start - of_holder, &holder.name);
    put(file, start + offset_of!(Slot, written), written.copies.as_flattened());
    put(file, start + offset_of!(Slot, losses), losses.copies.as_flattened());
    put(file, start + offset_of!(Slot, base), base);
}
