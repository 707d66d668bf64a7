//! A ring per CPU under loom: its producers, the CPU, and a reader.
//!
//! The CPU is a mutex: held during a sequence, and by nobody else. What threads of one CPU store is
//! seen by the next, as by the next holder of a mutex. The slow path is not on that CPU: loom runs it
//! beside everything else.
#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use loom::sync::{Arc, Mutex};
use loom::thread;
use perfring_abi::{Policy, RecordType, RecordWord, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Fences, Next, OPEN, OwnerInfo, Place, Reader, Refusal, Reserved, Ring, RingTotals, Sequence,
    Shared, SharedWriter, System, Wake, close, section,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;

const KIND: RecordType = RecordType::BYTES;

/// System: a flag for each slot, in place of the kernel's locks.
pub(crate) struct Flags([AtomicBool; 4]);

impl Flags {
    pub(crate) fn dies(&self, slot: u32) {
        self.0[slot as usize].store(false, Release);
    }
}

impl System for Flags {
    fn is_alive(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_none_or(|alive| alive.load(Acquire))
    }

    fn relax(&self, _round: u32) {
        thread::yield_now();
    }

    fn now_ns(&self) -> u64 {
        1
    }
}

pub(crate) struct World {
    pub(crate) heap: HeapRing,
    pub(crate) liveness: Flags,
    cpu: Mutex<()>,
}

impl World {
    pub(crate) fn new(size: u64, policy: Policy) -> Arc<Self> {
        let heap = HeapRing::new(size, policy).unwrap().report(Report::CountersOnly).per_cpu(3);
        let liveness = Flags(std::array::from_fn(|_| AtomicBool::new(true)));
        heap.header().cpu.state.watch();
        Arc::new(World { heap, liveness, cpu: Mutex::new(()) })
    }

    pub(crate) fn attach(&self, slot: u32) -> SharedWriter {
        let (at, who) = (self.at(), OwnerInfo::default());
        SharedWriter::attach(
            at,
            self.heap.layout(),
            Fences::Full,
            slot,
            &who,
            &self.liveness,
            |_| false,
        )
        .unwrap()
    }

    /// The same, with more of its words watched: for threads that run at the same time.
    pub(crate) fn watched(size: u64, policy: Policy) -> Arc<Self> {
        let world = World::new(size, policy);
        let header = world.heap.header();
        let words = [&header.data_head, &header.data_tail, &header.shared.producer_pos];
        words.into_iter().chain([&header.cpu.limit]).for_each(|word| word.watch());
        world
    }

    pub(crate) fn at(&self) -> Shared<'_> {
        self.heap.shared()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::attach(self.heap.ring(), Fences::Full).unwrap()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.heap.header().cpu.state.load(Acquire) == OPEN
    }

    /// Runs a sequence on the CPU. A thread that dies in it leaves the CPU.
    pub(crate) fn on_cpu<T>(&self, then: impl FnOnce(Ring<'_>) -> T) -> T {
        let cpu = self.cpu.lock().unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| then(self.heap.ring())));
        drop(cpu);
        ended.unwrap_or_else(|death| resume_unwind(death))
    }

    pub(crate) fn sequence(&self, id: u64) -> Sequence {
        let word = RecordWord::of(KIND, 16);
        self.on_cpu(|ring| section(ring, word, &[id, !id], None, || true)).unwrap()
    }

    /// Publishes under the lock. Returns `None` if it finds the ring open.
    pub(crate) fn under_lock(
        &self,
        writer: &mut SharedWriter,
        id: u64,
    ) -> Option<Result<(), Refusal>> {
        let fill = |reserved: &Reserved| {
            let data = self.heap.data();
            for (word, pos) in [id, !id].into_iter().zip(reserved.payload_pos() / 8..) {
                data[pos as usize % data.len()].store(word, Relaxed);
            }
        };
        // Without a wake, whose fence orders more than a publish does.
        let done = writer.publish(self.at(), &self.liveness, KIND, 16, None, Wake::No, fill);
        checked(writer, done.map(drop))
    }

    /// Closes the ring and reserves.
    pub(crate) fn reserve(&self, writer: &mut SharedWriter) -> Result<Reserved, Refusal> {
        for _ in 0..4 {
            self.on_cpu(|ring| close(ring, writer.index()));
            let reserved = writer.reserve(self.at(), &self.liveness, KIND, 16, 0);
            if let Some(done) = checked(writer, reserved) {
                return done;
            }
        }
        Err(Refusal::Contended { slot: writer.index() })
    }

    pub(crate) fn commit(&self, writer: &mut SharedWriter, reserved: Reserved, id: u64) {
        let at = self.at();
        writer.fill(at, &reserved, [id, !id].map(u64::to_ne_bytes).as_flattened());
        let _ = writer.commit(at, &self.liveness, reserved, 16, Wake::Auto);
    }

    /// Publishes as a producer of a ring per CPU does.
    pub(crate) fn publish(&self, writer: &mut SharedWriter, id: u64) -> Result<(), Refusal> {
        for _ in 0..4 {
            if self.sequence(id) == Sequence::Done {
                return Ok(());
            }
            self.on_cpu(|ring| close(ring, writer.index()));
            if writer.open_for_sequences(self.at(), &self.liveness, 16).is_ok() {
                continue;
            }
            if let Some(done) = self.under_lock(writer, id) {
                return done;
            }
        }
        Err(Refusal::Contended { slot: writer.index() })
    }

    pub(crate) fn read(&self, reader: &mut Reader) -> Option<u64> {
        match reader.next(self.heap.ring()).unwrap().0 {
            Some(Next::Record(Place::Ring(frame))) => {
                let data = self.heap.data();
                let word = |at: u64| data[(at / 8) as usize % data.len()].load(Relaxed);
                Some(whole(&[word(frame.payload_pos()), word(frame.payload_pos() + 8)]))
            }
            Some(Next::Lost(_) | Next::Record(Place::Aux(..))) => {
                panic!("counters only, and no AUX area")
            }
            None => None,
        }
    }

    /// Checks that everything granted is there, once.
    pub(crate) fn all_there(&self, reader: &mut Reader, got: Option<u64>, mut want: Vec<u64>) {
        let end = self.heap.header().shared.producer_pos.load(Acquire);
        assert!(self.heap.ring().head() >= end, "everything that ended is published");
        let rest = std::iter::from_fn(|| self.read(reader));
        let mut got: Vec<_> = got.into_iter().chain(rest).collect();
        got.sort_unstable();
        want.sort_unstable();
        assert_eq!(got, want);
        let totals = RingTotals::of(self.at(), Policy::Drop, |_| false).unwrap();
        assert_eq!(totals.producer.written.records, want.len() as u64);
    }

    /// Opens the ring in which nobody else is.
    pub(crate) fn open(&self, writer: &mut SharedWriter) {
        self.on_cpu(|ring| close(ring, writer.index()));
        writer.open_for_sequences(self.at(), &self.liveness, 16).unwrap();
    }
}

pub(crate) fn spawn<T: 'static>(
    world: &Arc<World>,
    life: impl FnOnce(&World) -> T + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || life(&world))
}

/// Returns `None` if there was no refusal, but the ring is open.
pub(crate) fn checked<T>(
    writer: &mut SharedWriter,
    done: Result<T, Refusal>,
) -> Option<Result<T, Refusal>> {
    if done.is_err() && writer.found_open() {
        return None;
    }
    assert!(!matches!(done, Err(Refusal::Corrupt { .. })), "nobody damages the ring");
    Some(done)
}

pub(crate) fn whole(words: &[u64]) -> u64 {
    assert_eq!(words[0], !words[1], "a torn record");
    words[0]
}
