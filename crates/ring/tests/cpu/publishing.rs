//! How a producer of a ring per CPU publishes: in a sequence, and past it under the lock.

use super::expected::{Kind, add, payload, who};
use super::world::{KIND, ROUNDS, World};
use perfring_abi::{LOST_SIZE, Lead, Policy, RecordWord, Report};
use perfring_ring::{Fences, Refusal, Reserved, Sequence, Wake, close, is_awaited, section};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;

impl World<'_> {
    pub(super) fn publish(&mut self, slot: u32) {
        let (len, now, id) = (self.len(), self.now(), self.new_id(slot));
        for _ in 0..ROUNDS {
            if !self.writer(slot).has_losses_to_report() && len <= self.writer(slot).max_len() {
                match self.sequence(slot, id, len, now) {
                    Some(Sequence::Slow) => {}
                    Some(Sequence::Done) | None => return,
                }
            }
            if !self.close(slot) {
                return;
            }
            match self.open_ring(slot, len) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(refusal) => {
                    assert!(self.refused(slot, refusal, len));
                    return;
                }
            }
            if !self.lives_on(slot) || self.publish_under_lock(slot, id, len, now) {
                return;
            }
        }
    }

    /// Returns `None` if the producer died in it.
    fn sequence(&mut self, slot: u32, id: u64, len: usize, now: u64) -> Option<Sequence> {
        let (ring, mut words, lead) = (self.ring(), payload(id, len), self.heap.layout().lead());
        let word = RecordWord::of(KIND, len + lead.len());
        if lead == Lead::SampleId {
            words.insert(0, who(slot).to_word());
        }
        loop {
            let mut steps = if self.one_in(2) { u64::MAX } else { self.rng.below(12) };
            let step = || {
                steps = steps.saturating_sub(1);
                steps != 0
            };
            let (head, old) = (ring.head(), self.newest());
            let now = self.timed().then_some(now);
            let done = section(ring, word, &words, now, step);
            match done {
                Some(Sequence::Done) => {
                    assert!(self.is_open());
                    let time = now.map(|now| now.max(old));
                    let kind = Kind::Data { id, len, time };
                    self.expected.granted(slot, head, word.size(), kind);
                    self.tally.by_sequence += 1;
                    assert!(!is_awaited(ring.header(), Fences::Full, Wake::Auto), "nobody sleeps");
                    return done;
                }
                Some(Sequence::Slow) => return done,
                None if self.one_in(8) => {
                    self.die(slot);
                    self.tally.died_inside += 1;
                    return None;
                }
                None => {
                    self.tally.aborted += 1;
                    self.others_run();
                }
            }
        }
    }

    /// Closes the ring if it is open. Returns whether the producer lives on.
    pub(super) fn close(&mut self, slot: u32) -> bool {
        let was_open = self.is_open();
        assert_eq!(close(self.ring(), slot) == Sequence::Done, was_open);
        assert!(!self.is_open());
        self.check();
        self.lives_on(slot)
    }

    /// Returns whether the ring is open now; if not, the record is for the lock.
    fn open_ring(&mut self, slot: u32, len: usize) -> Result<bool, Refusal> {
        let (at, was_open, size) = (self.at(), self.is_open(), self.size_of(len));
        if len > self.writer(slot).max_len() {
            return Ok(false);
        }
        let stays_full = self.writer(slot).is_full_still(at.ring(), len);
        let writer = self.writers[slot as usize].as_mut().unwrap();
        let opened = writer.open_for_sequences(at, &self.liveness, len);
        assert!(!writer.found_open(), "it is told once");
        let reported = !writer.has_losses_to_report();
        let end = at.ring().head();
        match opened {
            Ok(()) if was_open => self.tally.found_open += 1,
            Ok(()) => {
                assert!(reported, "losses first");
                self.expected.reported_until(slot, end);
                let limit = self.heap.header().cpu.limit.load(Relaxed);
                assert!(limit >= end + size, "room for the record at least");
                // It may open less than it has made room for.
                let block = size.max(at.ring().data_size() / 4);
                assert!(limit <= end + block);
                self.room = self.room.max(end + block);
                self.tally.opened += 1;
            }
            Err(Refusal::Pending { slot: by }) => {
                // It names who has it; or the losses do not fit beside a block.
                if !self.expected.open().any(|(_, slot)| slot == by) {
                    let markers = u64::from(LOST_SIZE) * self.expected.unreported_causes(slot);
                    let block = size.max(at.ring().data_size() / 4);
                    assert!(by == slot && !reported && markers + block >= at.ring().data_size());
                    self.room = self.room.max(end + size);
                }
            }
            Err(Refusal::Full) => {
                let need = size + u64::from(LOST_SIZE) * self.expected.unreported_causes(slot);
                let from = if self.policy == Policy::Drop { at.ring().tail() } else { end };
                assert!(end + need - from >= at.ring().data_size(), "there was room");
                assert!(self.policy == Policy::Drop, "never full");
                self.room = self.room.max(end + size);
            }
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(self.is_open(), opened.is_ok());
        // Also if another producer has opened it for shorter records. With something reserved, the lock's way finds out.
        let agrees = was_open || matches!(opened, Err(Refusal::Full | Refusal::Pending { .. }));
        assert!(!stays_full || agrees, "full without the lock, and {opened:?} under it");
        self.tally.full_still += u64::from(stays_full);
        self.check();
        match opened {
            Err(Refusal::Pending { .. }) => Ok(false),
            opened => opened.map(|()| true),
        }
    }

    /// Returns whether that was that: the record is published, or refused.
    fn publish_under_lock(&mut self, slot: u32, id: u64, len: usize, now: u64) -> bool {
        let (at, data, words, old) = (self.at(), self.heap.data(), payload(id, len), self.newest());
        let (dies, size) = (self.one_in(30), self.size_of(len));
        let (mut start, writer) = (0, self.writers[slot as usize].as_mut().unwrap());
        let fill = |reserved: &Reserved| {
            start = reserved.pos();
            for (word, pos) in words.iter().zip(reserved.payload_pos() / 8..) {
                data[pos as usize % data.len()].store(*word, Relaxed);
            }
            if dies {
                resume_unwind(Box::new(())); // without a message
            }
        };
        let stays_full = len <= writer.max_len() && writer.is_full_still(at.ring(), len);
        let publish = || writer.publish(at, &self.liveness, KIND, len, Some(now), Wake::Auto, fill);
        let done = catch_unwind(AssertUnwindSafe(publish));
        assert!(!stays_full || matches!(done, Ok(Err(Refusal::Full))), "full without the lock");
        let Ok(done) = done else {
            self.expected.reported_until(slot, start);
            self.room = self.room.max(start + size);
            self.die(slot);
            self.tally.died_locked += 1;
            return true;
        };
        let Err(refusal) = done else {
            let time = self.timed().then(|| now.max(old));
            self.granted(slot, start, size, Kind::Data { id, len, time });
            add(&mut self.own[slot as usize].written, size);
            self.tally.under_lock += 1;
            return true;
        };
        self.refused(slot, refusal, len)
    }

    pub(super) fn granted(&mut self, slot: u32, start: u64, size: u64, kind: Kind) {
        assert!(!self.writer(slot).found_open());
        assert!(!self.is_open(), "nothing is done under the lock in an open ring");
        self.expected.granted(slot, start, size, kind);
        self.room = self.room.max(start + size);
    }

    /// Counts a refusal. Returns false if it was none, as the ring is open.
    pub(super) fn refused(&mut self, slot: u32, refusal: Refusal, len: usize) -> bool {
        let (at, size) = (self.at(), self.size_of(len));
        if self.writer(slot).found_open() {
            assert!(self.is_open());
            self.tally.found_open += 1;
            return false;
        }
        self.sync();
        let open = self.expected.open().next();
        let (cause, held) = match refusal {
            Refusal::Full => (0, self.ring().tail()),
            Refusal::TooLarge { .. } => (1, 0),
            Refusal::Pending { slot } => {
                assert_eq!(open, Some((self.ring().head(), slot)), "who holds it up");
                (3, self.ring().head())
            }
            other => panic!("no other process runs: {other:?}"),
        };
        assert!(cause != 0 || self.policy == Policy::Drop, "an overwrite ring is never full");
        let markers = 4 * u64::from(LOST_SIZE);
        let end = self.expected.end() + size + markers;
        assert!(cause == 1 || end - held >= self.ring().data_size(), "there was room");
        let _ = self.writer(slot).refuse(at, refusal, len);
        add(&mut self.refused[cause], size);
        add(&mut self.own[slot as usize].refused[cause], size);
        if self.heap.layout().report == Report::InStream {
            add(&mut self.expected.unreported[slot as usize][cause], size);
        }
        *[&mut self.tally.full, &mut self.tally.too_large, &mut 0, &mut self.tally.pending]
            [cause] += 1;
        true
    }
}
