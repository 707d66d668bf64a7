use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Tick {
    price: u64,
    kind: u8,
}

fn main() {}
