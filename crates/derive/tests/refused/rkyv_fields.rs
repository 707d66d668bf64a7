use perfring_types::Record;
use rkyv::{Archive, Serialize};

#[derive(Archive, Serialize)]
struct Inner {
    a: u32,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Line {
    inner: Vec<Inner>,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
enum Event {
    Opened(u32),
    Closed,
}

fn main() {}
