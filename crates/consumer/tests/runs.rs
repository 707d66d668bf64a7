//! Records in a row are the records that are there.

use perfring_consumer::{Consumer, Item, Observer, Start};
use perfring_producer::{Options, Producer, RecordType};
use perfring_testkit::rng::Rng;

type Seen = Vec<(u64, u32, Option<u64>, Vec<u8>)>;

/// Everything that an observer sees and that a consumer takes, in runs of at most `max`; and how many
/// records came in runs of more than one.
fn both(consumer: &mut Consumer, observer: &mut Observer, max: u64) -> (Seen, Seen, u64) {
    let (mut by_runs, mut one_by_one, mut in_rows) = (Seen::new(), Seen::new(), 0);
    // First, as the consumer gives the space back.
    while let Some(item) = observer.read().unwrap() {
        one_by_one.push(match item {
            Item::Record(record) => (record.pos, record.kind, record.time, record.bytes.to_vec()),
            Item::Lost(lost) => (lost.pos, 2, None, vec![]),
        });
    }
    loop {
        if let Some(run) = consumer.read_run(max) {
            assert!((1..=max).contains(&run.len()));
            assert_eq!(run.records().len() as u64, run.len());
            in_rows += if run.len() > 1 { run.len() } else { 0 };
            for record in run.records() {
                assert_eq!(record.kind, run.kind());
                by_runs.push((record.pos, record.kind, record.time, record.bytes.to_vec()));
            }
            continue;
        }
        match consumer.read().unwrap() {
            Some(Item::Record(record)) => {
                by_runs.push((record.pos, record.kind, record.time, record.bytes.to_vec()));
            }
            Some(Item::Lost(lost)) => by_runs.push((lost.pos, 2, None, vec![])),
            None => break,
        }
    }
    (by_runs, one_by_one, in_rows)
}

#[test]
fn runs_and_records_are_the_same_whatever_stands_between_them() {
    let dir = tempfile::tempdir().unwrap();
    for (nth, time) in [false, true].into_iter().cycle().take(40).enumerate() {
        let path = dir.path().join(nth.to_string());
        let options = Options { size: 4096, time, ..Options::default() };
        let mut producer = Producer::create(&path, &options).unwrap();
        let mut consumer = Consumer::attach(&path).unwrap();
        let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
        if nth % 4 < 2 {
            consumer.advanced().hold();
        }
        let mut rng = Rng::new(nth as u64 + 1);
        let mut number = |below| rng.below(below);
        let (mut in_rows, mut lost, mut read) = (0, 0, 0);
        for _ in 0..60 {
            let (kind, len) =
                (4096 + number(2) as u32, 8 * number(6) as usize + number(3) as usize);
            for n in 0..number(200) {
                let payload = vec![n as u8; len];
                match number(12) {
                    0 => drop(producer.reserve(RecordType::BYTES, len)), // a hole
                    1 => _ = producer.publish(b"another"),
                    _ => _ = producer.publish_as(RecordType::new(kind).unwrap(), &payload),
                }
            }
            let max = [1, 2, 7, u64::MAX][number(4) as usize];
            let (by_runs, one_by_one, rows) = both(&mut consumer, &mut observer, max);
            assert_eq!(by_runs, one_by_one);
            in_rows += rows;
            read += by_runs.iter().filter(|(_, kind, ..)| *kind != 2).count() as u64;
            lost += by_runs.iter().filter(|(_, kind, ..)| *kind == 2).count();
            let resume_point = consumer.resume_point();
            consumer.advanced().release_to(&resume_point);
            consumer.release();
            assert_eq!(consumer.read_count().records, read);
        }
        assert!(in_rows > 100 && lost > 0, "{in_rows} in rows, {lost} losses");
    }
}
