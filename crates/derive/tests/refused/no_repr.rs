use perfring_types::Record;

#[derive(Clone, Copy, Record)]
struct Tick {
    price: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
struct Generic<T> {
    price: T,
}

fn main() {}
