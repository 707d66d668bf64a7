use perfring_types::Record;

#[derive(Clone, Copy, Record)]
enum NoRepr {
    Buy,
    Sell,
}

#[repr(u8)]
#[derive(Clone, Copy, Record)]
enum WithData {
    Limit(u64),
    Market,
}

#[repr(u64)]
#[derive(Clone, Copy, Record)]
enum TooLarge {
    Last = u64::MAX,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
union Either {
    a: u32,
    b: f32,
}

fn main() {}
