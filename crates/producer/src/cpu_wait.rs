//! How a producer of rings per CPU waits: for a ring's lock, for space, and for an older reservation to end.

use crate::cpu_producer::CpuProducer;
use crate::cpu_rings::{CpuRefusal, Preface};
use crate::reserve_error::ReserveError;
use crate::waiting::{Limits, wait_once};
use perfring_abi::RecordType;
use perfring_ring::Refusal;
use perfring_shm::{CpuThread, CpuWindow, NotHere};

impl CpuProducer {
    /// Publishes what a sequence did not: the ring has no room, the thread has moved, or its CPU has no ring yet. With a
    /// preface, that is published first where it is due. Counts a refusal.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish_slowly(
        &self,
        kind: RecordType,
        payload: &[u8],
        limits: Limits,
        preface: Option<&Preface>,
    ) -> Result<(), ReserveError> {
        let is_due = preface.is_some_and(|preface| {
            CpuThread::here().is_ok_and(|here| {
                self.rings.of(here.cpu()).is_none_or(|ring| preface.is_due(here.cpu(), ring))
            })
        });
        // In a forked child there is no ring to ask, and the record is refused.
        if is_due && !self.rings.forked() {
            let _ = self.publish_preface();
        }
        let attempt = |here, ring: &CpuWindow| {
            ring.publish(here, kind, payload, self.now())?;
            self.note_timestamp(ring);
            Ok(())
        };
        self.wait_for(limits, payload.len(), attempt)
            .map_err(|refused| self.rings.refuse(refused, payload.len()))
    }

    /// Attempts to get something of the ring of the CPU that the thread runs on, and waits between two attempts.
    pub(crate) fn wait_for<'a, T>(
        &'a self,
        limits: Limits,
        len: usize,
        mut attempt: impl FnMut(CpuThread, &'a CpuWindow) -> Result<T, NotHere>,
    ) -> Result<T, CpuRefusal> {
        let attach = |cpu| self.attach_for_record(cpu, !limits.space.is_zero());
        let mut waiting = None;
        loop {
            let refused = match self.rings.on_this_cpu(attach, &mut attempt) {
                Ok(got) => return Ok(got),
                Err(refused) => refused,
            };
            let (cpu, refusal) = match refused {
                CpuRefusal::NoRing(_) | CpuRefusal::Interrupted(_) => return Err(refused),
                CpuRefusal::HeldUp(cpu) => (cpu, Refusal::Contended { slot: 0 }),
                CpuRefusal::By(cpu, refusal) => (cpu, refusal),
            };
            let for_space = |left| {
                if let Some(ring) = self.rings.of(cpu) {
                    ring.sleep_for_space(len, left);
                }
            };
            if wait_once(&mut waiting, refusal, limits, for_space).is_err() {
                if let CpuRefusal::HeldUp(cpu) = refused {
                    self.rings.failed(cpu, true);
                }
                return Err(refused);
            }
        }
    }

    /// Attaches to the ring of a CPU for a record, unless an attachment has failed in the last 100 ms. Does not wait for the
    /// ring's lock: a caller that `waits` calls this again.
    fn attach_for_record(&self, cpu: u32, waits: bool) -> Result<(), CpuRefusal> {
        let held_up = match self.rings.has_failed(cpu) {
            Some(held_up) => held_up && waits,
            None => match self.attach_once(cpu) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_held_up() => true,
                Err(_) => {
                    self.rings.failed(cpu, false);
                    false
                }
            },
        };
        Err(if held_up { CpuRefusal::HeldUp(cpu) } else { CpuRefusal::NoRing(cpu) })
    }
}
