//! The golden files of rings with an AUX area.

use super::account::{Golden, Kind, options, text};
use super::members::Members;
use super::script::Script;
use perfring_abi::Policy;
use perfring_producer::{Options, ReserveError};

/// The AUX area of all of them: the smallest size.
const AREA: u64 = 64 << 10;

/// Makes all of them.
pub(super) fn all() -> Vec<Golden> {
    vec![aux_drop(), aux_overwrite(), aux_shared()]
}

fn with_area(policy: Policy) -> Options {
    Options { aux_size: AREA, ..options(policy) }
}

fn aux_drop() -> Golden {
    let what = "A drop ring with an AUX area, which has gone round: short payloads in the data area and \
                long ones in the AUX area; the consumer has read some, and one was refused as the AUX \
                area was full, one as it is too long for it.";
    let mut script = Script::new(what, with_area(Policy::Drop)).with_producer();
    script.publish(5000, b"short");
    script.publish(5001, &text(1, 30_000));
    script.publish(5002, &text(2, 20_000));
    script.refused(20_001, ReserveError::Full);
    let max = AREA as usize;
    script.refused(max + 1, ReserveError::TooLarge { len: max + 1, max });
    script.consume(2);
    // Over the end of the area.
    script.publish(5001, &text(3, 25_001));
    script.publish(4096, b"short again");
    script.publish(5002, &text(4, 4081));
    assert!(script.aux.head > AREA && script.lost_markers == 2);
    script.end("aux_drop")
}

fn aux_overwrite() -> Golden {
    let what = "An overwrite ring with an AUX area, of which the oldest ranges were overwritten: their \
                records still stand, and are told as lapped. The consumer saved its place before them.";
    let mut script = Script::new(what, with_area(Policy::Overwrite)).with_producer();
    script.publish(5000, b"the first");
    script.consume(1);
    for n in 0..6 {
        script.publish(5001, &text(n, 20_000 + 1000 * n));
        script.publish(5000, &text(n, 10));
    }
    let gone = script.items.iter().filter(|item| matches!(item.kind, Kind::Gone)).count();
    assert!(gone > 0 && gone < 6 && script.tail == 0);
    script.end("aux_overwrite")
}

fn aux_shared() -> Golden {
    let what = "A shared drop ring with an AUX area: a producer was killed with a range open, and another \
                published behind it; a range was committed shorter.";
    let mut ring = Members::with(what, with_area(Policy::Drop));
    let [a, b] = ring.attach();
    ring.publish(&a, 5000, &text(0, 10_000));
    let shorter = ring.reserve(&b, 9000);
    ring.commit(&b, shorter, &text(1, 100));
    ring.consume(1);
    let open = ring.reserve(&a, 20_000);
    ring.publish(&b, 5001, &text(2, 12_345));
    ring.refused(&b, 30_000, ReserveError::Full);
    ring.publish(&b, 5001, b"stranded");
    let file = ring.bytes();
    drop(open);
    ring.take("aux_shared", file)
}
