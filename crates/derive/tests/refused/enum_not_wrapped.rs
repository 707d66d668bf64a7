use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(u8)]
#[derive(Clone, Copy, Record)]
enum Side {
    Buy,
    Sell,
}

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Tick {
    side: Side,
}

fn main() {}
