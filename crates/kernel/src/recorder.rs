//! The kernel's rings as flight recorders.

use crate::event::EventKind;
use crate::open::{OpenError, Options, enable, opened};
use crate::ring::Stopper;
use crate::snapshot::KernelSnapshot;
use perfring_shm::MappedRecorder;
use std::io;

/// A ring in which the kernel keeps its newest records, for one processor and one kind of events: a flight recorder. Its
/// reader does nothing until it takes a [snapshot](KernelRecorder::snapshot), and no record is refused because the reader is
/// slow.
///
/// It needs Linux 4.7 (`write_backward`).
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
///             Item::Lost(lost) => println!("{} bytes are no longer there", lost.bytes),
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
            recorders.push(KernelRecorder { mapped, event, cpu, uuid });
        }
        enable(options, recorders.iter().map(|recorder| recorder.mapped.events()))?;
        Ok(recorders)
    }

    /// Returns what the ring holds now. The ring still holds it afterwards, and the next snapshot returns it again.
    ///
    /// The kernel drops the records of the moment in which this copies the ring: some 30 us for 512 KiB on an idle machine. The next record
    /// that the kernel writes reports how many, as an [`Item::Lost`](perfring_consumer::Item::Lost) of
    /// [`Cause::Foreign`](perfring_consumer::Cause::Foreign) in later snapshots.
    ///
    /// # Errors
    /// The system's error.
    pub fn snapshot(&mut self) -> io::Result<KernelSnapshot> {
        let copy = self.mapped.copy()?;
        Ok(KernelSnapshot::new(copy, self.event, self.uuid, self.data_size()))
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
