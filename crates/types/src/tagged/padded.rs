//! Bytes with their padding.

use alloc::vec::Vec;

/// Appends bytes, and zeros up to a multiple of 8 from the offset `base` on.
///
/// Short bytes are copied as words that do not overlap. A producer then reads words, and each is in one store: the processor
/// has it before it is in the cache.
#[inline]
pub(super) fn put_padded(out: &mut Vec<u8>, base: usize, bytes: &[u8]) {
    if !(out.len() - base).is_multiple_of(8) {
        return put_any(out, base, bytes);
    }
    match bytes.len() {
        0..=8 => out.extend_from_slice(&short_word(bytes)[..bytes.len().next_multiple_of(8)]),
        9..=16 => out.extend_from_slice(words::<2>(bytes).as_flattened()),
        17..=24 => out.extend_from_slice(words::<3>(bytes).as_flattened()),
        25..=32 => out.extend_from_slice(words::<4>(bytes).as_flattened()),
        _ => put_any(out, base, bytes),
    }
}

/// Returns more than `8 * (N - 1)` bytes, and at most `8 * N`, with zeros behind.
#[inline(always)]
fn words<const N: usize>(bytes: &[u8]) -> [[u8; 8]; N] {
    let whole = bytes.as_chunks::<8>().0;
    // The bytes before those of the last word are shifted out.
    let last = u64::from_le_bytes(bytes.last_chunk().copied().unwrap_or_default());
    let last = last.wrapping_shr(64 - 8 * (bytes.len() % 8) as u32).to_le_bytes();
    core::array::from_fn(|at| match whole.get(at) {
        Some(word) if at + 1 < N => *word,
        _ => last,
    })
}

#[inline(never)]
fn put_any(out: &mut Vec<u8>, base: usize, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    let padded = base + (out.len() - base).next_multiple_of(8);
    // Eight zeros and a shorter length: a copy of a fixed length is one instruction.
    out.extend_from_slice(&[0; 8]);
    out.truncate(padded);
}

/// Returns up to 8 bytes with zeros behind: of parts that may overlap.
#[inline(always)]
pub(super) fn short_word(bytes: &[u8]) -> [u8; 8] {
    let part = |word: u64, at: usize| word.wrapping_shl(8 * at as u32);
    let word = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
        (Some(first), Some(last), _) => {
            let [first, last] = [first, last].map(|four| u64::from(u32::from_le_bytes(*four)));
            first | part(last, bytes.len() - 4)
        }
        (_, _, [first, ..]) => {
            let [middle, last] = [bytes.len() / 2, bytes.len() - 1];
            u64::from(*first) | part(bytes[middle].into(), middle) | part(bytes[last].into(), last)
        }
        _ => 0,
    };
    word.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_at_any_offset_are_followed_by_zeros_alone() {
        let bytes: Vec<u8> = (1..=200).collect();
        for (before, len) in (0..24).flat_map(|before| (0..=200).map(move |len| (before, len))) {
            for base in 0..=before {
                let mut out = alloc::vec![0xff; before];
                put_padded(&mut out, base, &bytes[..len]);
                let padded = base + (before - base + len).next_multiple_of(8);
                assert_eq!(out.len(), padded, "{len} bytes at {before}, from {base}");
                assert_eq!(out[..before], [0xff; 24][..before]);
                assert_eq!(out[before..before + len], bytes[..len]);
                assert!(out[before + len..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
