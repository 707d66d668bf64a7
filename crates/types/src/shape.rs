//! Types that have a schema.

use crate::schema::{Kind, Schema, Shape};

/// A type that can be a field.
///
/// `#[derive(Record)]` implements it for structs, so that they can be fields of others.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a record",
    label = "no shape is known for `{Self}`",
    note = "use integers, floats, arrays of them, or structs with `#[derive(Record)]`; for an enum, \
            `perfring_types::Enum<{Self}>`",
    note = "in an rkyv record also `String`, `Vec`, `Option`, structs and enums with \
            `#[derive(Archive, Serialize, Record)]` and `#[record(rkyv)]`; mark others \
            `#[record(opaque)]`"
)]
pub trait Shaped {
    /// The shape of the field.
    const SHAPE: Shape<'static>;
}

/// A type whose values are records.
///
/// Implemented by `#[derive(Record)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a record",
    note = "add `#[derive(Record)]` to `{Self}`"
)]
pub trait Record {
    /// The schema for a ring's type table.
    const SCHEMA: Schema<'static>;
}

/// A record whose bytes are its payload.
///
/// Implemented by `#[derive(Record)]` for structs that are `bytemuck::Pod`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be published as plain bytes",
    note = "derive `Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Record` with `#[repr(C)]`"
)]
pub trait PodRecord: Record + bytemuck::Pod {}

macro_rules! plain {
    ($($type:ty: $kind:ident),* $(,)?) => {$(
        impl Shaped for $type {
            const SHAPE: Shape<'static> = Shape::plain(Kind::$kind, size_of::<$type>() as u32);
        }
    )*};
}

plain! {
    u8: U8, u16: U16, u32: U32, u64: U64, u128: U128, i8: I8, i16: I16, i32: I32, i64: I64,
    i128: I128, f32: F32, f64: F64, bool: Bool, char: Char,
}

impl<T: Shaped, const N: usize> Shaped for [T; N] {
    const SHAPE: Shape<'static> = Shape::array(const { &T::SHAPE }, N as u32);
}
