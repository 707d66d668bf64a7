use perfring_types::Record;

#[repr(C)]
#[derive(Clone, Copy, Record)]
#[record(units = "By")]
struct Unknown {
    price: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
struct UnknownOfField {
    #[record(units = "By")]
    price: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
#[record(class = "counter")]
struct NoClass {
    price: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
#[record(version = 70000)]
struct Version {
    price: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
struct Twice {
    #[record(name = "b")]
    a: u64,
    b: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Record)]
struct Both {
    #[record(text, hex)]
    a: [u8; 8],
}

fn main() {}
