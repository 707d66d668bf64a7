//! Records with a shape, read.

use crate::Record;
use perfring_types::PodRecord;
use thiserror::Error;

/// Why a record cannot be read as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotThis {
    /// It has another type's number.
    #[error("the record is of type {kind} and not {wanted}")]
    Kind {
        /// Its own type.
        kind: u32,
        /// The type asked for.
        wanted: u32,
    },
    /// It has the number, but not the length: another program gave the number to something else.
    #[error("the record has {len} bytes, and its type takes {needed}")]
    Length {
        /// Its length.
        len: usize,
        /// What the type takes.
        needed: usize,
    },
}

impl<'a> Record<'a> {
    /// The record as a plain struct, where it stands: in the ring for a consumer of a drop ring, in
    /// the reader's private copy for others.
    ///
    /// # Errors
    /// [`NotThis`] if it is of another type.
    #[inline(always)]
    pub fn as_pod<T: PodRecord>(&self) -> Result<&'a T, NotThis> {
        let wanted = T::SCHEMA.id.get();
        if self.kind != wanted {
            return Err(NotThis::Kind { kind: self.kind, wanted });
        }
        // Payloads begin at multiples of eight, so the length is all that can be wrong.
        bytemuck::try_from_bytes(self.bytes)
            .map_err(|_| NotThis::Length { len: self.bytes.len(), needed: size_of::<T>() })
    }
}
