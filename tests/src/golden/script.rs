//! An exclusive ring under construction.

use super::account::{
    Area, Count, Golden, Item, Kind, add_leads, anonymise, control, holder, layout, refused_size,
    shown, size_of, text, totals,
};
use perfring_abi::{Evict, Policy, RecordType, Report};
use perfring_consumer::{Consumer, ConsumerOptions};
use perfring_producer::{Options, Producer, ReserveError, files::create};
use perfring_testkit::image::{at, word};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A ring under construction: every step uses the real producer and consumer, and is noted.
pub(super) struct Script {
    what: &'static str,
    _dir: tempfile::TempDir,
    path: PathBuf,
    options: Options,
    pub(super) producer: Option<Producer>,
    consumer: Option<Consumer>,
    pub(super) items: Vec<Item>,
    /// `data_head` and `data_tail` as they must be.
    pub(super) head: u64,
    pub(super) tail: u64,
    discarded: Count,
    full: Count,
    too_large: Count,
    reported_full: Count,
    reported_too_large: Count,
    pub(super) lost_markers: u64,
    /// Position of the consumer's totals.
    pub(super) consumed: u64,
    read: Count,
    pub(super) aux: Area,
}

impl Script {
    pub(super) fn new(what: &'static str, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        create(&path, &options).unwrap();
        Script {
            what,
            _dir: dir,
            path,
            options,
            producer: None,
            consumer: None,
            items: Vec::new(),
            head: 0,
            tail: 0,
            discarded: Count::default(),
            full: Count::default(),
            too_large: Count::default(),
            reported_full: Count::default(),
            reported_too_large: Count::default(),
            lost_markers: 0,
            consumed: 0,
            read: Count::default(),
            aux: Area::default(),
        }
    }

    pub(super) fn with_producer(mut self) -> Self {
        self.producer = Some(Producer::attach_as(&self.path, "golden producer").unwrap());
        self
    }

    pub(super) fn producer(&mut self) -> &mut Producer {
        self.producer.as_mut().unwrap()
    }

    /// Notes an item at the head, and the records that an exact ring evicts for it.
    pub(super) fn stands(&mut self, size: u64, kind: Kind) {
        self.items.push(Item { pos: self.head, size, kind });
        self.head += size;
        if self.options.policy == Policy::Overwrite && self.options.evict == Evict::Exact {
            while self.head - self.tail >= self.options.size {
                self.tail = self.items.iter().find(|i| i.pos > self.tail).unwrap().pos;
            }
        }
    }

    /// Notes the markers that come before the next record that fits.
    fn report(&mut self) {
        if self.options.report == Report::CountersOnly {
            return;
        }
        for (cause, lost, reported) in [
            ("full", self.full, &mut self.reported_full),
            ("too_large", self.too_large, &mut self.reported_too_large),
        ] {
            let count = lost.since(*reported);
            *reported = lost;
            if count.records != 0 {
                self.lost_markers += 1;
                self.items.push(Item {
                    pos: self.head,
                    size: 32,
                    kind: Kind::Lost { cause, count },
                });
                self.head += 32;
            }
        }
    }

    pub(super) fn publish(&mut self, kind: u32, payload: &[u8]) {
        self.producer().publish_as(RecordType::new(kind).unwrap(), payload).unwrap();
        self.report();
        let size = size_of(&self.options, payload.len());
        self.stands(size, Kind::Record { kind, payload: payload.to_vec() });
        self.aux.reserved(&self.options, &mut self.items, payload.len());
    }

    /// Publishes until `head` is at or beyond `pos`, with payloads of varying lengths.
    pub(super) fn publish_until(&mut self, pos: u64, lens: [usize; 3]) {
        let mut n = self.items.len();
        while self.head < pos {
            self.publish(4096, &text(n, lens[n % 3]));
            n += 1;
        }
    }

    pub(super) fn discard(&mut self, len: usize) {
        drop(self.producer().reserve(RecordType::BYTES, len).unwrap());
        let size = size_of(&self.options, len);
        self.stands(size, Kind::Hole);
        self.discarded.add(size);
    }

    pub(super) fn refused(&mut self, len: usize, error: ReserveError) {
        let payload = vec![0; len];
        let refused = self.producer().publish(&payload);
        assert_eq!(refused, Err(error), "{}", self.what);
        match error {
            ReserveError::Full => self.full.add(refused_size(&self.options, len)),
            _ => self.too_large.add(refused_size(&self.options, len)),
        }
    }

    /// The consumer reads that many items and releases them.
    pub(super) fn consume(&mut self, count: usize) {
        let path = &self.path;
        let consumer = self.consumer.get_or_insert_with(|| {
            Consumer::attach_with(path, &ConsumerOptions::named("golden consumer")).unwrap()
        });
        for _ in 0..count {
            consumer.read().unwrap().expect("an item to read");
            let item = |item: &&Item| item.pos >= self.consumed && !matches!(item.kind, Kind::Hole);
            let item = self.items.iter().find(item).unwrap();
            if matches!(item.kind, Kind::Record { .. }) {
                self.read.add(item.size);
            }
            self.consumed = item.pos + item.size;
        }
        consumer.release();
        if self.options.policy == Policy::Drop {
            self.tail = self.consumed;
            self.aux.released(self.tail);
        }
    }

    /// Returns the file as it is now, while its holders are alive.
    pub(super) fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Detaches producer and consumer, and takes the file.
    pub(super) fn end(mut self, name: &'static str) -> Golden {
        self.producer = None;
        self.consumer = None;
        let file = self.bytes();
        self.take(name, file)
    }

    /// Returns the file with its expected content by this script's account.
    pub(super) fn take(&self, name: &'static str, mut file: Vec<u8>) -> Golden {
        assert_eq!(word(&file, "data_head"), self.head, "{name}: data_head");
        assert_eq!(word(&file, "data_tail"), self.tail, "{name}: data_tail");
        anonymise(&mut file, name);
        let mut expect = self.expect(&file);
        self.aux.add_to(&mut expect, &self.options, &file);
        if self.options.time {
            add_leads(&mut expect, self.options.sample_id);
        }
        Golden { name, file, expect }
    }

    /// Returns the records before a position.
    fn before(&self, pos: u64) -> Count {
        let mut count = Count::default();
        for item in self.items.iter().filter(|item| item.pos < pos) {
            if matches!(item.kind, Kind::Record { .. } | Kind::Gone) {
                count.add(item.size);
            }
        }
        count
    }

    fn expect(&self, file: &[u8]) -> Value {
        let written = self.before(self.head);
        let gone = self.before(self.tail);
        let overwrites = self.options.policy == Policy::Overwrite;
        let overwritten = if overwrites { gone } else { Count::default() };
        // A reader that moves the tail and keeps no totals has read everything before it.
        let (consumer_pos, read) =
            if overwrites { (self.consumed, self.read) } else { (self.tail, gone) };
        let items: Vec<_> = self
            .items
            .iter()
            .filter(|item| (self.tail..self.head).contains(&item.pos))
            .filter_map(shown)
            .collect();
        // The loss that an overwrite ring's consumer finds before them.
        let lapped = (overwrites && consumer_pos < self.tail).then(|| {
            let before = self.before(consumer_pos);
            json!({
                "pos": consumer_pos,
                "cause": "lapped",
                "lost_records": gone.records - before.records,
                "lost_bytes": gone.bytes - before.bytes,
            })
        });
        let unread: Vec<_> = lapped
            .into_iter()
            .chain(items.iter().filter(|i| i["pos"].as_u64().unwrap() >= consumer_pos).cloned())
            .collect();
        json!({
            "what": self.what,
            "layout": layout(&self.options, file),
            "data_tail": self.tail,
            "data_head": self.head,
            "items": items,
            "unread": unread,
            "books": totals(&[
                ("written", written),
                ("discarded", self.discarded),
                ("full", self.full),
                ("too_large", self.too_large),
                ("told_full", self.reported_full),
                ("told_too_large", self.reported_too_large),
                ("read", read),
                ("overwritten", overwritten),
                ("present", written.since(gone)),
            ], self.lost_markers, consumer_pos),
            "producer": holder(file, control(file), 4001, "golden producer"),
            "consumer": holder(file, at("consumer_epoch").start, 4002, "golden consumer"),
        })
    }
}
