//! What perf sees: read by the real `perf script` and `perf report`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::shapes::{full_ring, lapped_ring};
use perfring_export::{PerfData, PerfDataOptions};

#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let mut out =
        PerfData::open("t", &PerfDataOptions { path: path.clone(), overwrite: false }).unwrap();
    let full = full_ring(&dir.path().join("full"), 1);
    println!("{:?} {}", full.losses(), full.items.len());
    full.export(&mut out);
    let lapped = lapped_ring(&dir.path().join("lapped"), 2);
    println!("{:?} {}", lapped.losses(), lapped.items.len());
    lapped.export(&mut out);
    common::close(out);
    std::fs::copy(path, "/tmp/formats.perf.data").unwrap();
}
