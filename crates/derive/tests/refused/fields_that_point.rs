use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record)]
struct Refers {
    symbol: &'static str,
    next: *const u8,
}

#[repr(C)]
#[derive(Record)]
struct Owns {
    symbol: String,
    prices: Vec<u64>,
    more: Box<u64>,
}

fn main() {}
