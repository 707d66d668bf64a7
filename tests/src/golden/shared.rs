//! The golden files of shared rings.

use super::account::{Golden, SMALL, options, text};
use super::members::Members;
use perfring_abi::Policy;
use perfring_producer::{Options, ReserveError};

/// Makes all of them.
pub(super) fn all() -> Vec<Golden> {
    vec![shared_drop(), shared_overwrite_lapped(), shared_killed_with_open(), timed_shared()]
}

fn shared_drop() -> Golden {
    let what = "A shared drop ring, wrapped: records of three producers, reservations given back, and \
                committed shorter, a batch, and losses of every cause, each told by its producer.";
    let mut ring = Members::new(what, Policy::Drop);
    let [a, b, c] = ring.attach();
    ring.publish(&a, 5000, b"a publishes");
    ring.publish(&b, 5001, b"b publishes");
    let open = ring.reserve(&c, 100);
    ring.publish(&a, 5000, b"a publishes behind c");
    let shorter = ring.reserve(&b, 200);
    ring.commit(&b, shorter, b"shorter");
    ring.discard(&c, open);
    ring.batch(&a, &[text(0, 30), text(1, 8), text(2, 0)], 48);
    ring.publish(&c, 4096, &text(3, 1000));
    // The lock, held by a producer that is stopped.
    ring.set("shared_lock", 1 | 1 << 16);
    ring.refused(&b, 10, ReserveError::Contended { slot: 0 });
    ring.set("shared_lock", 0);
    let max = c.max_len();
    ring.refused(&c, max + 1, ReserveError::TooLarge { len: max + 1, max });
    ring.publish(&a, 4096, &text(4, 2000));
    ring.refused(&b, 1000, ReserveError::Full);
    ring.refused(&b, 1001, ReserveError::Full);
    ring.consume(8);
    ring.publish(&b, 5001, b"b tells two causes");
    // The consumer has read all that it may, and a reservation holds up the rest.
    ring.consume(4);
    let open = ring.reserve(&c, 3000);
    ring.consume(1); // the loss that it reported
    ring.refused(&a, 2000, ReserveError::Pending { slot: 2 });
    ring.commit(&c, open, &text(5, 600));
    ring.consume(1);
    ring.publish(&a, 5000, b"a tells that c was in the way");
    ring.publish(&c, 5002, b"the last");
    assert!(ring.end() > SMALL);
    ring.take("shared_drop", ring.bytes())
}

fn timed_shared() -> Golden {
    let what = "A shared ring with time: two producers in turns, a record that was committed shorter, one \
                that was given back, and a batch. The wall clock was set an hour ahead before \
                position 100.";
    let options = Options { time: true, ..options(Policy::Overwrite) };
    let mut ring = Members::with(what, options);
    let [one, two] = ring.attach();
    ring.publish(&one, 5000, b"one");
    ring.publish(&two, 5001, b"two words");
    let shorter = ring.reserve(&one, 100);
    let given_back = ring.reserve(&two, 40);
    ring.publish(&two, 4096, b"");
    ring.commit(&one, shorter, b"shorter");
    ring.discard(&two, given_back);
    ring.batch(&one, &[text(7, 40), text(8, 9), text(9, 0)], 24);
    ring.publish(&two, 4096, b"last");
    drop((one, two));
    let file = ring.bytes();
    ring.take("timed_shared", file)
}

fn shared_overwrite_lapped() -> Golden {
    let what = "A shared overwrite ring that went round several times. Its consumer saved its place and \
                was then lapped; an open reservation was in the way once, and that is told.";
    let mut ring = Members::new(what, Policy::Overwrite);
    let [a, b, c] = ring.attach();
    let publish_until = |ring: &mut Members, pos: u64| {
        let mut n = ring.items.len();
        while ring.end() < pos {
            let producer = [&a, &b, &c][n % 3];
            ring.publish(producer, 5000 + n as u32 % 3, &text(n, [100, 7, 333, 40][n % 4]));
            n += 1;
        }
    };
    publish_until(&mut ring, 2000);
    ring.consume(5);
    publish_until(&mut ring, 2 * SMALL);
    let open = ring.reserve(&b, 700);
    publish_until(&mut ring, 2 * SMALL + 2000);
    ring.refused(&a, 3500, ReserveError::Pending { slot: 1 });
    ring.commit(&b, open, &text(0, 600));
    let given_back = ring.reserve(&c, 64);
    ring.discard(&c, given_back);
    ring.publish(&a, 5000, b"told");
    publish_until(&mut ring, 3 * SMALL);
    assert!(ring.tail > ring.consumed);
    ring.take("shared_overwrite_lapped", ring.bytes())
}

fn shared_killed_with_open() -> Golden {
    let what = "A producer of a shared ring was killed with a reservation open. What the others published \
                behind it is stranded until somebody recovers the ring.";
    let mut ring = Members::new(what, Policy::Drop);
    let [a, b, c] = ring.attach();
    ring.publish(&a, 5000, b"seen");
    ring.publish(&b, 5001, b"seen too");
    ring.consume(1);
    let open = ring.reserve(&a, 300);
    ring.publish(&b, 5001, b"stranded");
    let given_back = ring.reserve(&c, 40);
    ring.discard(&c, given_back);
    let max = b.max_len();
    ring.refused(&b, max + 1, ReserveError::TooLarge { len: max + 1, max });
    ring.publish(&b, 5001, b"stranded, and what it tells");
    ring.publish(&c, 5002, b"the last");
    let file = ring.bytes();
    drop(open);
    ring.take("shared_killed_with_open", file)
}
