//! ringfire's fixed slots of one producer, which creates the file. Its readers copy each record
//! out. It has a mode that waits for its readers and one that does not.

use crate::contest::mapped::Mapped;
use crate::contest::slots::{Erased, slots};
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::error::failed;
use perfring_bench::payload::{Pool, sized};
use perfring_bench::waits::Room;
use perfring_bench::waits::{PATIENCE, Polls, until};
use perfring_bench::{BenchError, Result};
use ringfire::header::{RINGFIRE_MAGIC, RingHeader};
use ringfire::{
    FlowControl, FutexWait, RingConsumer, RingProducer, RingProducerBuilder, RingfireError,
    WaitStrategy,
};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// `RingProducer` and `RingConsumer`.
pub struct Ringfire;

const NAME: &str = "ringfire";
/// Bytes of a batch: enough records to share a publication, few enough to stay in the first cache.
const BATCH: usize = 4096;

/// Returns how many records a batch has.
fn batch(payload: usize) -> usize {
    (BATCH / payload).clamp(1, 64)
}

impl Contestant for Ringfire {
    type Sender = SlotSender;
    type Receiver = SlotReceiver;
    type Held = ();

    fn can() -> Can {
        Can {
            senders: Err("one producer: its ring for many always overwrites"),
            ..Can::all(1 << 30)
        }
    }

    fn about(setup: &Setup) -> About {
        let (count, many) = (slots(setup.data_size, setup.payload), batch(setup.payload));
        let mode = if setup.overwrite {
            "LossyLatestWins"
        } else {
            "LosslessBackpressure, a registry for its readers alone, which a sender without room \
             polls at until an eighth is free"
        };
        let settings = format!(
            "{count} slots of 8 + {} bytes, push_batch and recv_batch of up to {many}, {mode}",
            setup.payload
        );
        About {
            version: "ringfire 0.5.2".to_owned(),
            location: Location::Processes,
            settings,
            waits: setup.polls_or("its own FutexWait"),
        }
    }

    fn create(_: &Path, _: &Setup) -> Result<()> {
        // The producer creates the file.
        Ok(())
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<SlotSender> {
        let end = sized!(setup.payload, N => make::<N>(path, setup))?;
        Ok(SlotSender { end })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<SlotReceiver> {
        let end = sized!(setup.payload, N => attach::<N>(path))?;
        let sleeper = if setup.sleeping { Some(Mapped::open(path)?) } else { None };
        let polls = Polls::new(setup.pace);
        Ok(SlotReceiver { end, polls, sleeper, cursor: 1, lapped: 0, caught_up: false })
    }
}

fn make<const N: usize>(path: &Path, setup: &Setup) -> Result<Erased> {
    let flow = if setup.overwrite {
        FlowControl::LossyLatestWins
    } else {
        FlowControl::LosslessBackpressure
    };
    let mut builder = RingProducerBuilder::new(slots(setup.data_size, N)).flow_control(flow);
    if !setup.overwrite {
        // It walks over all slots of its registry at each poll: no more than there are readers.
        builder = builder.max_readers(setup.receivers);
    }
    let ring: RingProducer<[u8; N]> = builder.build(path).map_err(failed(NAME))?;
    if !setup.overwrite {
        // It waits only for readers that it knows of.
        until(NAME, "its readers did not come", || {
            let known = ring.registry().map_or(0, |registry| registry.active_readers(0).len());
            Ok((known >= setup.receivers).then_some(()))
        })?;
    }
    let gate = (!setup.overwrite).then(|| Gate { limit: 0, room: Room::default() });
    Ok(Erased::new(Writer { ring, batch: vec![[0; N]; batch(N)], gate }))
}

/// Waits until the producer has created the file. Its readers refuse one that is not ready.
fn attach<const N: usize>(path: &Path) -> Result<Erased> {
    until(NAME, "no producer came", || match RingConsumer::<[u8; N]>::attach(path) {
        Ok(ring) => Ok(Some(Erased::new(Reader { ring, batch: vec![[0; N]; batch(N)] }))),
        Err(RingfireError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(RingfireError::InvalidMagic { .. } | RingfireError::CorruptLayout(_)) => Ok(None),
        Err(other) => Err(failed(NAME)(other)),
    })
}

struct Writer<const N: usize> {
    ring: RingProducer<[u8; N]>,
    batch: Vec<[u8; N]>,
    /// For a lossless ring.
    gate: Option<Gate>,
}

impl<const N: usize> Writer<N> {
    /// Waits until so many fit.
    #[inline(always)]
    fn pass(&mut self, count: u64) {
        if let Some(gate) = &mut self.gate
            && self.ring.next_sequence() + count > gate.limit
        {
            gate.poll(&self.ring, count);
        }
    }
}

/// Up to where there is known to be room. The library's own gate continues as soon as one record
/// fits, and polls its readers again for each batch that one of them has read, so a sender of a
/// full ring takes their line each time. This one waits for more.
struct Gate {
    limit: u64,
    room: Room,
}

/// The part of a ring that has to be free before a sender that found it full continues.
const PART: u64 = 8;

impl Gate {
    #[cold]
    #[inline(never)]
    fn poll<const N: usize>(&mut self, ring: &RingProducer<[u8; N]>, count: u64) {
        let wanted = count.max(ring.capacity() / PART);
        loop {
            let read = ring.registry().and_then(|registry| registry.min_cursor());
            // Without a reader there is nothing to wait for.
            self.limit = read.map_or(u64::MAX, |read| read + ring.capacity());
            if self.limit - ring.next_sequence() >= wanted {
                return;
            }
            self.room.wait();
        }
    }
}

/// Its writing end.
pub struct SlotSender {
    end: Erased,
}

impl Sender for SlotSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        let end = self.end.get::<Writer<N>>()?;
        let mut number = numbers.start;
        while number < numbers.end {
            let count = (numbers.end - number).min(batch(N) as u64) as usize;
            for slot in &mut end.batch[..count] {
                fill(slot, number);
                number += 1;
            }
            end.pass(count as u64);
            if count == 1 {
                end.ring.push(&end.batch[0]);
            } else {
                end.ring.push_batch(&end.batch[..count]);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(&mut self, numbers: Range<u64>, pool: &Pool<N>) -> Result<()> {
        if batch(N) > 1 {
            return self.send(numbers, |slot, number| *slot = *pool.get(number));
        }
        let end = self.end.get::<Writer<N>>()?;
        for number in numbers {
            end.pass(1);
            end.ring.push(pool.get(number));
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let end = self.end.get::<Writer<N>>()?;
        fill(&mut end.batch[0], number);
        if end.gate.is_some() {
            return Ok(end.ring.try_push(&end.batch[0]).is_ok());
        }
        end.ring.push(&end.batch[0]);
        Ok(true)
    }
}

struct Reader<const N: usize> {
    ring: RingConsumer<[u8; N]>,
    batch: Vec<[u8; N]>,
}

/// Its reading end.
pub struct SlotReceiver {
    end: Erased,
    polls: Polls,
    /// The library passes its header to wait strategies only while it blocks until a record comes,
    /// without a timeout, so a reader that sleeps maps it again.
    sleeper: Option<Mapped>,
    cursor: u64,
    lapped: u64,
    /// The last poll returned everything present.
    caught_up: bool,
}

impl Receiver for SlotReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        // It polls the very slot that is written next. A reader close behind its sender takes that
        // line away for a few records each time, so it keeps its distance, by its wait strategy.
        if self.caught_up {
            self.polls.wait();
        }
        let end = self.end.get::<Reader<N>>()?;
        let mut total = 0;
        loop {
            let count = end.ring.recv_batch(&mut end.batch);
            for record in &end.batch[..count] {
                visit(record);
            }
            total += count as u64;
            if count < end.batch.len() {
                break;
            }
        }
        self.caught_up = total > 0;
        if self.caught_up {
            self.polls.found();
        }
        (self.cursor, self.lapped) = (end.ring.cursor(), end.ring.lapped_count());
        Ok(total)
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        let end = self.end.get::<Reader<N>>()?;
        let found = end.ring.try_recv();
        (self.cursor, self.lapped) = (end.ring.cursor(), end.ring.lapped_count());
        let Some(record) = found else { return Ok(false) };
        visit(&record);
        self.polls.found();
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        let Some(map) = self.sleeper.as_ref().filter(|map| map.len() >= size_of::<RingHeader>())
        else {
            return Err(BenchError::Cannot("sleep without being set up so"));
        };
        // SAFETY: mapped for as long as `map` lives and long enough; a mapping is aligned to pages.
        // What other processes change in it are atomics; the rest was written before its magic.
        let header = unsafe { &*map.base().cast::<RingHeader>() };
        debug_assert_eq!(header.magic, RINGFIRE_MAGIC);
        // Its own producer side bounds a sleep that would otherwise not end.
        FutexWait::new(0, Some(timeout.min(PATIENCE))).wait(header, self.cursor);
        Ok(())
    }

    fn reported_lost(&mut self) -> Option<u64> {
        Some(self.lapped)
    }
}
