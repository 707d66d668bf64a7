//! rkyv archives as records.

use crate::{Producer, ReserveError, SharedProducer, Wake};
use perfring_types::{ArchiveError, RkyvRecord, archive_into};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use thiserror::Error;

/// What rkyv may need for the elements of a value's vectors: on the stack, and of such as need more
/// on the heap.
const SCRATCH: usize = 1024;
const SCRATCH_LARGE: usize = 1 << 20;
/// Space that an archive is first given.
const FIRST: usize = 256;

/// Why a value was not published as an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The ring did not take it.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// It cannot be archived. Nothing is counted.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl Producer {
    /// Publishes a value as an rkyv archive, written in the ring itself and as long as it turns out
    /// to be. Nothing is allocated, but for the type table at the first record of a type, and for a
    /// value whose vectors have hundreds of elements that are not plain.
    ///
    /// How long an archive is, is known when it is written: the producer reserves somewhat more
    /// than the last ones took, and gives the rest back. If that was too little, it begins anew
    /// with more. A ring that is full but for less than that refuses.
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
    /// # let mut producer = Producer::create(dir.path().join("ring"), &Options::default())?;
    /// producer.publish_rkyv(&Line { message: "could not be found".into(), code: 404 })?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PublishError`]. A refusal of the ring is counted; an archive that is longer than the ring
    /// takes is [`ReserveError::TooLarge`].
    #[inline]
    pub fn publish_rkyv<T: RkyvRecord>(&mut self, value: &T) -> Result<(), PublishError> {
        self.inner.register(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        let max = self.max_len();
        let mut space = self.archives.get().clamp(FIRST, max.max(FIRST)).min(max);
        loop {
            let mut record = self.inner.reserve(T::SCHEMA.id, space)?;
            match archive(value, &mut record) {
                Ok(len) => {
                    record.commit_len(len);
                    self.archives.set(next_space(self.archives.get(), len));
                    return Ok(());
                }
                Err(ArchiveError::BufferTooSmall) => {
                    // Leaves nothing behind: the next reservation gets the same bytes.
                    std::mem::forget(record);
                    space =
                        grow(space, max, |len| self.inner.reserve(T::SCHEMA.id, len).map(drop))?;
                }
                Err(error) => {
                    std::mem::forget(record);
                    return Err(error.into());
                }
            }
        }
    }
}

impl SharedProducer {
    /// Publishes a value as an rkyv archive. It is written into memory of this producer's own, which
    /// is kept, and copied from there: what a shared ring has reserved and does not need stays a
    /// hole, and the copy costs less than that. To write one in place, reserve, and call
    /// [`archive_into`].
    ///
    /// # Errors
    /// As for [`Producer::publish_rkyv`].
    #[inline]
    pub fn publish_rkyv<T: RkyvRecord>(&self, value: &T) -> Result<(), PublishError> {
        self.inner.register(const { &T::SCHEMA }, const { T::SCHEMA.key() })?;
        // Taken out meanwhile: a value may publish others while it is archived.
        let mut buffer = self.archives.take();
        let done = self.publish_through(value, &mut buffer);
        self.archives.replace(buffer);
        done
    }

    #[inline]
    fn publish_through<T: RkyvRecord>(
        &self,
        value: &T,
        buffer: &mut Vec<u64>,
    ) -> Result<(), PublishError> {
        loop {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(buffer);
            match archive(value, bytes) {
                Ok(len) => {
                    return Ok(self.inner.publish(T::SCHEMA.id, &bytes[..len], Wake::Auto)?);
                }
                Err(ArchiveError::BufferTooSmall) => {
                    let space = bytes.len().max(FIRST / 2);
                    let space = grow(space, self.max_len(), |len| {
                        self.inner.reserve(T::SCHEMA.id, len).map(drop)
                    })?;
                    buffer.resize(space.div_ceil(8), 0);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What a [`Producer`] keeps of its archives: how much space to give to the next.
pub(crate) type Space = Cell<usize>;
/// What a [`SharedProducer`] writes them into.
pub(crate) type Buffer = RefCell<Vec<u64>>;

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

/// Half as much again as the last archive took, and not much less than for those before it.
#[inline]
fn next_space(before: usize, len: usize) -> usize {
    (len + len / 2).max(before - before / 64)
}

/// Twice the space; the refusal of a record that is too large, counted, if there is no more.
#[cold]
fn grow(
    space: usize,
    max: usize,
    refuse: impl FnOnce(usize) -> Result<(), ReserveError>,
) -> Result<usize, ReserveError> {
    if space < max {
        return Ok((2 * space).min(max));
    }
    refuse(max + 1)?;
    Ok(max)
}
