//! Wakes, ends and deaths under a runtime.

use futures_util::{FutureExt, StreamExt};
use perfring_abi::FIELDS;
use perfring_consumer::{Policy, Start};
use perfring_producer::{Options, Producer, files::create};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::{NUMBERED, number_of, numbered, ring_dir, skip};
use perfring_tokio::{Consumer, Error, Item, Observer, OwnedItem, PollBy};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

fn field(ring: &File, name: &str) -> u32 {
    let field = FIELDS.iter().find(|field| field.name == name).expect("a field of that name");
    let mut bytes = [0; 4];
    ring.read_exact_at(&mut bytes, field.offset as u64).expect("a header");
    u32::from_ne_bytes(bytes)
}

/// By each method that this machine allows.
fn consumers(path: &Path) -> Vec<PollBy> {
    let attach = |by| Consumer::new(perfring_consumer::Consumer::attach(path).unwrap(), by);
    // One after the other: a consumer is the only one.
    let ring = attach(PollBy::IoUring).is_ok();
    let thread = attach(PollBy::Thread).is_ok();
    assert!(thread);
    if !ring {
        skip("descriptors by io_uring are not to be had here");
    }
    [(PollBy::IoUring, ring), (PollBy::Thread, thread)]
        .into_iter()
        .filter_map(|(by, had)| had.then_some(by))
        .collect()
}

#[tokio::test]
async fn a_task_is_woken_for_every_record_and_sleeps_in_between() {
    const ROUNDS: u64 = 500;
    let dir = ring_dir();
    let path = dir.path().join("ring");
    create(&path, &Options::default()).unwrap();
    let ring = File::open(&path).unwrap();
    let mut number = 0;
    for by in consumers(&path) {
        let before = field(&ring, "wait_seq");
        let mut producer = Producer::attach(&path).unwrap();
        let consumer = perfring_consumer::Consumer::attach(&path).unwrap();
        let mut consumer = Consumer::new(consumer, by).unwrap();
        for _ in 0..ROUNDS {
            // Until it sleeps, by its own word in the ring; the last wake may still be pending.
            while consumer.ready().now_or_never().is_some() || field(&ring, "wait_armed") == 0 {
                tokio::task::yield_now().await;
            }
            producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
            let Some(Item::Record(record)) = consumer.read().await.unwrap() else { panic!() };
            assert_eq!(number_of(record.bytes), number);
            number += 1;
        }
        let wakes = u64::from(field(&ring, "wait_seq") - before);
        println!("{by:?}: {ROUNDS} records, {wakes} wakes");
        assert_eq!(wakes, ROUNDS);
        while consumer.ready().now_or_never().is_some() || field(&ring, "wait_armed") == 0 {
            tokio::task::yield_now().await;
        }
        drop(consumer);
        assert_eq!(field(&ring, "wait_armed"), 0, "no detached consumer is woken");
    }
}

#[tokio::test]
async fn a_waiting_consumer_can_be_set_to_end_with_its_producer() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    create(&path, &Options::default()).unwrap();
    for by in consumers(&path) {
        let consumer = perfring_consumer::Consumer::attach(&path).unwrap();
        let mut consumer = Consumer::new(consumer, by).unwrap();
        assert!(consumer.ready().now_or_never().is_none(), "it waits for a producer");
        let mut consumer = consumer.end_with_producer(Duration::from_millis(1));
        let end = tokio::time::timeout(WATCHDOG, consumer.ready()).await;
        assert!(!end.expect("it polls, and does not wait for a producer").unwrap(), "{by:?}");
    }
}

#[tokio::test]
async fn what_is_done_with_the_consumer_itself_does_not_disarm_the_task() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    assert!(consumer.ready().now_or_never().is_none());
    // A blocking sleep takes back what was armed.
    assert!(!consumer.get_mut().wait(Duration::from_millis(1)));
    let waiting = tokio::spawn(async move { consumer.ready().await.unwrap() });
    tokio::task::yield_now().await;
    producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
    assert!(tokio::time::timeout(WATCHDOG, waiting).await.expect("a wake").unwrap());
}

#[tokio::test]
async fn thousands_of_idle_rings_cost_nothing_and_each_is_heard() {
    const RINGS: u64 = 1000;
    let dir = ring_dir();
    // 4 KiB of data: fourteen megabytes in all.
    let small = Options { size: 4096, types_size: 0, ..Options::default() };
    let open = rustix_limit();
    if open < RINGS * 4 {
        return skip(&format!("a thousand rings need more than {open} descriptors: ulimit -n"));
    }
    let (reported, mut news) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..RINGS {
        let path = dir.path().join(number.to_string());
        create(&path, &small).unwrap();
        let (reported, mut consumer) = (reported.clone(), Consumer::attach(&path).unwrap());
        tokio::spawn(async move {
            while let Some(item) = consumer.read().await.unwrap() {
                let Item::Record(record) = item else { panic!("a loss") };
                reported.send(number_of(record.bytes)).unwrap();
            }
        });
    }
    // Every task has armed its own.
    for number in 0..RINGS {
        let ring = File::open(dir.path().join(number.to_string())).unwrap();
        while field(&ring, "wait_armed") == 0 {
            tokio::task::yield_now().await;
        }
    }
    let spent = processor_time();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let idle = processor_time() - spent;
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    for number in (0..RINGS).map(|n| n * 7 % RINGS) {
        let path = dir.path().join(number.to_string());
        Producer::attach(&path).unwrap().publish_as(NUMBERED, &numbered(number, 8)).unwrap();
        assert_eq!(news.recv().await, Some(number));
    }
    println!("{RINGS} rings, {threads} threads (the tests' among them), {idle:?} in 200 ms idle");
    assert!(threads < 40);
}

fn processor_time() -> Duration {
    // Of this thread, which is all that the runtime has; ns in the first field.
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// How many descriptors this process may have.
fn rustix_limit() -> u64 {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(u64::MAX)
}

#[tokio::test]
async fn a_killed_producer_ends_those_that_end_with_it() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    // Of this kind a consumer takes nothing from an observer.
    create(&path, &Options { policy: Policy::Overwrite, ..Options::default() }).unwrap();
    // This very test binary is the producer.
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "alive::a_producer", "--ignored", "--nocapture"])
        .env("PERFRING_RING", &path)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while lines.next_line().await.unwrap().unwrap() != "published" {}
    let consumer = Consumer::attach(&path).unwrap().end_with_producer(Duration::from_millis(5));
    let observer = Observer::attach(&path, Start::Oldest).unwrap().end_with_producer();
    let read = tokio::spawn(consumer.map(Result::unwrap).collect::<Vec<OwnedItem>>());
    let seen = tokio::spawn(observer.map(Result::unwrap).collect::<Vec<OwnedItem>>());
    tokio::task::yield_now().await;
    child.kill().await.unwrap();
    let numbers = |items: Vec<OwnedItem>| -> Vec<u64> {
        let number = |item: OwnedItem| match item {
            OwnedItem::Record(record) => number_of(record.bytes()),
            OwnedItem::Lost(lost) => panic!("{lost:?}"),
        };
        items.into_iter().map(number).collect()
    };
    assert_eq!(numbers(read.await.unwrap()), [0, 1, 2]);
    assert_eq!(numbers(seen.await.unwrap()), [0, 1, 2]);
}

/// Not a test: the producer that the test above kills.
#[test]
#[ignore = "a process of the test above"]
fn a_producer() {
    let Some(path) = std::env::var_os("PERFRING_RING") else { return };
    let mut producer = Producer::attach(Path::new(&path)).unwrap();
    for number in 0..3 {
        producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
    }
    println!("\npublished");
    std::thread::park();
}

#[tokio::test]
async fn damage_is_an_error_and_the_end_of_a_stream() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let offset = consumer.get_ref().layout().areas().data.start;
    file.write_all_at(&[0xff; 8], offset).unwrap();
    assert!(matches!(consumer.read().await, Err(Error::Read(_))));
    assert!(matches!(consumer.next().await, Some(Err(Error::Read(_)))));
    assert!(consumer.next().await.is_none());
}

#[tokio::test]
async fn a_busy_ring_lets_other_tasks_run() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let mut producer = Producer::create(&path, &Options::default()).unwrap();
    for number in 0..10_000 {
        producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
    }
    let other = tokio::spawn(async {});
    let mut consumer = Consumer::attach(&path).unwrap();
    for _ in 0..10_000 {
        assert!(consumer.read().await.unwrap().is_some());
        if other.is_finished() {
            return;
        }
    }
    panic!("ten thousand records, and no other task had its turn");
}

#[test]
fn without_a_runtime_it_says_so() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    create(&path, &Options::default()).unwrap();
    let error = Consumer::attach(&path).unwrap_err();
    assert!(matches!(error, Error::Runtime(_)), "{error}");
    println!("{error}");
}
