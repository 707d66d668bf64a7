//! The kernel's rings as flight recorders.

use crate::event::EventKind;
use crate::open::{OpenError, Options, enable, opened};
use crate::ring::Stopper;
use crate::snapshot::KernelSnapshot;
use perfring_shm::MappedRecorder;
use std::io;

/// A ring in which the kernel keeps its newest records, for one processor and one kind of events: a flight recorder. The
/// reader does nothing until it takes a [snapshot](KernelRecorder::snapshot), and the kernel refuses no record because the
/// reader is slow.
///
/// A recorder needs Linux 4.7 (`write_backward`).
///
/// ```
/// use perfring_consumer::Item;
/// use perfring_kernel::{EventKind, KernelRecorder, Options, Target};
/// let me = Target::Process(std::process::id());
/// let options = Options { events: vec![EventKind::PageFaults], ..Options::of(me) };
/// let mut recorders = match KernelRecorder::open(&options) {
///     Err(error) if error.is_forbidden() => return Ok(println!("{error}")), // with a reason
///     opened => opened?,
/// };
/// let touched = vec![1u8; 1 << 20];
/// let mut faults = 0;
/// for recorder in &mut recorders {
///     let mut snapshot = recorder.snapshot()?; // the recorder continues
///     while let Some((item, _)) = snapshot.take()? {
///         match item {
///             Item::Record(record) => faults += u32::from(record.time.is_some()),
///             Item::Lost(lost) => println!("{}: {} bytes, {} records", lost.cause.name(), lost.bytes, lost.records),
///         }
///     }
/// }
/// assert!(faults > 0 && touched[0] == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KernelRecorder {
    mapped: MappedRecorder,
    event: EventKind,
    cpu: i32,
    uuid: [u8; 16],
    /// Bytes that were written, and records that were dropped, at the last snapshot.
    written: u64,
    dropped: u64,
    /// The dropped records that the kernel had not reported then: it reports them with the next record that it writes.
    unreported: u64,
}

impl KernelRecorder {
    /// Opens recorders, as [`open`](crate::open()) opens rings: on each processor one for each event that has samples, and
    /// one if there is none. The kernel records from now on.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: &Options) -> Result<Vec<Self>, OpenError> {
        let mut recorders = Vec::new();
        for one in opened(options, true)? {
            let (event, cpu, uuid) = (one.kind, one.cpu, one.uuid);
            let mapped = one.mapped_by(MappedRecorder::map)?;
            let (written, dropped, unreported) = (0, 0, 0);
            recorders.push(KernelRecorder {
                mapped,
                event,
                cpu,
                uuid,
                written,
                dropped,
                unreported,
            });
        }
        enable(options, recorders.iter().map(|recorder| recorder.mapped.events()))?;
        Ok(recorders)
    }

    /// Returns what the ring holds now. The ring still holds it afterwards, and the next snapshot returns it again.
    ///
    /// The kernel drops the records of the moment in which the ring is copied: some 30 us for 512 KiB on an idle machine. This
    /// snapshot and the later ones report the number, as an [`Item::Lost`](perfring_consumer::Item::Lost) of
    /// [`Cause::Foreign`](perfring_consumer::Cause::Foreign).
    ///
    /// # Errors
    /// The system's error.
    pub fn snapshot(&mut self) -> io::Result<KernelSnapshot> {
        let copy = self.mapped.copy()?;
        // The kernel drops records only during copies. Before Linux 6.0 the number is unknown.
        let dropped = self.mapped.events().lost().ok().flatten().unwrap_or(self.dropped);
        if copy.written() != self.written {
            self.unreported = 0;
        }
        self.unreported = self.unreported.saturating_add(dropped.saturating_sub(self.dropped));
        (self.written, self.dropped) = (copy.written(), dropped);
        let about = (self.event, self.uuid, self.data_size());
        Ok(KernelSnapshot::new(copy, about, dropped, self.unreported))
    }

    /// Returns whether everything that the recorder observes has ended, or it was stopped: snapshots do not change any
    /// more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.mapped.events().is_over()
    }

    /// Returns a handle that stops the kernel. The content of the ring stays.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper::new(self.mapped.events())
    }

    /// Returns the event of its samples, as [`KernelRing::event`](crate::KernelRing::event) does.
    #[must_use]
    pub fn event(&self) -> EventKind {
        self.event
    }

    /// Returns the processor.
    #[must_use]
    pub fn cpu(&self) -> i32 {
        self.cpu
    }

    /// Returns a random id, which its snapshots have, too.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the bytes of its data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.mapped.data_size()
    }
}
