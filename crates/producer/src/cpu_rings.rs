//! The rings of a [`CpuProducer`](crate::CpuProducer), by CPU.

use crate::cpu_set;
use crate::reserve_error::ReserveError;
use perfring_abi::RecordType;
use perfring_ring::Refusal;
use perfring_shm::{CpuThread, CpuWindow, NotHere};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a thread that is migrated in the middle of a call begins again on its new CPU.
const MOVES_MOST: u32 = 64;

/// For how long records do without a ring that could not be attached to: an attempt is dear, and may wait.
const AGAIN: Duration = Duration::from_millis(100);

/// A record that rings get before the others.
#[derive(Debug)]
pub(crate) struct Preface {
    pub(crate) kind: RecordType,
    pub(crate) payload: Vec<u8>,
    /// Where it was last published in the ring of each CPU.
    last: Box<[AtomicU64]>,
}

/// Further than a quarter of a ring from each position.
const NEVER: u64 = 1 << 63;

impl Preface {
    pub(crate) fn new(kind: RecordType, payload: Vec<u8>) -> Self {
        let last = std::iter::repeat_with(|| AtomicU64::new(NEVER)).take(cpu_set::CPUS).collect();
        Preface { kind, payload, last }
    }

    /// Returns whether the ring of a CPU is to get it before the next record.
    #[inline(always)]
    pub(crate) fn is_due(&self, cpu: u32, ring: &CpuWindow) -> bool {
        let Some(last) = self.last.get(cpu as usize) else { return false };
        // Relaxed: a ring that two threads find in want of it gets it twice.
        ring.head().wrapping_sub(last.load(Ordering::Relaxed)) >= ring.layout().data_size / 4
    }

    /// Notes that a ring has got it. One that refused it gets it once it has taken another record.
    pub(crate) fn note(&self, cpu: u32, ring: &CpuWindow, is_done: bool) {
        let wait = if is_done { 0 } else { ring.layout().data_size / 4 - 1 };
        if let Some(last) = self.last.get(cpu as usize) {
            last.store(ring.head().wrapping_sub(wait), Ordering::Relaxed);
        }
    }
}

/// The rings that a process is attached to.
#[derive(Debug)]
pub(crate) struct CpuRings {
    /// By the CPU's number.
    rings: Box<[OnceLock<Box<CpuWindow>>]>,
    /// Until when records do without a ring that could not be attached to, by the CPU's number: ns since `began`, times
    /// two, and one if the ring's lock was held.
    failed: Box<[AtomicU64]>,
    pub(crate) preface: OnceLock<Preface>,
    began: Instant,
    without_ring: AtomicU64,
}

/// Why a record was not taken.
pub(crate) enum CpuRefusal {
    /// There is no ring of this CPU, and none could be made.
    NoRing(u32),
    /// The ring of this CPU could not be attached to: another producer has its lock.
    HeldUp(u32),
    /// By the ring of this CPU, see [`NotHere::Interrupted`].
    Interrupted(u32),
    /// By the ring of this CPU.
    By(u32, Refusal),
}

impl CpuRings {
    pub(crate) fn new() -> Self {
        let rings = std::iter::repeat_with(OnceLock::new).take(cpu_set::CPUS).collect();
        let failed = std::iter::repeat_with(AtomicU64::default).take(cpu_set::CPUS).collect();
        let (began, without_ring) = (Instant::now(), AtomicU64::new(0));
        CpuRings { rings, failed, preface: OnceLock::new(), began, without_ring }
    }

    /// Returns where the ring of a CPU is put, if there can be such a CPU.
    pub(crate) fn cell(&self, cpu: u32) -> Option<&OnceLock<Box<CpuWindow>>> {
        self.rings.get(cpu as usize)
    }

    #[inline(always)]
    pub(crate) fn of(&self, cpu: u32) -> Option<&CpuWindow> {
        self.rings.get(cpu as usize)?.get().map(|ring| &**ring)
    }

    pub(crate) fn attached(&self) -> impl Iterator<Item = &CpuWindow> {
        self.rings.iter().filter_map(OnceLock::get).map(|ring| &**ring)
    }

    /// Returns whether this process is a forked child of the one that attached: then it has no ring to itself, on
    /// no CPU.
    #[cold]
    pub(crate) fn forked(&self) -> bool {
        self.attached().next().is_some_and(CpuWindow::forked)
    }

    /// Notes that the ring of a CPU could not be attached to: for [`AGAIN`], records do not try.
    pub(crate) fn failed(&self, cpu: u32, held_up: bool) {
        if let Some(failed) = self.failed.get(cpu as usize) {
            let until = self.began.elapsed() + AGAIN;
            failed.store((until.as_nanos() as u64) << 1 | u64::from(held_up), Ordering::Relaxed);
        }
    }

    /// Returns whether the ring of a CPU could not be attached to just now, and then whether its lock was held.
    pub(crate) fn has_failed(&self, cpu: u32) -> Option<bool> {
        let failed = self.failed.get(cpu as usize)?;
        let failed = failed.load(Ordering::Relaxed);
        (self.began.elapsed().as_nanos() < u128::from(failed >> 1)).then_some(failed & 1 != 0)
    }

    /// Runs a call with the ring of the CPU that the thread runs on, and again where it has moved. `attach` attaches
    /// to a ring that is not there yet.
    pub(crate) fn on_this_cpu<'a, T>(
        &'a self,
        attach: impl Fn(u32) -> Result<(), CpuRefusal>,
        mut call: impl FnMut(CpuThread, &'a CpuWindow) -> Result<T, NotHere>,
    ) -> Result<T, CpuRefusal> {
        let mut last = 0;
        for _ in 0..MOVES_MOST {
            let here = CpuThread::here().map_err(|_| CpuRefusal::NoRing(0))?;
            let cpu = here.cpu();
            let Some(ring) = self.of(cpu) else {
                if self.forked() {
                    return Err(CpuRefusal::By(cpu, Refusal::Forked));
                }
                attach(cpu)?;
                continue;
            };
            last = cpu;
            match call(here, ring) {
                Ok(done) => return Ok(done),
                Err(NotHere::Moved) => {}
                Err(NotHere::Interrupted) => return Err(CpuRefusal::Interrupted(cpu)),
                Err(NotHere::Refused(refusal)) => return Err(CpuRefusal::By(cpu, refusal)),
            }
        }
        let slot = self.of(last).map_or(0, CpuWindow::slot);
        Err(CpuRefusal::By(last, Refusal::Contended { slot }))
    }

    /// Counts a refusal.
    #[cold]
    pub(crate) fn refuse(&self, refused: CpuRefusal, len: usize) -> ReserveError {
        let (cpu, refusal) = match refused {
            CpuRefusal::NoRing(cpu) | CpuRefusal::HeldUp(cpu) => {
                self.without_ring.fetch_add(1, Ordering::Relaxed);
                return ReserveError::NoRing { cpu };
            }
            CpuRefusal::Interrupted(cpu) => {
                let slot = self.of(cpu).map_or(0, CpuWindow::slot);
                (cpu, Refusal::Contended { slot })
            }
            CpuRefusal::By(cpu, refusal) => (cpu, refusal),
        };
        match self.of(cpu) {
            Some(ring) => {
                ring.refuse(refusal, len);
                ReserveError::of(refusal, len, || ring.cut_off())
            }
            None => {
                self.without_ring.fetch_add(1, Ordering::Relaxed);
                ReserveError::of(refusal, len, || None)
            }
        }
    }

    pub(crate) fn lost_without_ring(&self) -> u64 {
        self.without_ring.load(Ordering::Relaxed)
    }
}
