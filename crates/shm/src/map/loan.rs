//! Private memory that reservations lend if other users may write the ring's file.
//!
//! A reservation lends a `&mut [u8]`. Rust assumes that nothing else changes such bytes. In the ring itself, a process that
//! breaks the protocol can change them: a check of safe code, for example for UTF-8, would not stay true. Therefore the
//! reservation lends private bytes, and a commit copies them to the ring.
//!
//! The one reservation of an exclusive producer is always at the same place, which stays in the nearest cache. A reservation
//! of a shared ring has the place here that it has in the ring: reservations that do not overlap there do not overlap here, and any
//! number can be open. Neither allocates: a page of this memory is there once it was written to.

use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::{Layout, Producers};
use std::io;
use std::ptr::NonNull;

#[derive(Debug)]
pub(crate) struct Loan {
    memory: MmapRaw,
    data_mask: usize,
    /// Where payloads of the AUX area begin.
    aux: usize,
    aux_mask: usize,
}

impl Loan {
    /// Maps memory for the reservations of one producer.
    pub(crate) fn new(layout: &Layout) -> io::Result<Self> {
        let too_large = |_| io::ErrorKind::OutOfMemory;
        let data_size = usize::try_from(layout.data_size).map_err(too_large)?;
        let aux_size = usize::try_from(layout.aux_size).map_err(too_large)?;
        let (len, data_mask, aux, aux_mask) = match layout.producers {
            Producers::One => (Some(data_size.max(aux_size)), 0, 0, 0),
            // Twice each: a payload that begins before the end is contiguous.
            Producers::Many | Producers::Cpu => {
                let len = data_size.checked_add(aux_size).and_then(|sum| sum.checked_mul(2));
                (len, data_size - 1, data_size.saturating_mul(2), aux_size.saturating_sub(1))
            }
        };
        let len = len.ok_or(io::ErrorKind::OutOfMemory)?;
        // No reserve: a program that reserves nothing needs none of it.
        let memory = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Loan { memory: memory.into(), data_mask, aux, aux_mask })
    }

    /// Returns the place of a payload at this position of the data area. As many bytes as the area has are there.
    pub(crate) fn of_data(&self, pos: u64) -> NonNull<u8> {
        self.at(pos as usize & self.data_mask)
    }

    /// Returns the place of a payload at this position of the AUX area. As many bytes as the area has are there.
    pub(crate) fn of_aux(&self, pos: u64) -> NonNull<u8> {
        self.at(self.aux + (pos as usize & self.aux_mask))
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        let base = NonNull::new(self.memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        // SAFETY: the callers' offsets are inside the mapping: 0, less than the data area, or less than the AUX area beyond
        // twice that.
        unsafe { base.add(offset) }
    }
}
