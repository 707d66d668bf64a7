//! An attach to write, to a file that lacks pages.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use crate::file::create::{RingOptions, create};
use crate::file::location::Location;
use crate::file::trust::Trust;
use crate::map::consumer_mapping::{ConsumerMapping, Lines};
use crate::map::recover::recover;
use crate::map::shared_window::SharedWindow;
use crate::map::write_window::WriteWindow;
use perfring_abi::Producers;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_process_that_attaches_to_write_fills_the_holes_of_a_sparse_copy() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("ring");
    let attach: [(Producers, fn(Location)); 4] = [
        (Producers::One, |at| drop(WriteWindow::attach(at, Trust::Auto).unwrap())),
        (Producers::Many, |at| drop(SharedWindow::attach(at, "", Trust::Auto).unwrap())),
        (Producers::One, |at| {
            drop(ConsumerMapping::attach(at, "", Lines::default(), Trust::Auto).unwrap())
        }),
        (Producers::Many, |at| drop(recover(at).unwrap())),
    ];
    for (nth, (producers, attach)) in attach.into_iter().enumerate() {
        let _ = std::fs::remove_file(&path);
        create(&path, &RingOptions { producers, ..RingOptions::default() }).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let size = file.metadata().unwrap().len();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, 8192, size - 8192).unwrap();
        let allocated = || file.metadata().unwrap().blocks() * 512;
        assert!(allocated() < size, "{nth}: it has holes");
        attach(Location::from(&path));
        assert_eq!(allocated(), size, "{nth}");
    }
}
