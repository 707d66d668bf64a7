//! The number of 56 bits that decides whether a record is kept by a rule that samples: the same for the same record or
//! value in every process, for ever.

use perfring_export::Origin;
use perfring_types::read::Value;
use std::fmt::{self, Write as _};

/// Hashes a position in a ring, which are a record's own.
#[inline]
pub(super) fn of_record(origin: &Origin, pos: u64) -> u64 {
    let id = u128::from_le_bytes(origin.uuid);
    let ring = id as u64 ^ ((id >> 64) as u64).rotate_left(32);
    mixed(ring ^ pos.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 8
}

/// Hashes a value; `None` if there is none: null, or the trace id of zeros that stands for no trace. A trace id (16 bytes, or
/// their 32 hexadecimal digits) is random already: its last 56 bits are taken as they are, as OpenTelemetry's samplers do, so
/// that all of them decide alike.
pub(super) fn of_value(value: &Value) -> Option<u64> {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    match value {
        Value::Null => return None,
        Value::Bytes(bytes) => match <[u8; 16]>::try_from(&**bytes) {
            Ok(id) => return of_trace(u128::from_be_bytes(id)),
            Err(_) => hash.bytes(bytes),
        },
        Value::Str(text) => match u128::from_str_radix(text, 16) {
            Ok(id) if text.len() == 32 && !text.starts_with('+') => return of_trace(id),
            _ => hash.bytes(text.as_bytes()),
        },
        other => {
            // It never fails.
            let _ = write!(hash, "{other}");
        }
    }
    Some(mixed(hash.0) >> 8)
}

fn of_trace(id: u128) -> Option<u64> {
    (id != 0).then_some(id as u64 & (u64::MAX >> 8))
}

/// The last step of SplitMix64: each bit of the result depends on all bits.
#[inline]
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// FNV-1a, 64 bits, of the bytes or of the text of a value.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_numbers_that_the_guide_says() {
        let id: [u8; 16] = std::array::from_fn(|n| n as u8 + 1);
        let digits = "0102030405060708090a0b0c0d0e0f10".to_owned();
        let last = Some(0x0a_0b0c_0d0e_0f10);
        assert_eq!(of_value(&Value::Bytes(id.to_vec())), last);
        assert_eq!(of_value(&Value::Str(digits.clone())), last);
        assert_eq!(of_value(&Value::Str(digits.to_uppercase())), last);
        let no_trace = [Value::Null, Value::Bytes(vec![0; 16]), Value::Str("0".repeat(32))];
        assert_eq!(no_trace.map(|value| of_value(&value)), [None; 3]);
        // As computed by hand: FNV-1a of "a" is 0xaf63dc4c8601ec8c.
        let of_a = Some(mixed(0xaf63_dc4c_8601_ec8c) >> 8);
        assert_eq!(of_value(&Value::Str("a".into())), of_a);
        assert_eq!(of_value(&Value::Char('a')), of_a);
        assert_eq!(of_value(&Value::U64(17)), of_value(&Value::Str("17".into())));
    }

    #[test]
    fn neighbouring_records_are_kept_in_the_share_that_was_asked_for() {
        let origin = Origin { uuid: [7; 16], ..Origin::default() };
        for share in [0.5, 0.1, 0.01] {
            let least = ((1.0 - share) * (1u64 << 56) as f64) as u64;
            let kept = (0..100_000).filter(|n| of_record(&origin, 24 * n) >= least).count() as f64;
            // Five standard deviations.
            let expected = 100_000.0 * share;
            let off = 5.0 * (expected * (1.0 - share)).sqrt();
            assert!((kept - expected).abs() < off, "{share}: {kept}");
        }
    }
}
