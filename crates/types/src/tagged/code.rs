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

/// Returns the header of a value.
#[inline(always)]
pub(super) fn head(field: u16, tag: u8, name: u8, len: u32) -> [u8; HEAD] {
    let [f0, f1] = field.to_ne_bytes();
    let [l0, l1, l2, l3] = len.to_ne_bytes();
    [f0, f1, tag, name, l0, l1, l2, l3]
}

/// Returns a header and the first word of its value.
#[inline(always)]
pub(super) fn joined(head: [u8; HEAD], value: [u8; 8]) -> [u8; HEAD + 8] {
    let mut both = [0; HEAD + 8];
    both[..HEAD].copy_from_slice(&head);
    both[HEAD..].copy_from_slice(&value);
    both
}
