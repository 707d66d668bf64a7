//! Shared rings, with producers that live and die as the input says: attaching, publishing,
//! sweeping, recovery, and outside observers, while words are changed under them.

use crate::heap::{self, MEMBERS, corrupt, reading, seen};
use crate::read::all_of;
use perfring_abi::RecordType;
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    BatchSpan, CopyReader, Fences, OwnerInfo, Reader, Reserved, RingCopy, RingTotals, SharedWriter,
    Start, System, Wake, recover,
};
use perfring_testkit::choices::{Choices, Input};
use std::cell::Cell;

/// The system as the algorithm sees it. It detects endless queries.
struct FakeSystem {
    alive: Cell<u8>,
    asked: Cell<u64>,
}

impl FakeSystem {
    fn count(&self) {
        self.asked.set(self.asked.get() + 1);
        assert!(self.asked.get() < 1_000_000, "it queries endlessly");
    }
}

impl System for FakeSystem {
    fn is_alive(&self, slot: u32) -> bool {
        self.count();
        // Like the kernel's answer: a slot that does not exist is never taken over.
        slot > MEMBERS || self.alive.get() >> slot & 1 == 1
    }

    fn relax(&self, _round: u32) {
        self.count();
    }

    fn now_ns(&self) -> u64 {
        1_700_000_000_000_000_000
    }
}

struct Member {
    writer: SharedWriter,
    open: Vec<Reserved>,
    groups: Vec<BatchSpan>,
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let heap = heap::ring(&mut input, true);
    let liveness = FakeSystem { alive: Cell::new(0xff), asked: Cell::new(0) };
    let mut members: [Option<Member>; MEMBERS as usize] = Default::default();
    join(&heap, &liveness, &mut members, 0);
    while !input.is_empty() {
        liveness.asked.set(0);
        let what = input.u8();
        let slot = usize::from(what >> 4) % heap.shared().slots().len();
        match what % 16 {
            0..4 => corrupt(&heap, &mut input),
            4 => join(&heap, &liveness, &mut members, slot),
            5..10 => {
                if let Some(member) = &mut members[slot] {
                    member.act(&heap, &liveness, &mut input);
                }
            }
            10 => {
                // It dies, with its open reservations.
                members[slot] = None;
                liveness.alive.set(liveness.alive.get() & !(1 << slot));
            }
            11 => {
                if let Some(mut member) = members[slot].take() {
                    let _ = member.writer.detach(heap.shared(), &liveness);
                }
            }
            12 => {
                let epoch = input.u8().into();
                let _ = recover(heap.shared(), epoch, &liveness);
            }
            13 => inspect(&heap, &liveness),
            14 => read(&heap, &mut input),
            _ => liveness.alive.set(input.u8()),
        }
    }
    liveness.asked.set(0);
    inspect(&heap, &liveness);
    liveness.alive.set(0);
    let _ = recover(heap.shared(), 99, &liveness);
    inspect(&heap, &liveness);
}

fn join(
    heap: &HeapRing,
    liveness: &FakeSystem,
    members: &mut [Option<Member>; MEMBERS as usize],
    slot: usize,
) {
    liveness.alive.set(liveness.alive.get() | 1 << slot);
    let (at, who) = (heap.shared(), OwnerInfo::default());
    let writer =
        SharedWriter::attach(at, heap.layout(), Fences::Full, slot as u32, &who, liveness, |_| {
            false
        });
    members[slot] =
        writer.ok().map(|writer| Member { writer, open: Vec::new(), groups: Vec::new() });
}

impl Member {
    fn act(&mut self, heap: &HeapRing, liveness: &FakeSystem, input: &mut Input<'_>) {
        let (at, size) = (heap.shared(), heap.layout().data_size);
        let what = input.u8();
        let len = usize::from(input.u8()) >> (what >> 4 & 3);
        let writer = &mut self.writer;
        let inside = |reserved: &Reserved| {
            // A mapping writes whole words there.
            assert!(reserved.payload_pos().is_multiple_of(8));
            match reserved.range() {
                Some(_) => heap::fill(heap, reserved, |_| unreachable!("of the area")),
                None => assert!((reserved.len() as u64) < size),
            }
        };
        let refused = match what % 10 {
            0 | 1 => {
                let (now, kind) = (input.u16().into(), RecordType::BYTES);
                writer.publish(at, liveness, kind, len, Some(now), Wake::Auto, inside).err()
            }
            2 => writer
                .publish(at, liveness, RecordType::BYTES, len, None, Wake::Force, inside)
                .err(),
            3 | 4 => match writer.reserve(at, liveness, RecordType::BYTES, len, 0) {
                Ok(reserved) => {
                    inside(&reserved);
                    heap::fill(heap, &reserved, |bytes| writer.fill(at, &reserved, bytes));
                    self.open.push(reserved);
                    None
                }
                Err(refusal) => Some(refusal),
            },
            5 => {
                if !self.open.is_empty() {
                    let reserved = self.open.swap_remove(input.of(self.open.len()));
                    let _ = if what & 128 == 0 {
                        let len = reserved.len() / (usize::from(what >> 5 & 3) + 1);
                        writer.commit(at, liveness, reserved, len, Wake::Auto)
                    } else {
                        writer.discard(at, liveness, reserved)
                    };
                }
                None
            }
            6 => match writer.reserve_span(at, liveness, len as u64, 0) {
                Ok(group) => {
                    self.groups.push(group);
                    None
                }
                Err(refusal) => Some(refusal),
            },
            7 => {
                if let Some(group) = self.groups.last_mut()
                    && let Some(reserved) = writer.next_in_span(at, group, RecordType::BYTES, len)
                {
                    inside(&reserved);
                    writer.fill(at, &reserved, &[8; 256][..len]);
                }
                None
            }
            8 => {
                if let Some(group) = self.groups.pop() {
                    let _ = writer.commit_span(at, liveness, group, Wake::Force);
                }
                None
            }
            _ => {
                let reading = reading(input);
                if heap.layout().time {
                    let _ = writer.begin_time(at, liveness, || reading);
                    let _ = writer.keep_time(at, liveness, || reading);
                }
                None
            }
        };
        if let Some(refusal) = refused {
            let _ = (writer.tail_for(at, len), writer.refuse(at, refusal, len));
        }
        let _ = writer.totals(at);
    }
}

/// Inspects the ring from outside.
fn inspect(heap: &HeapRing, liveness: &FakeSystem) {
    let (at, layout) = (heap.shared(), heap.layout());
    let is_dead = |slot| !liveness.is_alive(slot);
    let _ = RingTotals::of(at, layout.policy, is_dead).map(|totals| totals.unreported());
    if let Ok(snapshot) = RingCopy::of(at, layout.policy, is_dead) {
        all_of(snapshot.with_lead(layout.lead()), heap);
    }
    assert!(perfring_ring::producer_seats(at).len() <= at.slots().len());
    let _ = (at.held_up(), at.locked_by(), at.lags());
}

/// Reads to the end with each reader.
fn read(heap: &HeapRing, input: &mut Input<'_>) {
    let (ring, layout) = (heap.ring(), heap.layout());
    let most = 4 * layout.data_size + 64;
    if input.u8().is_multiple_of(2) {
        let Ok(reader) = Reader::attach(ring, Fences::Full) else { return };
        let reader = reader.with_lead(layout.lead());
        let mut reader = match layout.aux_size {
            0 => reader,
            size => reader.with_aux(ring, size),
        };
        for at in 0.. {
            assert!(at < most, "an endless stream");
            let Ok((Some(next), _)) = reader.next(ring) else { break };
            heap::found(&next, heap);
        }
        let _ = reader.release(ring);
    } else {
        let Ok(observer) = CopyReader::new(ring, layout.policy, Start::Oldest) else { return };
        let mut observer = observer.with_lead(layout.lead()).with_aux(layout.aux_size);
        for at in 0.. {
            assert!(at < most, "an endless stream");
            let Ok(Some(next)) = observer.next_in(ring.into(), heap.aux()) else { break };
            seen(&next, heap);
        }
    }
}
