//! What pyarrow reads.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::shapes::{full_ring, lapped_ring};
use perfring_export::{Parquet, ParquetOptions};

#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let path = std::path::PathBuf::from("/tmp/formats-pq");
    let mut out = Parquet::open("t", &ParquetOptions { overwrite: true, ..ParquetOptions::new(&path) }).unwrap();
    let full = full_ring(&dir.path().join("full"), 1);
    full.export(&mut out);
    let lapped = lapped_ring(&dir.path().join("lapped"), 2);
    lapped.export(&mut out);
    common::close(out);
}
