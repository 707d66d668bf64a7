use perfring_types::Record;
use rkyv::{Archive, Serialize};

#[derive(Archive, Serialize, Record)]
#[record(rkyv, id = 0x5046_0003)]
struct Hole {
    a: u32,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Generic<T> {
    a: T,
}

fn main() {}
