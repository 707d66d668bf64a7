use bytemuck::{Pod, Zeroable};
use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Image {
    pixels: [[u8; 256]; 256],
}

fn main() {}
