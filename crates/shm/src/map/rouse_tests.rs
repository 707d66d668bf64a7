//! The processes that wake a sleeper: also one whose waker died.

use crate::file::create::{RingOptions, create};
use crate::file::open::RingFile;
use crate::file::trust::Trust;
use crate::map::plain::Plain;
use crate::map::recover::recover;
use crate::map::reservation::{ExclusiveSpace, Reserves};
use crate::map::shared_window::SharedWindow;
use crate::map::write_window::WriteWindow;
use perfring_abi::RecordType;
use perfring_ring::{End, Refusal, Wake, WakeAt};
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

struct One;

impl Reserves for One {
    type Space<'a> = ExclusiveSpace<'a>;
}

#[test]
fn a_discarded_reservation_wakes_as_its_end_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    create(&path, &RingOptions::default()).unwrap();
    let mut writer = WriteWindow::attach(&path, Trust::Auto).unwrap();
    for (wake, wanted, wakes) in [
        (Wake::No, WakeAt::Record, false),
        (Wake::Auto, WakeAt::Record, true),
        (Wake::Auto, WakeAt::Bytes(4096), false),
        (Wake::Force, WakeAt::Bytes(4096), true),
    ] {
        let ring = writer.attached.map.ring();
        assert!(ring.prepare_sleep(ring.head(), 0, wanted, || ()).is_some());
        let refused = |_: &mut WriteWindow, refusal| -> Result<NoWait, Refusal> { Err(refusal) };
        let end = End::Publish(wake);
        let open =
            writer.reserve::<One, [u8], _, _>(RecordType::BYTES, 8, end, |_| 0, refused).unwrap();
        open.discard();
        let armed = writer.attached.map.ring().header().wait.armed.load(Ordering::Relaxed);
        assert_eq!(armed == 0, wakes, "{wake:?} of a sleeper that wants {wanted:?}");
    }
}

type NoWait = fn(&mut WriteWindow, Refusal) -> Result<(), Refusal>;
