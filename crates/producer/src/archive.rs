//! rkyv archives as records.

use crate::exclusive_producer::Producer;
use crate::reserve_error::ReserveError;
use crate::shared_producer::SharedProducer;
use crate::space::now;
use perfring_ring::{End, Refusal, Wake};
use perfring_shm::WriteWindow;
use perfring_types::{ArchiveError, RkyvRecord, archive_into};
use std::mem::MaybeUninit;

/// The type of a wait that never happens.
type NoWait = fn(&mut WriteWindow, Refusal) -> Result<(), Refusal>;

/// Scratch space that rkyv may need for the elements of a value's vectors: on the stack, and on the
/// heap for values that need more.
const SCRATCH: usize = 1024;
const SCRATCH_LARGE: usize = 1 << 20;
/// The smallest and the largest reservation that an archive is tried in.
const FIRST: usize = 256;
const LAST: usize = 16 << 10;

impl Producer {
    /// Publishes a value as an rkyv archive, written in the ring itself. Nothing is allocated,
    /// except for the type table at the first record of a type, for an archive that is much longer
    /// than those before it, and for a value whose vectors have dozens of elements that are not
    /// plain.
    ///
    /// The length of an archive is known once it is written. The producer reserves somewhat more
    /// than the last ones took, up to 16 KiB and an eighth of the ring, and gives the rest back. If
    /// that is too little, or the ring has no room for so much, it writes the archive into memory
    /// and copies it.
    ///
    /// ```
    /// # #[cfg(feature = "derive")] {
    /// use perfring_producer::{Options, Producer, types::Record};
    /// use rkyv::{Archive, Serialize};
    ///
    /// #[derive(Archive, Serialize, Record)]
    /// #[record(rkyv)]
    /// struct Line {
    ///     message: String,
    ///     code: u32,
    /// }
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let mut producer = Producer::create(&path, &Options::default())?;
    /// producer.publish_rkyv(&Line { message: "could not be found".into(), code: 404 })?;
    ///
    /// # use perfring_consumer::{Consumer, Item};
    /// let mut consumer = Consumer::attach(&path)?;
    /// let Some(Item::Record(record)) = consumer.read()? else { panic!() };
    /// let line = record.archived::<Line>()?; // in place, checked
    /// assert_eq!((line.message.as_str(), line.code.to_native()), ("could not be found", 404));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ReserveError`]. An archive that is longer than the ring takes is [`ReserveError::TooLarge`]. A value that
    /// cannot be archived is [`ReserveError::Archive`].
    #[inline]
    pub fn publish_rkyv<T: RkyvRecord>(&mut self, value: &T) -> Result<(), ReserveError> {
        self.know(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        let most = LAST.min(self.layout().data_size as usize / 8);
        let space = self.archive_space.clamp(FIRST, most.max(FIRST));
        let (id, clock) = (T::SCHEMA.id, &mut self.clock);
        let now = |window: &mut WriteWindow| now(window, clock);
        // A refusal is not counted, as there is an alternative.
        let refused = |_: &mut WriteWindow, refusal: Refusal| Err::<NoWait, _>(refusal);
        let Ok(mut record) = self.window.reserve::<Producer, [u8], _, _>(
            id,
            space,
            End::Publish(Wake::Auto),
            now,
            refused,
        ) else {
            return self.publish_long(value); // which may be short enough for what room there is
        };
        match archive(value, &mut record) {
            Ok(len) => {
                record.commit_len(len);
                self.archive_space = next_space(space, len);
                Ok(())
            }
            Err(error) => {
                // Leaves nothing behind: the next reservation gets the same bytes.
                std::mem::forget(record);
                match error {
                    ArchiveError::BufferTooSmall => self.publish_long(value),
                    error => Err(error.into()),
                }
            }
        }
    }

    /// Publishes an archive that is longer than the last ones, or than the room in the ring: made
    /// in memory, to know its length.
    #[cold]
    fn publish_long<T: RkyvRecord>(&mut self, value: &T) -> Result<(), ReserveError> {
        let mut buffer = Vec::new();
        let bytes = archive_to(value, &mut buffer, self.max_len())?;
        self.archive_space = next_space(0, bytes.len());
        self.publish_as(T::SCHEMA.id, bytes)
    }
}

impl SharedProducer {
    /// Publishes a value as an rkyv archive. It is written into a buffer that this producer keeps,
    /// and copied from there: space that a shared ring has reserved and does not need stays a hole,
    /// and the copy costs less than that. To write an archive in place, reserve, and call
    /// [`archive_into`].
    ///
    /// # Errors
    /// As for [`Producer::publish_rkyv`].
    #[inline]
    pub fn publish_rkyv<T: RkyvRecord>(&self, value: &T) -> Result<(), ReserveError> {
        self.know(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        // Taken out for the duration: a value may publish others while it is archived.
        let mut buffer = self.archive_buffer.take();
        let done = match archive_to(value, &mut buffer, self.max_len()) {
            Ok(bytes) => self.publish_as(T::SCHEMA.id, bytes),
            Err(error) => Err(error.into()),
        };
        self.archive_buffer.replace(buffer);
        done
    }
}

#[inline]
fn archive<T: RkyvRecord>(value: &T, to: &mut [u8]) -> Result<usize, ArchiveError> {
    match archive_into(value, to, &mut [MaybeUninit::uninit(); SCRATCH]) {
        Err(ArchiveError::ScratchTooSmall) => archive_with_more(value, to),
        done => done,
    }
}

#[cold]
fn archive_with_more<T: RkyvRecord>(value: &T, to: &mut [u8]) -> Result<usize, ArchiveError> {
    archive_into(value, to, Box::new_uninit_slice(SCRATCH_LARGE).as_mut())
}

/// Returns one and a half times what the last archive took, and not much less than for those before
/// it.
#[inline]
fn next_space(before: usize, len: usize) -> usize {
    (len + len / 2).max(before - before / 64)
}

/// Writes the archive into `buffer`, which grows until it holds it. An archive that is longer than
/// `max` is truncated somewhere after that: the ring refuses and counts it.
#[inline]
fn archive_to<'b, T: RkyvRecord>(
    value: &T,
    buffer: &'b mut Vec<u64>,
    max: usize,
) -> Result<&'b [u8], ArchiveError> {
    let len = loop {
        match archive(value, bytemuck::cast_slice_mut(buffer)) {
            Ok(len) => break len,
            Err(ArchiveError::BufferTooSmall) if 8 * buffer.len() <= max => {
                buffer.resize((2 * buffer.len()).max(FIRST / 8), 0);
            }
            Err(ArchiveError::BufferTooSmall) => break 8 * buffer.len(),
            Err(error) => return Err(error),
        }
    };
    Ok(&bytemuck::cast_slice(buffer)[..len])
}
