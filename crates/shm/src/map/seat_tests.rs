//! The seats of a ring, as a handle sees them.

use crate::file::create::{RingOptions, create};
use crate::file::open::{FileAccess, RingFile, SeatId};
use crate::map::consumer_mapping::{ConsumerMapping, Lines};
use crate::map::shared_window::SharedWindow;
use crate::map::write_window::WriteWindow;
use crate::sys::ofd_lock::ByteLock;
use crate::{Idle, Trust};
use perfring_ring::WakeAt;
use perfring_testkit::wait::until;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn a_handle_knows_that_it_holds_its_own_seat() {
    let dir = tempfile::tempdir().unwrap();
    let [one, many] = ["one", "many"].map(|name| dir.path().join(name));
    create(&one, &RingOptions::default()).unwrap();
    create(&many, &RingOptions::many()).unwrap();
    let held = |file: &RingFile, seat| file.is_held(seat).unwrap();
    let (producer, consumer) = (SeatId::Producer(0), SeatId::Consumer);

    let writer = WriteWindow::attach(&one, Trust::Auto).unwrap();
    let (file, other) = (writer.file().clone(), RingFile::inspect(&one).unwrap());
    assert!(held(&file, producer) && held(&other, producer));
    assert!(!held(&file, consumer) && !held(&other, consumer));
    assert!(file.is_in_use().unwrap());
    let reader = ConsumerMapping::attach(&one, "", Lines::Leave, Trust::Auto).unwrap();
    assert!(held(reader.file(), consumer) && held(reader.file(), producer));
    drop((writer, reader));
    assert!(!held(&file, producer) && !held(&other, consumer) && !file.is_in_use().unwrap());

    let shared = [0, 1].map(|_| SharedWindow::attach(&many, "", Trust::Auto).unwrap());
    assert!((0..3).all(|slot| held(shared[0].file(), SeatId::Producer(slot)) == (slot < 2)));
    drop(shared);
    let idle = Idle::hold(&many).unwrap();
    assert!(held(idle.file(), consumer) && held(idle.file(), SeatId::Producer(5)));
}

#[test]
fn the_type_table_s_lock_is_for_one_caller_of_a_window_and_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    create(&ring, &RingOptions::many()).unwrap();
    let [one, other] = [0, 1].map(|_| SharedWindow::attach(&ring, "", Trust::Auto).unwrap());
    let locked = one.lock_types().unwrap();
    assert!(locked.is_some());
    for window in [&one, &other] {
        assert!(window.lock_types().unwrap().is_none());
    }
    drop(locked);
    for window in [&other, &one] {
        assert!(window.lock_types().unwrap().is_some());
    }
}

#[test]
fn of_threads_that_lock_a_byte_of_one_file_at_once_one_has_it_at_the_most() {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    create(&ring, &RingOptions::default()).unwrap();
    let file = RingFile::open(ring.into(), FileAccess::Write).unwrap().file;
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    if let Some(lock) = ByteLock::take(&file, 7).unwrap() {
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                }
            });
        }
    });
    assert_eq!(most.into_inner(), 1);
}

#[test]
fn a_sleep_is_shorter_where_another_user_may_read() {
    let dir = tempfile::tempdir().unwrap();
    let tenth = Duration::from_millis(100);
    for (mode, exposed) in [(0o600, false), (0o620, false), (0o640, true), (0o604, true)] {
        let path = dir.path().join(format!("{mode:o}"));
        create(&path, &RingOptions { mode, ..RingOptions::default() }).unwrap();
        let mapping = ConsumerMapping::attach(&path, "", Lines::Leave, Trust::Auto).unwrap();
        let asked = || mapping.prepare_sleep(0, 0, WakeAt::Record, Duration::MAX).unwrap();
        if !asked().sure {
            println!("SKIPPED: membarrier(2) is forbidden: all sleeps are short");
            return;
        }
        if exposed {
            for _ in 0..100 {
                let ticket = asked();
                assert!(ticket.most <= tenth && ticket.exposed, "{mode:o}: {ticket:?}");
            }
        } else {
            // The second has more than a tenth left, most of the time.
            until("a long sleep", || asked().most > tenth);
        }
    }
}
