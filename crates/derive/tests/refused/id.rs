use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[record(id = 2)]
struct Lost {
    price: u64,
}

fn main() {}
