//! What Python has as well, in `test_types.py`, with the same names.

use bytemuck::{Pod, Zeroable};
use perfring_types::{Enum, Kind, Record, Shape, Shaped};

/// A value of which each field is another, and none is zero.
pub(crate) trait Example {
    fn example() -> Self;
}

/// Every number, in an order that needs padding.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "agree.Numbers")]
pub(crate) struct Numbers {
    a: u8,
    _pad: [u8; 1],
    b: i16,
    c: i8,
    _pad_c: [u8; 3],
    d: u32,
    _pad_d: [u8; 4],
    e: u64,
    f: f32,
    g: i32,
    h: i64,
    i: u16,
    _pad_i: [u8; 6],
    j: f64,
    k: u8,
    _pad_k: [u8; 7],
}

impl Example for Numbers {
    fn example() -> Self {
        Numbers {
            a: 250,
            b: -2,
            c: -3,
            d: 4_000_000_000,
            e: u64::MAX - 5,
            f: 6.5,
            g: -7,
            h: i64::MIN,
            i: 65_000,
            j: -0.1,
            k: 11,
            ..Zeroable::zeroed()
        }
    }
}

#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
pub(crate) enum Side {
    Buy = 1,
    Sell = 2,
}

#[repr(i16)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
pub(crate) enum Trend {
    #[record(name = "going down")]
    Down = -300,
    Up = 300,
}

/// A trade, as the exchange
/// told it.
///
/// More of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "agree.Trade", version = 3, class = "log")]
pub(crate) struct Trade {
    /// When it was made.
    #[record(unit = "ns")]
    time: u64,
    #[record(text)]
    symbol: [u8; 6],
    side: Enum<Side>,
    _pad: [u8; 1],
    trend: Enum<Trend>,
    #[record(hex)]
    key: [u8; 5],
    _pad_key: [u8; 1],
    #[record(name = "r#type")]
    kind: u32,
    _pad_kind: [u8; 4],
}

impl Example for Trade {
    fn example() -> Self {
        Trade {
            time: 1 << 60,
            symbol: *b"\xc3\x9cBER\0",
            side: Side::Sell.into(),
            trend: Trend::Down.into(),
            key: [0, 1, 254, 255, 0],
            kind: 9,
            ..Zeroable::zeroed()
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
pub(crate) struct Point {
    x: f64,
    y: f32,
    on: u8,
    _pad: [u8; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "agree.Nested")]
pub(crate) struct Nested {
    first: u8,
    _pad: [u8; 7],
    point: Point,
    line: [Point; 2],
    matrix: [[u16; 3]; 2],
    #[record(text)]
    names: [[u8; 4]; 2],
    sides: [Enum<Side>; 3],
    _pad_sides: [u8; 1],
}

impl Example for Nested {
    fn example() -> Self {
        let point = |x, y, on| Point { x, y, on, ..Zeroable::zeroed() };
        Nested {
            first: 1,
            point: point(2.5, 3.5, 4),
            line: [point(5.5, 6.5, 7), point(8.5, 9.5, 10)],
            matrix: [[11, 12, 13], [14, 15, 16]],
            names: [*b"ab\0\0", *b"cdef"],
            sides: [Side::Buy.into(), Side::Sell.into(), Side::Buy.into()],
            ..Zeroable::zeroed()
        }
    }
}

/// As numpy lays fields out without `align`.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "agree.Packed")]
pub(crate) struct Packed {
    a: u8,
    b: u64,
    c: [f32; 3],
    #[record(text)]
    d: [u8; 5],
    e: i16,
}

impl Example for Packed {
    fn example() -> Self {
        Packed { a: 1, b: 1 << 40, c: [0.5, 1.5, 2.5], d: *b"packs", e: -5 }
    }
}

/// A byte shown as a truth value. Not every byte is a `bool`, so `bool` itself cannot be.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Flag(u8);

impl Shaped for Flag {
    const SHAPE: Shape<'static> = Shape::plain(Kind::Bool, 1);
}

/// A number shown as a character.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Letter(u32);

impl Shaped for Letter {
    const SHAPE: Shape<'static> = Shape::plain(Kind::Char, 4);
}

/// 128 bits at multiples of 8.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Wide([u64; 2]);

impl Shaped for Wide {
    const SHAPE: Shape<'static> = Shape::plain(Kind::I128, 16);
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "agree.Own")]
pub(crate) struct Own {
    flag: Flag,
    _pad: [u8; 3],
    letter: Letter,
    wide: Wide,
}

impl Example for Own {
    fn example() -> Self {
        Own {
            flag: Flag(1),
            letter: Letter('ß'.into()),
            wide: Wide(bytemuck::cast(-3i128)),
            ..Zeroable::zeroed()
        }
    }
}

/// With a chosen number, and a field that is not in the type.
#[repr(C)]
#[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
#[record(name = "agree.Numbered", id = 4711)]
pub(crate) struct Numbered {
    a: u32,
    _spare: [u8; 8],
    b: u32,
}

impl Example for Numbered {
    fn example() -> Self {
        Numbered { a: 1, _spare: [0; 8], b: 2 }
    }
}
