use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record)]
struct Tick {
    open: bool,
    letter: char,
    pair: (u32, u32),
    maybe: Option<u64>,
    len: usize,
}

fn main() {}
