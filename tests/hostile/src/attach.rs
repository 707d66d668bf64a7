//! Any bytes as a ring file, through every entry point: the layout check, consumer, observer,
//! snapshot, producers, recovery. Words change while they are attached, as a live process could
//! change them.

use crate::file::{self, RingFile, place};
use perfring_abi::{HeaderPage, Layout};
use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::types::read::TypeTable;
use perfring_consumer::{
    Consumer, ConsumerOptions, Item, Observer, ObserverOptions, Snapshot, Start, WaitStrategy,
    WakeAt,
    advanced::{Lines, Saved},
    files::{RingFile as Look, SeatId, recover},
    stat::Stat,
};
use perfring_producer::{Producer, RecordType, SharedProducer};
use perfring_testkit::choices::{Choices, Input};
use std::time::Duration;

#[derive(Default)]
struct Sides {
    consumer: Option<Consumer>,
    observer: Option<Observer>,
    producer: Option<Producer>,
    shared: Vec<SharedProducer>,
    resume_points: Vec<ResumePoint>,
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (bytes, len) = file::image(&mut input);
    check(&bytes, len);
    file::with(&bytes, len, |ring| {
        let mut sides = Sides::default();
        sides.open_all(ring, &mut input);
        while !input.is_empty() {
            if input.u8().is_multiple_of(3) {
                let at = place(&mut input, &bytes);
                ring.store(at, input.number(ring.load(at), 4096));
            } else {
                sides.step(ring, &mut input);
            }
        }
        sides.end();
    });
}

/// Checks that a header's fields are consistent with each other and with the file.
fn check(bytes: &[u8], len: u64) {
    let Ok(page) = HeaderPage::from_bytes(bytes) else { return };
    match Layout::check(&page, len) {
        Ok(layout) => {
            assert!(layout.file_size() <= len && layout.data_size.is_power_of_two());
            assert!(layout.areas().data.start + layout.data_size <= layout.areas().control.start);
            let again = Layout::check(
                &{
                    let mut page = layout.to_page();
                    page.set_magic(perfring_abi::MAGIC);
                    page
                },
                len,
            );
            assert_eq!(again, Ok(layout));
        }
        Err(bad) => assert!(!bad.to_string().is_empty()),
    }
}

/// Reads all bytes of an item: they are mapped.
fn touch(item: &Item<'_>) -> u64 {
    match item {
        Item::Record(record) => {
            assert!(record.bytes.len() <= 65_520);
            record.bytes.iter().map(|byte| u64::from(*byte)).sum()
        }
        Item::Lost(lost) => lost.records,
    }
}

fn sentence<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

impl Sides {
    /// Tries the entry points that the input selects.
    fn open_all(&mut self, ring: &RingFile, input: &mut Input<'_>) {
        let entries = input.u8();
        for entry in 0..8 {
            if entries >> entry & 1 == 1 {
                self.open(entry, ring, input);
            }
        }
    }

    fn open(&mut self, entry: u8, ring: &RingFile, input: &mut Input<'_>) {
        let path = ring.path();
        match entry % 8 {
            0 => {
                self.consumer = None;
                let byte = input.u8();
                let lines = if byte.is_multiple_of(2) { Lines::Leave } else { Lines::default() };
                let wakes = [WakeAt::Record, WakeAt::Records(u64::MAX), WakeAt::Bytes(u64::MAX)];
                let options = ConsumerOptions {
                    lines,
                    wake_at: wakes[usize::from(byte / 2) % 3],
                    wait: WaitStrategy::Latency,
                    ..ConsumerOptions::named("fuzz")
                };
                self.consumer = sentence(Consumer::attach_with(path, &options));
                self.resume_points.clear();
            }
            1 => {
                let saved = Saved { pos: input.number(0, 4096), ..Saved::default() };
                let start = input.one(&[Start::Oldest, Start::Latest, Start::At(saved)]);
                let options = ObserverOptions {
                    start,
                    wait: WaitStrategy::Latency,
                    ..ObserverOptions::default()
                };
                self.observer = sentence(Observer::attach_with(path, &options));
            }
            2 => {
                self.producer = None;
                self.producer = sentence(Producer::attach_as(path, "fuzz"));
            }
            3 => {
                if self.shared.len() < 3 {
                    self.shared.extend(sentence(SharedProducer::attach_as(path, "fuzz")));
                } else {
                    self.shared.clear();
                }
            }
            4 => {
                if let Some(snapshot) = sentence(Snapshot::take(path)) {
                    all_of(&snapshot);
                }
            }
            5 => {
                if let Some(stat) = sentence(Stat::read(path)) {
                    let _ = (stat.epoch(), stat.totals.map(|totals| totals.unreported()));
                }
            }
            6 => {
                let _ = sentence(recover(path));
            }
            _ => {
                let Some(peek) = sentence(Look::inspect(path)) else { return };
                let _ = (sentence(peek.is_in_use()), sentence(peek.totals()), peek.identity());
                let _ = sentence(peek.holder(SeatId::Consumer)).map(|who| who.name.len());
                let _ = sentence(peek.holder(SeatId::Producer(0)));
            }
        }
    }

    fn step(&mut self, ring: &RingFile, input: &mut Input<'_>) {
        let what = input.u8();
        match what % 8 {
            0 => self.open(what >> 3, ring, input),
            1 | 2 => self.consume(what >> 3, input),
            3 | 4 => self.observe(what >> 3),
            5 => self.produce(what >> 3, input),
            6 => self.share(what >> 3, input),
            _ => match what >> 3 & 3 {
                0 => self.consumer = None,
                1 => self.producer = None,
                2 => self.shared.truncate(usize::from(what >> 5) % 3),
                _ => self.observer = None,
            },
        }
    }

    fn consume(&mut self, how: u8, input: &mut Input<'_>) {
        let Some(consumer) = &mut self.consumer else { return };
        match how % 16 {
            0..3 => {
                if let Ok(Some(item)) = consumer.read() {
                    touch(&item);
                }
            }
            3 => {
                let (mut sum, mut most) = (0_u64, 1_u64 << 20);
                let _ = consumer.drain(|item| {
                    sum = sum.wrapping_add(touch(&item));
                    most -= 1;
                });
            }
            4 => {
                if let Some(run) = consumer.read_run(u64::from(input.u8()) + 1) {
                    assert!(run.bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>() < 1 << 40);
                    for record in run.records() {
                        touch(&Item::Record(record));
                    }
                }
            }
            5 => consumer.advanced().hold(),
            6 => self.resume_points.push(consumer.resume_point()),
            7 => {
                if let Some(resume_point) =
                    self.resume_points.get(input.of(self.resume_points.len()))
                {
                    consumer.advanced().release_to(resume_point);
                }
            }
            8 => {
                let _ = consumer.advanced().peek();
            }
            9 => {
                if let Ok(Some((item, _))) = consumer.advanced().take() {
                    touch(&item);
                }
            }
            10 => consumer.release(),
            11 => {
                if let Some(mut raw) = consumer.advanced().raw() {
                    let mut words = [0; 8];
                    let to = input.number(raw.cursor(), raw.ring().data_size());
                    raw.ring().copy(to, &mut words);
                    let _ = (raw.ring().word(to), raw.ring().head(), raw.ring().tail());
                    let _ = raw.advance(to);
                }
            }
            12 => {
                if let Ok(Some(pinned)) = consumer.pinned() {
                    if let Ok(Some(item)) = pinned.read() {
                        touch(&item);
                    }
                    let _ = pinned.count();
                    if input.u8().is_multiple_of(2) {
                        pinned.put_back();
                    }
                }
            }
            13 => {
                let types = consumer.types();
                let table = TypeTable::from_entries(types.entries());
                let _ = (table.len(), table.damage().len(), consumer.has_more_types(&types));
                let _ = consumer.anchors().wall(consumer.position(), input.u64());
            }
            14 => {
                if consumer.advanced().prepare_sleep().is_some() {
                    consumer.advanced().end_sleep();
                }
                let _ = consumer.wait(Duration::ZERO);
            }
            _ => {
                let _ = (consumer.advanced().tend(), consumer.fill(), consumer.has_producer());
                let _ = (consumer.read_count(), consumer.lapped());
            }
        }
    }

    fn observe(&mut self, how: u8) {
        let Some(observer) = &mut self.observer else { return };
        match how % 8 {
            0..3 => {
                if let Ok(Some(item)) = observer.read() {
                    touch(&item);
                }
            }
            3 => {
                let _ = (
                    observer.advanced().peek(),
                    observer.resume_point(),
                    observer.saved(),
                    observer.lapped(),
                );
            }
            4 => {
                if let Ok(Some((item, _))) = observer.advanced().take() {
                    touch(&item);
                }
            }
            5 => {
                if let Some(snapshot) = sentence(observer.snapshot()) {
                    all_of(&snapshot);
                }
            }
            6 => {
                let types = observer.types();
                let _ = (types.entries().count(), observer.has_more_types(&types));
                let _ = (observer.anchors(), observer.fill());
            }
            _ => {
                let _ = sentence(observer.stat());
            }
        }
    }

    fn produce(&mut self, how: u8, input: &mut Input<'_>) {
        let Some(producer) = &mut self.producer else { return };
        let len = usize::from(input.u16()) >> (how >> 3 & 3);
        let payload = &[0x5a; 1 << 16][..len];
        match how % 8 {
            0..3 => {
                let _ = sentence(producer.publish(payload));
            }
            3 => {
                if let Some(mut reserved) = sentence(producer.reserve(RecordType::BYTES, len)) {
                    reserved.fill(7);
                    if input.u8().is_multiple_of(2) {
                        reserved.commit_len(len / 2);
                    } else {
                        reserved.discard();
                    }
                }
            }
            4 => {
                let mut batch = producer.batch();
                for _ in 0..input.u8() % 8 {
                    let _ = batch.push(payload);
                }
                drop(batch);
            }
            5 => {
                let mut batch = producer.batch();
                for _ in 0..input.u8() % 8 {
                    let _ = sentence(batch.offer(RecordType::BYTES, payload));
                    let Ok(mut reserved) = batch.reserve(RecordType::BYTES, len % 64) else {
                        continue;
                    };
                    reserved.fill(input.u8());
                    reserved.commit();
                }
            }
            6 => register(input, |entry| sentence(producer.register_entry(entry))),
            _ => {
                let _ = (producer.totals(), producer.overwritten());
                let _ = sentence(producer.offer_timeout(RecordType::BYTES, len, Duration::ZERO));
            }
        }
    }

    fn share(&mut self, how: u8, input: &mut Input<'_>) {
        let which = input.of(self.shared.len());
        let Some(producer) = self.shared.get(which) else { return };
        let len = usize::from(input.u16()) >> (how >> 3 & 3);
        let payload = &[0x5a; 1 << 16][..len];
        match how % 8 {
            0..3 => {
                let _ = sentence(producer.publish(payload));
            }
            3 => {
                if let Some(mut reserved) = sentence(producer.reserve(RecordType::BYTES, len)) {
                    reserved.fill(7);
                    if input.u8().is_multiple_of(2) {
                        reserved.commit_len(len / 2);
                    } else {
                        reserved.discard();
                    }
                }
            }
            4 => {
                if let Some(mut batch) = sentence(producer.reserve_batch(len)) {
                    for _ in 0..input.u8() % 8 {
                        let _ = batch.push(&payload[..len % 64]);
                    }
                    drop(batch);
                }
            }
            5 => register(input, |entry| sentence(producer.register_entry(entry))),
            _ => {
                let _ = (producer.totals(), producer.slot());
            }
        }
    }

    /// Reads all that is left, which must be finite.
    fn end(&mut self) {
        let most = 1_u64 << 22;
        for at in 0.. {
            assert!(at < most, "an endless stream");
            let Some(consumer) = &mut self.consumer else { break };
            let Ok(Some(item)) = consumer.read() else { break };
            touch(&item);
        }
        for at in 0.. {
            assert!(at < most, "an endless stream");
            let Some(observer) = &mut self.observer else { break };
            let Ok(Some(item)) = observer.read() else { break };
            touch(&item);
        }
    }
}

fn register(
    input: &mut Input<'_>,
    with: impl FnOnce(&perfring_consumer::types::Entry<'_>) -> Option<()>,
) {
    let text = format!(r#"{{"name":"t{}","encoding":"json"}}"#, input.u8());
    if let Some(id) = RecordType::new(5000 + u32::from(input.u8() % 4)) {
        let _ =
            with(&perfring_consumer::types::Entry { id, layout: input.u8().into(), text: &text });
    }
}

fn all_of(snapshot: &Snapshot) {
    let span = snapshot.span();
    assert!(span.end - span.start < snapshot.layout().data_size);
    for item in snapshot {
        match item {
            Ok(item) => {
                touch(&item);
                if let Item::Record(record) = item {
                    let _ = record.wall(snapshot.anchors());
                }
            }
            Err(corrupt) => assert!(!corrupt.to_string().is_empty()),
        }
    }
    let _ = (snapshot.totals().unreported(), snapshot.types().entries().count());
}
