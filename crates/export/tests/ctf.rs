//! What babeltrace2 sees.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::shapes::{full_ring, lapped_ring};
use perfring_export::{Ctf, CtfOptions};

#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let path = std::path::PathBuf::from("/tmp/formats-ctf");
    let mut out = Ctf::open("t", &CtfOptions { path: path.clone(), overwrite: true }).unwrap();
    let full = full_ring(&dir.path().join("full"), 1);
    println!("{:?} {}", full.losses(), full.items.len());
    full.export(&mut out);
    let lapped = lapped_ring(&dir.path().join("lapped"), 2);
    println!("{:?} {}", lapped.losses(), lapped.items.len());
    lapped.export(&mut out);
    common::close(out);
}
