use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(C, align(16))]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Tick {
    price: u64,
    volume: u64,
}

fn main() {}
