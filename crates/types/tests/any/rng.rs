//! Values from a seed.

/// Numbers from a seed (xorshift): one seed makes all values of a case.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Small, large, and at the edges.
    pub(crate) fn number(&mut self) -> u128 {
        match self.below(6) {
            0 => 0,
            1 => u128::MAX,
            2 => 1 << self.below(128),
            3 => (1 << self.below(128)) - 1,
            4 => self.next().into(),
            _ => u128::from(self.next()) << 64 | u128::from(self.next()),
        }
    }

    pub(crate) fn float(&mut self) -> f64 {
        const ODD: [f64; 8] =
            [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1, f64::MAX, 5e-324];
        match self.below(2) {
            0 => ODD[self.below(ODD.len())],
            _ => f64::from_bits(self.next()),
        }
    }

    /// At most `max` bytes, not ending with a zero.
    pub(crate) fn text(&mut self, max: usize) -> String {
        const PARTS: [&str; 12] =
            ["a", "\"", "\\", "\n", "\0", "\u{1b}[31m", "é", "日本", "𝄞", " ", "\u{202e}", "{x=1}"];
        let mut text = String::new();
        for _ in 0..self.below(60) {
            let part = PARTS[self.below(PARTS.len())];
            if text.len() + part.len() <= max {
                text.push_str(part);
            }
        }
        text.trim_end_matches('\0').to_owned()
    }
}
