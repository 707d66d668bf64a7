//! A ring file in memory, and the offsets of its fields.

use crate::size::workspace;
use perfring_abi::{FIELDS, PageField, Producers, SLOT_SIZE};
use std::ops::Range;

/// Returns the offset of a field.
///
/// # Panics
/// If there is no field of that name.
#[must_use]
pub fn at(name: &str) -> Range<usize> {
    let field = |field: &&PageField| field.name == name;
    let field = FIELDS.iter().find(field).unwrap_or_else(|| panic!("no field {name}"));
    field.offset..field.offset + field.size
}

/// Returns a field of 64 bits of a file.
///
/// # Panics
/// If there is no field of that name, or the file is too short.
#[must_use]
pub fn word(file: &[u8], name: &str) -> u64 {
    get(file, at(name).start, 8)
}

/// Returns up to eight bytes of a file, as a number.
///
/// # Panics
/// Beyond its end.
#[must_use]
pub fn get(file: &[u8], offset: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&file[offset..offset + size]);
    u64::from_le_bytes(bytes)
}

/// Returns the offset of a slot.
///
/// # Panics
/// If this is not a ring.
#[must_use]
pub fn slot_at(file: &[u8], index: u32) -> Range<usize> {
    let start = word(file, "control_offset") as usize + index as usize * SLOT_SIZE as usize;
    start..start + SLOT_SIZE as usize
}

/// The bytes of a ring file, to be changed.
#[derive(Clone, Debug)]
pub struct Image {
    /// The golden file that it is made of.
    pub name: &'static str,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

impl Image {
    /// Reads a golden file.
    ///
    /// # Panics
    /// If there is no file of that name.
    #[must_use]
    pub fn golden(name: &'static str) -> Self {
        let path = workspace().join(format!("proto/golden/{name}.perfring"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        Image { name, bytes }
    }

    /// Returns up to eight bytes as a number.
    #[must_use]
    pub fn get(&self, offset: usize, size: usize) -> u64 {
        get(&self.bytes, offset, size)
    }

    /// Changes up to eight bytes.
    pub fn set(&mut self, offset: usize, size: usize, value: u64) {
        self.bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    /// Returns a field of 64 bits.
    #[must_use]
    pub fn word(&self, field: &str) -> u64 {
        word(&self.bytes, field)
    }

    /// Changes a field of at most 64 bits.
    pub fn set_field(&mut self, field: &str, value: u64) {
        let at = at(field);
        self.set(at.start, at.len(), value);
    }

    /// Returns the offset of the data area.
    #[must_use]
    pub fn data(&self) -> Range<usize> {
        let start = self.word("data_offset") as usize;
        start..start + self.word("data_size") as usize
    }

    /// Returns whether several processes may produce.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.bytes[at("producers")] == Producers::Many.code().to_le_bytes()
    }

    /// Returns the same file with one number changed.
    #[must_use]
    pub fn with(&self, offset: usize, size: usize, value: u64) -> Self {
        let mut image = self.clone();
        image.set(offset, size, value);
        image
    }
}
