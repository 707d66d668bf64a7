//! The values that are most likely to break a ring's numbers.

use perfring_abi::{Hole, RecordType, RecordWord};
use std::collections::BTreeSet;

/// Numbers at the limits of checks. Inputs of the fuzzer contain indices of this list: append only.
pub const NASTY: [u64; 30] = [
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
    2,
    3,
    12,
    1024,
    4104,
    8192,
    u32::MAX as u64,
    1 << 61,
    (1 << 61) - 8,
    u64::MAX - 1,
];

/// Returns values to replace a field of `bits` bits, in a ring of `size` bytes: all except its
/// present one.
#[must_use]
pub fn values(old: u64, bits: usize, size: u64) -> BTreeSet<u64> {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let near = [1, 2, 8, 16, size, 1 << 32, 1 << 40]
        .into_iter()
        .flat_map(|by: u64| [old.wrapping_add(by), old.wrapping_sub(by)]);
    NASTY
        .into_iter()
        .chain([size - 8, size, size + 8, old.swap_bytes(), !old])
        .chain(near)
        .map(|value| value & mask)
        .filter(|&value| value != old)
        .collect()
}

/// Returns the value with one bit changed, for each of its bits.
pub fn bits(old: u64, bits: usize) -> impl Iterator<Item = u64> {
    (0..bits).map(move |bit| old ^ 1 << bit)
}

/// Returns header words of records, holes and loss markers that are wrong, or right and in the
/// wrong position, in a ring of `size` bytes.
#[must_use]
pub fn records(size: u64) -> Vec<u64> {
    let record = |misc, size| RecordWord::pack(4096, misc, size).raw();
    let lost = |misc, size| RecordWord::pack(RecordType::LOST, misc, size).raw();
    let nop = |size| RecordWord::nop(size, Hole::Discarded).raw();
    vec![
        record(0, 0),
        record(0, 8),
        record(1, 8),
        record(7, 8),
        record(0, 12),
        record(7, 16),
        record(0, size as u16),
        record(0, 65_528),
        record(0, u16::MAX),
        nop(0),
        nop(8),
        nop(size),
        lost(0, 8),
        lost(0, 16),
        lost(0, 24),
        lost(7, 32),
        RecordWord::lost().raw(),
    ]
}

/// Returns header words of open and of ended reservations, in a shared ring of
/// `size` bytes.
#[must_use]
pub fn reservations(size: u64) -> Vec<u64> {
    let busy = |size, slot| RecordWord::busy(size, slot).raw();
    vec![
        busy(0, 0),
        busy(0, 1),
        busy(8, 0),
        busy(8, 1),
        busy(12, 1),
        busy(16, 2),
        busy(48, 1),
        busy(48, 3),
        busy(48, 4),
        busy(size - 8, 0),
        busy(size, 1),
        busy(65_528, 1),
        busy(16, 8191),
        busy(65_535, 8191),
        RecordWord::nop(16, Hole::Rest).raw(),
        RecordWord::nop(16, Hole::Reclaimed).raw(),
        RecordWord::pack(RecordType::NOP, 0x10, 0).raw(),
        RecordWord::pack(RecordType::NOP, u16::MAX, 48).raw(),
        RecordWord::pack(4096, 0, 48).raw(),
    ]
}

/// Words of a shared ring's lock: of live and dead producers, of slots that exist and of some that
/// do not. The slots that a ring of four does not have are in [`INVALID_LOCKS`].
pub const LOCKS: [u64; 6] = [4, 1 << 16, 1 | 1 << 16, 2 | 1 << 16, 3 | 7 << 16, 5 | 9 << 16];

/// Words of a lock that no process can hold.
pub const INVALID_LOCKS: [u64; 6] = [6, 4097, 4098, 0xffff, u64::MAX, 0xffff | 1 << 16];
