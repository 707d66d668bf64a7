//! A record that each ring of a directory gets before the others, and again; and records with the caller's timestamp.

use crate::cpu_producer::CpuProducer;
use crate::cpu_rings::Preface;
use crate::reserve_error::ReserveError;
use crate::waiting::{CPU_LOCK_WAIT, Limits};
use perfring_abi::RecordType;
use perfring_shm::{CpuThread, CpuWindow};

impl CpuProducer {
    /// Sets the preface: a record that says what the process is whose records follow. A ring gets it before the first
    /// record of [`CpuProducer::publish_at`], and before the first one after each quarter of the ring that any process has
    /// written. So an overwrite ring that has a record still has the preface, or loses it with the next quarter. (A thread that
    /// is moved to another CPU at that moment has its record there before the preface.) Register its type first. Of several
    /// calls, the first counts.
    ///
    /// ```
    /// # use perfring_producer::{CpuProducer, Options, RecordType};
    /// # let dir = tempfile::tempdir()?;
    /// # let Ok(producer) = CpuProducer::create(dir.path().join("set"), &Options::per_cpu()) else { return Ok(()) };
    /// producer.set_preface(RecordType::BYTES, b"program 17".into());
    /// producer.publish_at(RecordType::BYTES, b"begins", 0)?; // two records
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(hidden)] // for `telemetry`
    pub fn set_preface(&self, kind: RecordType, payload: Vec<u8>) {
        let _ = self.rings.preface.set(Preface::new(kind, payload));
    }

    /// Publishes the preface now, if there is one, in the ring of the CPU that the thread runs on.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[doc(hidden)] // for `telemetry`
    pub fn publish_preface(&self) -> Result<(), ReserveError> {
        let Some(preface) = self.rings.preface.get() else { return Ok(()) };
        let len = preface.payload.len();
        let attempt = |here: CpuThread, ring: &CpuWindow| {
            let done = ring.publish(here, preface.kind, &preface.payload, self.now());
            preface.note(here.cpu(), ring, done.is_ok());
            done?;
            self.note_timestamp(ring);
            Ok(())
        };
        let done = self.wait_for(Limits::lock(CPU_LOCK_WAIT), len, attempt);
        done.map_err(|refused| self.rings.refuse(refused, len))
    }

    /// Publishes one record of this type with a timestamp that the caller has from a
    /// [`ProcessClock`](crate::ProcessClock), after the preface where it is due. The record gets that time, or that of the
    /// ring's last record if it is later; one that waits for the ring's lock gets the time of the attempt that succeeds. In a ring
    /// without time, `now` means nothing.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted. A preface that is refused is no error: the ring gets it later.
    #[inline(always)]
    pub fn publish_at(
        &self,
        kind: RecordType,
        payload: &[u8],
        now: u64,
    ) -> Result<(), ReserveError> {
        if self.publish_here::<true>(kind, payload, || now) {
            return Ok(());
        }
        self.publish_slowly(kind, payload, Limits::lock(CPU_LOCK_WAIT), self.rings.preface.get())
    }
}
