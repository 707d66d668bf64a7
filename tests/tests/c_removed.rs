//! A C reader of a ring that is removed, or replaced, while it waits.

use perfring_consumer::Policy;
use perfring_producer::{Options, Producer};
use perfring_tests::foreign::{Build, Peer, c_peer};
use perfring_tests::{NUMBERED, numbered, ring_dir};
use std::fs;

/// A reader that waits on a removed ring gets an error after the last record.
#[test]
fn a_c_reader_is_told_that_its_ring_was_removed_or_replaced() {
    const COUNT: u64 = 100;
    let options = |policy| Options { size: 1 << 14, policy, ..Options::default() };
    let dir = ring_dir();
    let exe = c_peer(Build::C11, dir.path()).expect("a C compiler: install gcc");
    for (how, replaced, policy) in [
        ("read", false, Policy::Drop),
        ("read", true, Policy::Overwrite),
        ("poll", true, Policy::Drop),
        ("observe", false, Policy::Drop),
    ] {
        let [ring, other] = [how, "other"].map(|name| dir.path().join(name));
        let _ = fs::remove_file(&ring);
        let mut producer = Producer::create(&ring, &options(policy)).unwrap();
        let mut c = Peer::start(&exe, &["outlive", how], &ring);
        assert_eq!(c.line(), "ready");
        producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
        assert_eq!(c.line(), "reads");
        // A ring that is only renamed continues to be read.
        let moved = dir.path().join("moved");
        fs::rename(&ring, &moved).unwrap();
        assert_eq!([c.line(), c.line()], ["checked", "checked"]);
        producer.publish_as(NUMBERED, &numbered(1, 8)).unwrap();
        fs::rename(&moved, &ring).unwrap();
        // It finds that out only once all of this is done, however busy the machine is.
        c.while_stopped(|| {
            if replaced {
                // Its file has another name still.
                fs::hard_link(&ring, dir.path().join(format!("{how}-kept"))).unwrap();
                perfring_producer::files::create(&other, &options(policy)).unwrap();
                fs::rename(&other, &ring).unwrap();
            } else {
                fs::remove_file(&ring).unwrap();
            }
            // Later records are also read.
            for number in 2..COUNT {
                producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
            }
        });
        let said = c.end();
        let removed = format!("{COUNT} -18 the ring's file was removed or replaced");
        assert!(said.starts_with(&removed), "{how}: {said}");
    }
}
