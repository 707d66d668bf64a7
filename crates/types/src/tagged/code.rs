//! The codes of kinds, and the header of a value.

/// In place of the field's number: the name is stored with the value.
pub(super) const NAMED: u16 = 0xffff;
/// The number, the tag, the name's length and the value's length.
pub(super) const HEAD: usize = 8;

pub(super) const NONE: u8 = 0;
pub(super) const BOOL: u8 = 1;
pub(super) const I64: u8 = 2;
pub(super) const U64: u8 = 3;
pub(super) const F64: u8 = 4;
pub(super) const TEXT: u8 = 5;
pub(super) const BYTES: u8 = 6;
pub(super) const I128: u8 = 7;
pub(super) const U128: u8 = 8;
pub(super) const F64S: u8 = 9;
pub(super) const U64S: u8 = 10;
