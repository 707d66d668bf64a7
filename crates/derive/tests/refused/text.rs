use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Tick {
    #[record(text)]
    symbol: u64,
}

fn main() {}
