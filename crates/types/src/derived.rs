//! Functions called by the code that `#[derive(Record)]` generates, for clear compile errors. Not a
//! public interface.

use crate::schema::{Kind, Shape};
#[cfg(feature = "rkyv")]
use crate::shape::Shaped;
pub use perfring_abi::RecordType;
use perfring_abi::SIZE_MAX;

#[cfg(feature = "rkyv")]
pub use ::rkyv;

/// `[u8; N]`, or an array of them.
#[diagnostic::on_unimplemented(
    message = "`text` and `hex` are for bytes, not for `{Self}`",
    label = "not `[u8; N]`",
    note = "make the field `[u8; N]`, or an array of such arrays"
)]
pub trait ByteArray {
    /// The shape as text.
    const TEXT: Shape<'static>;
    /// The shape as hexadecimal digits.
    const HEX: Shape<'static>;
}

impl<const N: usize> ByteArray for [u8; N] {
    const TEXT: Shape<'static> = Shape::plain(Kind::Text, N as u32);
    const HEX: Shape<'static> = Shape::plain(Kind::Bytes, N as u32);
}

impl<T: ByteArray, const N: usize> ByteArray for [T; N] {
    const TEXT: Shape<'static> = Shape::array(const { &T::TEXT }, N as u32);
    const HEX: Shape<'static> = Shape::array(const { &T::HEX }, N as u32);
}

/// Returns the id that `#[record(id = ...)]` gives.
#[must_use]
pub const fn given_id(raw: u32) -> RecordType {
    match RecordType::new(raw) {
        Some(id) => id,
        None => RecordType::BYTES, // refused by `check_id`
    }
}

/// Rejects an id that the kernel or the ring uses.
#[track_caller]
pub const fn check_id(raw: u32) {
    assert!(
        RecordType::new(raw).is_some(),
        "this id is reserved for the kernel or the ring: use a number from 64 on that is not \
         0x5046_0000 to 0x5046_ffff, or leave `id` out and have one from name and layout"
    );
}

/// Rejects a field with an alignment above 8.
#[track_caller]
pub const fn check_field_alignment(align: usize) {
    assert!(
        align <= 8,
        "the alignment of this field is above 8, and a payload begins at a multiple of 8: \
         use two `u64` in place of a 128-bit integer, or `[u8; 16]`"
    );
}

/// Rejects a struct with an alignment above 8.
#[track_caller]
pub const fn check_alignment(align: usize) {
    assert!(
        align <= 8,
        "the alignment of this struct is above 8, and a payload begins at a multiple of 8: \
         remove `align(...)`, here or from the types of its fields"
    );
}

/// Rejects a label that does not fit.
#[track_caller]
pub const fn check_label(value: i128) {
    assert!(
        value <= i64::MAX as i128,
        "this value of the enum is above `i64::MAX`, which the type table cannot hold: \
         choose a smaller one"
    );
}

/// Rejects a struct that does not fit in a record.
#[track_caller]
pub const fn check_size(size: usize) {
    assert!(
        size <= SIZE_MAX as usize - 8,
        "this struct is larger than a record may be, 65,520 bytes: publish it in parts"
    );
}

macro_rules! gaps {
    ($name:ident: $start:literal $end:literal; $($bytes:literal),*) => {
        const $name: [&str; 7] = [$(concat!("padding: ", $bytes, $start, $bytes, $end)),*];
    };
}

gaps! {
    BEFORE: " byte(s) of padding stand before this field, and would be published with it: \
             add a field `_pad: [u8; " "]` before it, or order the fields from the largest \
             alignment to the smallest"; 1, 2, 3, 4, 5, 6, 7
}
gaps! {
    AFTER: " byte(s) of padding stand after the last field, and would be published with it: \
            add a field `_pad: [u8; " "]` at the end"; 1, 2, 3, 4, 5, 6, 7
}

/// Rejects padding before a field. A struct whose alignment was rejected gets no further error.
#[track_caller]
pub const fn check_gap_before(align: usize, end_of_last: usize, offset: usize) {
    let gap = offset.wrapping_sub(end_of_last);
    if align <= 8 && gap != 0 {
        assert!(gap <= 7, "padding before this field: use `#[repr(C)]` alone");
        assert!(gap == 0, "{}", BEFORE[gap - 1]);
    }
}

/// Rejects padding after the last field.
#[track_caller]
pub const fn check_gap_after(align: usize, end_of_last: usize, size: usize) {
    let gap = size.wrapping_sub(end_of_last);
    if align <= 8 && gap != 0 {
        assert!(gap <= 7, "padding after the last field: use `#[repr(C)]` alone");
        assert!(gap == 0, "{}", AFTER[gap - 1]);
    }
}

/// Returns the shape of an archive's field, from the field itself, whatever wrapper it is archived
/// with.
#[cfg(feature = "rkyv")]
pub const fn archived<T, F: Shaped>(_: fn(&T) -> &F) -> Shape<'static> {
    F::SHAPE
}

/// Returns the shape of an archive's field as text.
#[cfg(feature = "rkyv")]
pub const fn archived_text<T, F: ByteArray>(_: fn(&T) -> &F) -> Shape<'static> {
    F::TEXT
}

/// Returns the shape of an archive's field as hexadecimal digits.
#[cfg(feature = "rkyv")]
pub const fn archived_hex<T, F: ByteArray>(_: fn(&T) -> &F) -> Shape<'static> {
    F::HEX
}

/// Returns the shape of an archive's field as opaque bytes.
#[cfg(feature = "rkyv")]
pub const fn archived_opaque<T, F>(_: fn(&T) -> &F) -> Shape<'static> {
    Shape::plain(Kind::Bytes, size_of::<F>() as u32)
}

/// Rejects fields of archives that contain, perhaps indirectly, what must be aligned to 16.
#[cfg(feature = "rkyv")]
#[track_caller]
pub const fn check_archived(shape: Shape<'_>) {
    assert!(
        align_of::<::rkyv::primitive::ArchivedU128>() <= 8 || !has_128_bits(&shape),
        "128-bit integers in an archive are aligned to 16, and a payload begins at a \
         multiple of 8: use two `u64` or `[u8; 16]`"
    );
}

#[cfg(feature = "rkyv")]
const fn has_128_bits(shape: &Shape<'_>) -> bool {
    if matches!(shape.kind, Kind::U128 | Kind::I128) {
        return true;
    }
    if let Some(of) = shape.of
        && has_128_bits(of)
    {
        return true;
    }
    let mut at = 0;
    while at < shape.fields.len() {
        if has_128_bits(&shape.fields[at].shape) {
            return true;
        }
        at += 1;
    }
    false
}
