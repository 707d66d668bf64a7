use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Tick {
    kind: u8,
    price: u32,
}

fn main() {}
