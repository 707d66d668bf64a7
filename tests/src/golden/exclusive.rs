//! The golden files of exclusive rings.

use super::account::{Golden, Kind, SMALL, options, text};
use super::script::Script;
use perfring_abi::{Evict, Policy, Report};
use perfring_producer::{Options, ReserveError};
use perfring_testkit::image::{at, word};

/// Makes all of them.
pub(super) fn all() -> Vec<Golden> {
    vec![
        empty(),
        drop_few(),
        drop_wrapped_with_losses(),
        drop_counters_only(),
        drop_max_record(),
        overwrite_wrapped(),
        overwrite_half(),
        overwrite_lapped_consumer(),
        killed_long_after_book(),
        timed_drop(),
        named_drop(),
    ]
}

fn empty() -> Golden {
    Script::new("A new ring that nobody has attached to.", options(Policy::Drop)).end("empty")
}

fn drop_few() -> Golden {
    let what = "A few records of several types, one of them empty, all unread.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    script.publish(5000, b"one");
    script.publish(5001, b"two words");
    script.publish(4096, b"");
    script.publish(9, b"\x04\x00\x00\x00raw!");
    script.publish(0xffff_ffff, b"12345678");
    script.publish(4096, &text(5, 1000));
    script.end("drop_few")
}

fn named_drop() -> Golden {
    let what = "A ring with seats for three named consumers, none of which has come yet: it is full, and a \
                record was refused.";
    let options = Options { consumers: 3, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    for n in 0..3 {
        script.publish(4096, &text(n, 1000));
    }
    script.refused(2000, ReserveError::Full);
    script.publish(5000, b"small enough");
    script.end("named_drop")
}

fn timed_drop() -> Golden {
    let what = "A ring with time: records of several lengths, a hole and a loss; the consumer has \
                read one. The wall clock was set an hour ahead before position 100.";
    let options = Options { time: true, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    script.publish(5000, b"one");
    script.publish(5001, b"two words");
    script.publish(4096, b"");
    script.consume(1);
    script.discard(20);
    script.refused(4080 - 7, ReserveError::TooLarge { len: 4080 - 7, max: 4080 - 8 });
    script.publish(9, b"\x04\x00\x00\x00raw!");
    script.publish(4096, &text(5, 1000));
    script.end("timed_drop")
}

fn drop_wrapped_with_losses() -> Golden {
    let what = "A drop ring, wrapped: the consumer has read some, a reservation was given back, records \
                were refused for want of space and for their size and are told in the stream.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    for n in 0..3 {
        script.publish(4096, &text(n, 1000));
    }
    script.consume(2);
    script.discard(500);
    script.publish(4096, &text(3, 900));
    script.refused(2000, ReserveError::Full);
    script.refused(1999, ReserveError::Full);
    let max = script.producer().max_len();
    script.refused(max + 1, ReserveError::TooLarge { len: max + 1, max });
    script.consume(1);
    script.publish(4096, &text(4, 700));
    script.publish(4096, &text(5, 33));
    assert!(script.head > SMALL && script.lost_markers == 2);
    script.end("drop_wrapped_with_losses")
}

fn drop_counters_only() -> Golden {
    let what = "A drop ring that tells its losses in the counters alone.";
    let options = Options { report: Report::CountersOnly, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    script.publish(4096, &text(0, 3000));
    script.refused(2000, ReserveError::Full);
    let max = script.producer().max_len();
    script.refused(9000, ReserveError::TooLarge { len: 9000, max });
    script.publish(4096, &text(1, 500));
    script.end("drop_counters_only")
}

fn drop_max_record() -> Golden {
    let what =
        "The largest record that there is, in a ring of 64 KiB that it fills but for one word.";
    let options = Options { size: 64 << 10, ..options(Policy::Drop) };
    let mut script = Script::new(what, options).with_producer();
    assert_eq!(script.producer().max_len(), 65_520);
    script.publish(4096, &text(0, 65_520));
    script.end("drop_max_record")
}

fn overwrite_wrapped() -> Golden {
    let what = "An overwrite ring that went round several times, with exact eviction.";
    let mut script = Script::new(what, options(Policy::Overwrite)).with_producer();
    script.publish_until(3 * SMALL, [100, 7, 333]);
    script.discard(64);
    script.publish_until(4 * SMALL + 1000, [1, 250, 40]);
    script.end("overwrite_wrapped")
}

fn overwrite_half() -> Golden {
    let what = "An overwrite ring that went round several times, with eviction by halves.";
    let options = Options { evict: Evict::Half, ..options(Policy::Overwrite) };
    let mut script = Script::new(what, options).with_producer();
    script.publish_until(4 * SMALL + 1000, [100, 7, 333]);
    script.producer = None;
    let file = script.bytes();
    // The one thing that is read from the file: the boundary that the producer chose.
    script.tail = word(&file, "data_tail");
    assert!(script.items.iter().any(|item| item.pos == script.tail), "a record begins there");
    assert!(script.head - script.tail >= SMALL * 3 / 8);
    script.take("overwrite_half", file)
}

fn overwrite_lapped_consumer() -> Golden {
    let what = "An overwrite ring whose consumer saved its place and was then lapped.";
    let mut script = Script::new(what, options(Policy::Overwrite)).with_producer();
    script.publish_until(2000, [100, 7, 333]);
    script.consume(5);
    script.publish_until(2 * SMALL, [100, 7, 333]);
    assert!(script.tail > script.consumed);
    script.end("overwrite_lapped_consumer")
}

fn killed_long_after_book() -> Golden {
    let what = "Killed some records after the last book: what stands behind it, losses and a hole among it, \
                is counted by walking.";
    let mut script = Script::new(what, options(Policy::Drop)).with_producer();
    for n in 0..3 {
        script.publish(4096, &text(n, 1000));
    }
    let max = script.producer().max_len();
    script.refused(max + 1, ReserveError::TooLarge { len: max + 1, max });
    script.refused(2000, ReserveError::Full);
    script.consume(2);
    script.publish(5000, b"after the losses");
    script.discard(64);
    script.publish(5000, b"the last");
    let file = script.bytes();
    let copies = at("producer_totals");
    let newest = [copies.start, copies.start + copies.len() / 2]
        .map(|copy| u64::from_ne_bytes(file[copy + 8..copy + 16].try_into().unwrap()));
    let lost = script.items.iter().find(|item| matches!(item.kind, Kind::Lost { .. })).unwrap();
    assert!(newest.iter().all(|&pos| pos <= lost.pos), "the totals are older than the losses");
    script.take("killed_long_after_book", file)
}
