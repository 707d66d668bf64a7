//! A sleeper whose waker died: another process wakes it.

use crate::file::create::{RingOptions, create};
use crate::file::open::RingFile;
use crate::file::trust::Trust;
use crate::map::plain::Plain;
use crate::map::recover::recover;
use crate::map::shared_window::SharedWindow;
use crate::map::write_window::WriteWindow;
use perfring_ring::Refusal;
use perfring_testkit::wait::{WATCHDOG, sleeps, until};
use rustix::thread::Timespec;
use rustix::thread::futex;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// A thread that sleeps as a consumer does whose flag another process has taken. Returns whether
/// it was woken.
fn is_roused(ring: &Path, by: impl FnOnce()) -> bool {
    let map = Plain::map(&RingFile::inspect(ring).unwrap()).unwrap();
    let thread = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            thread.store(id, Ordering::Relaxed);
            let (ring, limit) = (map.ring(), Timespec::try_from(WATCHDOG).unwrap());
            futex::wait(ring.wait_word(), futex::Flags::empty(), 0, Some(&limit)).is_ok()
        });
        until("it sleeps", || sleeps(thread.load(Ordering::Relaxed)));
        by();
        sleeper.join().unwrap()
    })
}

#[test]
fn a_sleeper_whose_waker_died_is_roused_by_who_attaches_recovers_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [one, many] = ["one", "many"].map(|name| dir.path().join(name));
    create(&one, &RingOptions::default()).unwrap();
    create(&many, &RingOptions::many()).unwrap();
    let mut writer = None;
    assert!(is_roused(&one, || writer = WriteWindow::attach(&one, Trust::Auto).ok()), "attach");
    let mut writer = writer.unwrap();
    assert!(is_roused(&one, || writer.refuse(Refusal::Full, 8)), "the first refusal");
    let mut window = None;
    assert!(
        is_roused(&many, || window = SharedWindow::attach(&many, "", Trust::Auto).ok()),
        "attach"
    );
    let window = window.unwrap();
    assert!(is_roused(&many, || window.refuse(Refusal::Full, 8)), "the first refusal");
    assert!(is_roused(&many, || drop(recover(&many).unwrap())), "recovery");
}
