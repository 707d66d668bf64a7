use perfring_types::Record;
use rkyv::{Archive, Serialize};

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Line {
    ids: Vec<u128>,
}

fn main() {}
