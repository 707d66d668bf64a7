//! Plain records.

use bytemuck::{Pod, Zeroable};
use perfring_types::{Class, Encoding, Enum, Kind, Record};

/// What a market said,
/// at some time.
///
/// More of it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, Record)]
#[record(name = "market.Tick", version = 2, class = "gauge")]
struct Tick {
    /// When.
    #[record(unit = "ns")]
    time: u64,
    #[record(text)]
    symbol: [u8; 8],
    #[record(hex, help = "of the order")]
    digest: [u8; 4],
    side: Enum<Side>,
    _pad: [u8; 3],
    levels: [Level; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, Record)]
struct Level {
    price: f64,
    size: u32,
    r#type: i32,
}

#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
enum Side {
    Buy = 1,
    #[record(name = "sell it")]
    Sell,
}

#[test]
fn a_schema_says_what_the_struct_is() {
    let schema = Tick::SCHEMA;
    assert_eq!(schema.encoding, Encoding::Pod);
    assert_eq!(schema.class, Class::Gauge);
    println!("{} {:?}", schema.to_json(), schema.id);
    assert_eq!(Level::SCHEMA.name, "perfring-derive.Level");
    assert_eq!(Level::SCHEMA.fields[2].name, "type");
    let _ = Kind::U8;
}
