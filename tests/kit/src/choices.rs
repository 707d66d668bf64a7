//! Decisions, from a fuzzer's bytes or from random numbers.

use crate::nasty::NASTY;
use crate::rng::Rng;
use perfring_abi::{Hole, RecordType, RecordWord};

/// Types of records that readers treat in different ways.
const KINDS: [u32; 6] =
    [4096, RecordType::NOP, RecordType::LOST, RecordType::BUSY, 9, RecordType::BYTES.get() + 1];

/// A source of decisions.
pub trait Choices {
    /// Returns the next bytes.
    fn array<const N: usize>(&mut self) -> [u8; N];

    /// Returns the next byte.
    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Returns the next two bytes.
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Returns the next four bytes.
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Returns the next eight bytes.
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Returns a number below `count`.
    fn of(&mut self, count: usize) -> usize {
        let roll = if count > 256 { usize::from(self.u16()) } else { usize::from(self.u8()) };
        roll % count.max(1)
    }

    /// Returns one of these.
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.of(of.len())]
    }

    /// Returns a value to store in place of `old`, in a ring of `size` bytes: mostly a value that
    /// passes the first checks.
    fn number(&mut self, old: u64, size: u64) -> u64 {
        let near = |by: u8| i64::from(by as i8);
        match self.u8() % 10 {
            0 => self.u64(),
            1 => self.one(&NASTY),
            2 => old.wrapping_add_signed(8 * near(self.u8())),
            3 => old ^ 1 << (self.u8() % 64),
            4 => u64::from(self.u16()),
            5 => 8 * u64::from(self.u8()),
            6 => old.wrapping_add(size.wrapping_mul(near(self.u8()) as u64)),
            7 => {
                RecordWord::pack(self.one(&KINDS), self.u8().into(), 8 * u16::from(self.u8())).raw()
            }
            8 => RecordWord::busy(8 * u64::from(self.u8()), u32::from(self.u8() % 8)).raw(),
            _ => {
                let hole = self.one(&[Hole::Discarded, Hole::Reclaimed, Hole::Rest]);
                RecordWord::nop(8 * u64::from(self.u8()), hole).raw()
            }
        }
    }
}

impl Choices for Rng {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.any().to_be_bytes();
        std::array::from_fn(|at| bytes[at % 8])
    }
}

/// A fuzzer's bytes. Missing bytes are zero, so every input is valid.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Makes an input of these bytes.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Input(data)
    }

    /// Returns whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes `len` bytes, or as many as there are.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Takes bytes with their length before them, at most `most`.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = usize::from(self.u16());
        self.take(len.min(most))
    }

    /// Takes a text with its length before it.
    pub fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

impl Choices for Input<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.take(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }
}
