//! Random numbers from a seed.

use std::hash::{BuildHasher, Hasher, RandomState};

/// xorshift64*: the same seed gives the same numbers. A test that fails prints the seed.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    state: u64,
}

impl Rng {
    /// Makes a generator; the seed may be any number.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Makes a generator with the seed in `PERFRING_SEED`, or a new one in every run.
    #[must_use]
    pub fn from_env() -> Self {
        let seed = std::env::var("PERFRING_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("PERFRING_SEED={seed}");
        Rng::new(seed)
    }

    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.any() >> 1) % end.max(1)
    }

    /// Returns an index into something of this length.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.any().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Returns 128 bits: small, large, and at the limits.
    pub fn wide(&mut self) -> u128 {
        match self.below(6) {
            0 => 0,
            1 => u128::MAX,
            2 => 1 << self.below(128),
            3 => (1 << self.below(128)) - 1,
            4 => self.any().into(),
            _ => u128::from(self.any()) << 64 | u128::from(self.any()),
        }
    }

    /// Returns any float, special values often.
    pub fn float(&mut self) -> f64 {
        const ODD: [f64; 8] =
            [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1, f64::MAX, 5e-324];
        match self.below(2) {
            0 => ODD[self.index(ODD.len())],
            _ => f64::from_bits(self.any()),
        }
    }

    /// Returns a text of at most `max` bytes that does not end with a zero.
    pub fn text(&mut self, max: usize) -> String {
        const PARTS: [&str; 12] =
            ["a", "\"", "\\", "\n", "\0", "\u{1b}[31m", "é", "日本", "𝄞", " ", "\u{202e}", "{x=1}"];
        let mut text = String::new();
        for _ in 0..self.below(60) {
            let part = PARTS[self.index(PARTS.len())];
            if text.len() + part.len() <= max {
                text.push_str(part);
            }
        }
        text.trim_end_matches('\0').to_owned()
    }
}

impl Drop for Rng {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the random numbers of this test follow from the seed {}", self.seed);
        }
    }
}
