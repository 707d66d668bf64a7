//! Private memory that reservations lend where other users may write the ring's file.
//!
//! A reservation lends a `&mut [u8]`, and to Rust nobody else changes such bytes. In the ring itself, a process that
//! breaks the protocol can: what safe code has checked there, say that it is UTF-8, would not stay true. So the bytes
//! are these, and a commit copies them to the ring.
//!
//! A payload has the same place here as in the ring. Reservations that do not overlap there do not overlap here, any
//! number can be open, and none allocates: a page of this memory is there once it was written to.

use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::ptr::NonNull;

#[derive(Debug)]
pub(crate) struct Loan {
    memory: MmapRaw,
    data_size: usize,
    aux_size: usize,
}

impl Loan {
    /// Maps memory for rings of these sizes, each a power of two, the second or zero.
    pub(crate) fn new(data_size: usize, aux_size: usize) -> io::Result<Self> {
        // Twice each: a payload that begins before the end is contiguous.
        let len = data_size.checked_add(aux_size).and_then(|sum| sum.checked_mul(2));
        let len = len.ok_or(io::ErrorKind::OutOfMemory)?;
        // No reserve: a program that reserves nothing needs none of it.
        let memory = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Loan { memory: memory.into(), data_size, aux_size })
    }

    /// Returns the place of a payload at this position of the data area. As many bytes as the area has are there.
    pub(crate) fn of_data(&self, pos: u64) -> NonNull<u8> {
        self.at(pos as usize & (self.data_size - 1))
    }

    /// Returns the place of a payload at this position of the AUX area. As many bytes as the area has are there.
    pub(crate) fn of_aux(&self, pos: u64) -> NonNull<u8> {
        self.at(2 * self.data_size + (pos as usize & self.aux_size.saturating_sub(1)))
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        let base = NonNull::new(self.memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        // SAFETY: the callers' offsets are inside the mapping: less than `data_size`, or `aux_size` beyond twice that.
        unsafe { base.add(offset) }
    }
}
