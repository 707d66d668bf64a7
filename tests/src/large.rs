//! Payloads of any length whose bytes all follow from their producer and number.

use perfring_testkit::rng::Rng;

/// The producer whose record ends a stream.
pub const END: u64 = 0xffff;

/// A payload that is in the AUX area for any size of the data area.
pub const LARGE: usize = 70_000;

/// Returns a random length: small, or one for the AUX area.
pub fn len_of(rng: &mut Rng) -> usize {
    match rng.below(8) {
        0..4 => 16 + rng.below(1000) as usize,
        4 => 65_480 + rng.below(80) as usize,
        5..7 => 65_521 + rng.below(40_000) as usize,
        _ => 100_000 + rng.below(150_000) as usize,
    }
}

fn mixed(seed: u64, at: u64) -> u64 {
    (seed.wrapping_add(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ seed
}

/// Returns a payload of at least 16 bytes.
#[must_use]
pub fn heavy(who: u64, seq: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    bytes.extend([who << 32 | seq, len as u64].map(u64::to_le_bytes).as_flattened());
    let seed = mixed(who << 32 | seq, len as u64);
    for at in 2..len.div_ceil(8) as u64 {
        bytes.extend(mixed(seed, at).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns the producer and the number of a payload that [`heavy`] made.
///
/// # Panics
/// If any byte of it is wrong.
#[must_use]
pub fn weigh(bytes: &[u8]) -> (u64, u64) {
    let (words, rest) = bytes.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let (name, len) = (word(0), word(1));
    assert_eq!(len, bytes.len() as u64, "a torn or foreign payload");
    let seed = mixed(name, len);
    for (at, word) in words.iter().enumerate().skip(2) {
        assert_eq!(u64::from_le_bytes(*word), mixed(seed, at as u64), "torn at {at} of {len}");
    }
    let last = mixed(seed, words.len() as u64).to_le_bytes();
    assert!(rest.is_empty() || words.len() < 2 || *rest == last[..rest.len()], "a torn end");
    (name >> 32, name & 0xffff_ffff)
}
