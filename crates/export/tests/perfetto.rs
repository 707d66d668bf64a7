//! What Perfetto sees: parsed by the messages that Perfetto's own Python package ships.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::shapes::{full_ring, lapped_ring};
use perfring_export::{Perfetto, PerfettoOptions};

#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.pftrace");
    let mut out =
        Perfetto::open("t", &PerfettoOptions { path: path.clone(), overwrite: false }).unwrap();
    let full = full_ring(&dir.path().join("full"), 1);
    println!("{:?} {}", full.losses(), full.items.len());
    full.export(&mut out);
    let lapped = lapped_ring(&dir.path().join("lapped"), 2);
    println!("{:?} {}", lapped.losses(), lapped.items.len());
    lapped.export(&mut out);
    common::close(out);
    println!("{}", std::fs::metadata(path).unwrap().len());
}
