//! Bytes taken for decisions. What is not there is zero, so every input is one of a target's.

use perfring_abi::{Hole, RecordType, RecordWord};

pub(crate) struct Input<'a>(&'a [u8]);

/// Words that numbers of a ring are most likely to be broken by.
const NASTY: [u64; 20] = [
    0,
    1,
    7,
    8,
    16,
    24,
    32,
    4088,
    4096,
    65_528,
    65_536,
    1 << 32,
    1 << 40,
    (1 << 62) - 8,
    1 << 62,
    (1 << 62) + 8,
    1 << 63,
    u64::MAX - 15,
    u64::MAX - 7,
    u64::MAX,
];

const KINDS: [u32; 6] =
    [4096, RecordType::NOP, RecordType::LOST, RecordType::BUSY, 9, RecordType::BYTES.get() + 1];

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Input(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.take(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// One of so many.
    pub(crate) fn of(&mut self, count: usize) -> usize {
        let roll = if count > 256 { usize::from(self.u16()) } else { usize::from(self.u8()) };
        roll % count.max(1)
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.of(of.len())]
    }

    /// As many bytes as there are, at most.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Bytes with their length before them, and so many at most.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = usize::from(self.u16());
        self.take(len.min(most))
    }

    pub(crate) fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// What to store where `old` stands, in a ring of `size` bytes: rather something that passes the
    /// first checks.
    pub(crate) fn number(&mut self, old: u64, size: u64) -> u64 {
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
