//! A shared ring, or a ring per CPU, under construction.

use super::account::{
    Area, Count, Golden, Item, Kind, Refused, add_leads, anonymise, control, count_in, holder,
    layout, options, refused_size, shown, size_of, slot_pid, totals,
};
use perfring_abi::{Cause, Policy, Producers, RecordType};
use perfring_consumer::{Consumer, ConsumerOptions};
use perfring_producer::{Options, Reservation, ReserveError, SharedProducer, files::create};
use perfring_testkit::image::{at, slot_at, word};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The counts of a producer in one slot of a shared ring.
#[derive(Clone, Copy, Default)]
pub(super) struct SlotAccount {
    pub(super) written: Count,
    discarded: Count,
    reclaimed: Count,
    pub(super) refused: Refused,
    reported: Refused,
}

/// A shared ring under construction. The caller has the producers and keeps their reservations.
pub(super) struct Members {
    what: &'static str,
    _dir: tempfile::TempDir,
    pub(super) path: PathBuf,
    pub(super) options: Options,
    consumer: Option<Consumer>,
    /// Everything that was ever reserved, in order.
    pub(super) items: Vec<Item>,
    pub(super) tail: u64,
    pub(super) slots: Vec<SlotAccount>,
    pub(super) consumed: u64,
    read: Count,
    aux: Area,
}

impl Members {
    pub(super) fn new(what: &'static str, policy: Policy) -> Self {
        Self::with(what, options(policy))
    }

    pub(super) fn with(what: &'static str, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { slots: 4, ..options };
        let producers = match options.producers {
            Producers::One => Producers::Many,
            others => others,
        };
        let options = Options { producers, ..options };
        create(&path, &options).unwrap();
        let slots = vec![SlotAccount::default(); options.slots as usize];
        let (items, consumer) = (Vec::new(), None);
        let (tail, consumed, read) = (0, 0, Count::default());
        let aux = Area::default();
        Members {
            what,
            _dir: dir,
            path,
            options,
            consumer,
            items,
            tail,
            slots,
            consumed,
            read,
            aux,
        }
    }

    pub(super) fn attach<const N: usize>(&self) -> [SharedProducer; N] {
        std::array::from_fn(|index| {
            let name = format!("golden producer {index}");
            let producer = SharedProducer::attach_as(&self.path, &name).unwrap();
            assert_eq!(producer.slot(), index as u32);
            producer
        })
    }

    /// `producer_pos`.
    pub(super) fn end(&self) -> u64 {
        self.items.last().map_or(0, |item| item.pos + item.size)
    }

    /// `data_head`: before the oldest open reservation.
    fn head(&self) -> u64 {
        let open = |item: &&Item| matches!(item.kind, Kind::Open(_));
        self.items.iter().find(open).map_or(self.end(), |item| item.pos)
    }

    fn account(&mut self, producer: &SharedProducer) -> &mut SlotAccount {
        &mut self.slots[producer.slot() as usize]
    }

    /// Notes the markers with which the producer in a slot reports its losses.
    pub(super) fn reports(&mut self, slot: u32) {
        let account = &mut self.slots[slot as usize];
        let unreported = std::array::from_fn::<_, { Cause::REFUSED.len() }, _>(|cause| {
            account.refused[cause].since(account.reported[cause])
        });
        account.reported = account.refused;
        for (cause, count) in Cause::REFUSED.into_iter().zip(unreported) {
            if count != Count::default() {
                let lost = Kind::Lost { cause: cause.name(), count };
                self.items.push(Item { pos: self.end(), size: 32, kind: lost });
            }
        }
    }

    /// Notes a new reservation, after the markers that precede it, and the records that are evicted for it.
    fn stands(&mut self, producer: &SharedProducer, size: u64, kind: Kind) {
        self.reports(producer.slot());
        self.follows(size, kind);
    }

    /// Notes the next reservation, and the records that are evicted for it; in a ring per CPU these are unknown.
    pub(super) fn follows(&mut self, size: u64, kind: Kind) {
        self.items.push(Item { pos: self.end(), size, kind });
        if self.options.policy == Policy::Overwrite && self.options.producers == Producers::Many {
            while self.end() - self.tail >= self.options.size {
                self.tail = self.items.iter().find(|i| i.pos > self.tail).unwrap().pos;
            }
        }
    }

    pub(super) fn publish(&mut self, producer: &SharedProducer, kind: u32, payload: &[u8]) {
        producer.publish_as(RecordType::new(kind).unwrap(), payload).unwrap();
        let size = size_of(&self.options, payload.len());
        self.stands(producer, size, Kind::Record { kind, payload: payload.to_vec() });
        self.aux.reserved(&self.options, &mut self.items, payload.len());
        self.account(producer).written.add(size);
    }

    pub(super) fn reserve<'a>(
        &mut self,
        producer: &'a SharedProducer,
        len: usize,
    ) -> Reservation<'a, SharedProducer> {
        let reserved = producer.reserve(RecordType::BYTES, len).unwrap();
        self.stands(producer, size_of(&self.options, len), Kind::Open(producer.slot()));
        self.aux.reserved(&self.options, &mut self.items, len);
        assert_eq!(reserved.pos(), self.items.last().unwrap().pos, "{}", self.what);
        reserved
    }

    pub(super) fn commit(
        &mut self,
        producer: &SharedProducer,
        mut open: Reservation<'_, SharedProducer>,
        payload: &[u8],
    ) {
        let at = self.items.iter().position(|item| item.pos == open.pos()).unwrap();
        let (pos, all) = (open.pos(), self.items[at].size);
        open[..payload.len()].copy_from_slice(payload);
        open.commit_len(payload.len());
        // A record that was reserved in the AUX area stays there, however short it is committed.
        let size = match self.aux.has(pos) {
            true => all,
            false => size_of(&self.options, payload.len()),
        };
        self.committed(producer.slot(), pos, payload, size);
    }

    /// Notes the end of the reservation at a position.
    pub(super) fn committed(&mut self, slot: u32, pos: u64, payload: &[u8], size: u64) {
        let at = self.items.iter().position(|item| item.pos == pos).unwrap();
        let all = self.items[at].size;
        let kind = Kind::Record { kind: 4096, payload: payload.to_vec() };
        self.items[at] = Item { pos, size, kind };
        if size < all {
            let rest = Item { pos: pos + size, size: all - size, kind: Kind::Rest };
            self.items.insert(at + 1, rest);
        }
        self.slots[slot as usize].written.add(size);
    }

    pub(super) fn discard(
        &mut self,
        producer: &SharedProducer,
        open: Reservation<'_, SharedProducer>,
    ) {
        self.discarded(producer.slot(), open.pos());
        open.discard();
    }

    /// Notes that the reservation at a position is a hole.
    pub(super) fn discarded(&mut self, slot: u32, pos: u64) {
        let item = self.items.iter_mut().find(|item| item.pos == pos).unwrap();
        item.kind = Kind::Hole;
        self.slots[slot as usize].discarded.add(item.size);
    }

    /// Publishes records together, in a reservation that is larger by `more` bytes.
    pub(super) fn batch(&mut self, producer: &SharedProducer, payloads: &[Vec<u8>], more: u64) {
        let bytes: u64 = payloads.iter().map(|payload| size_of(&self.options, payload.len())).sum();
        let mut batch = producer.reserve_batch((bytes + more) as usize).unwrap();
        for payload in payloads {
            batch.push(payload).unwrap();
            let size = size_of(&self.options, payload.len());
            self.stands(producer, size, Kind::Record { kind: 4096, payload: payload.clone() });
            self.account(producer).written.add(size);
        }
        drop(batch);
        if more > 0 {
            self.stands(producer, more, Kind::Rest);
        }
    }

    pub(super) fn refused(&mut self, producer: &SharedProducer, len: usize, error: ReserveError) {
        let refused = producer.publish(&vec![0; len]);
        assert_eq!(refused, Err(error), "{}", self.what);
        let cause = match error {
            ReserveError::Full => Cause::Full,
            ReserveError::TooLarge { .. } => Cause::TooLarge,
            ReserveError::Contended { .. } => Cause::Contended,
            ReserveError::Pending { .. } => Cause::Pending,
            other => panic!("{other}"),
        };
        let cause = Cause::REFUSED.iter().position(|known| *known == cause).unwrap();
        let size = refused_size(&self.options, len);
        self.account(producer).refused[cause].add(size);
    }

    /// The consumer reads that many items and releases them.
    pub(super) fn consume(&mut self, count: usize) {
        let path = &self.path;
        let consumer = self.consumer.get_or_insert_with(|| {
            Consumer::attach_with(path, &ConsumerOptions::named("golden consumer")).unwrap()
        });
        for _ in 0..count {
            consumer.read().unwrap().expect("an item to read");
            let item = |item: &&Item| item.pos >= self.consumed && shown(item).is_some();
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

    pub(super) fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Sets a field of the ring in use, as a process that is stopped under the lock would leave it.
    pub(super) fn set(&self, field: &str, value: u64) {
        let file = fs::File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(&value.to_ne_bytes(), at(field).start as u64).unwrap();
    }

    /// Returns the file with its expected content by this account, both unchanged and after a
    /// recovery.
    pub(super) fn take(&self, name: &'static str, mut file: Vec<u8>) -> Golden {
        assert_eq!(word(&file, "data_head"), self.head(), "{name}: data_head");
        assert_eq!(word(&file, "data_tail"), self.tail, "{name}: data_tail");
        anonymise(&mut file, name);
        let locked = word(&file, "shared_lock");
        let open = self.items.iter().find_map(|item| match item.kind {
            Kind::Open(slot) => Some(slot),
            _ => None,
        });
        let locked_by = (locked != 0).then(|| (locked & 0xffff) as u32 - 1);
        let held_up = locked_by
            .or(open)
            .map(|slot| json!({ "slot": slot, "alive": false, "locked": locked_by == Some(slot) }));
        let mut expect = self.expect(&self.items, &self.slots, &file);
        self.aux.add_to(&mut expect, &self.options, &file);
        expect["held_up"] = json!(held_up);

        let (mut items, mut slots) = (self.items.clone(), self.slots.clone());
        for item in &mut items {
            if let Kind::Open(slot) = item.kind {
                slots[slot as usize].reclaimed.add(item.size);
                item.kind = Kind::Reclaimed;
            }
        }
        let recovered = self.expect(&items, &slots, &file);
        let keys = ["data_tail", "data_head", "items", "unread", "books", "slots"];
        for key in keys {
            expect["recovered"][key] = recovered[key].clone();
        }
        if self.options.time {
            add_leads(&mut expect, self.options.sample_id);
        }
        Golden { name, file, expect }
    }

    fn expect(&self, items: &[Item], slots: &[SlotAccount], file: &[u8]) -> Value {
        let open = |item: &Item| matches!(item.kind, Kind::Open(_));
        let is_record = |item: &Item| matches!(item.kind, Kind::Record { .. } | Kind::Gone);
        let head = items.iter().find(|item| open(item)).map_or(self.end(), |item| item.pos);
        let count = |from: u64, upto: u64, wanted: &dyn Fn(&Item) -> bool| {
            let mut count = Count::default();
            for item in items.iter().filter(|i| (from..upto).contains(&i.pos) && wanted(i)) {
                count.add(item.size);
            }
            count
        };
        let written = count(0, head, &is_record);
        let gone = count(0, self.tail, &is_record);
        let overwrites = self.options.policy == Policy::Overwrite;
        let mut discarded = count(0, head, &|item| matches!(item.kind, Kind::Hole));
        discarded.bytes += count(0, head, &|item| matches!(item.kind, Kind::Rest)).bytes;
        let lost = |item: &Item| matches!(item.kind, Kind::Lost { .. });
        let mut figures = vec![
            ("written", written),
            ("discarded", discarded),
            ("reclaimed", count(0, head, &|item| matches!(item.kind, Kind::Reclaimed))),
            ("read", self.read),
            ("overwritten", if overwrites { gone } else { Count::default() }),
            ("present", written.since(gone)),
            ("stranded", count(head, u64::MAX, &is_record)),
        ];
        let reported = Cause::REFUSED.map(|cause| format!("told_{}", cause.name()));
        for (index, cause) in Cause::REFUSED.into_iter().enumerate() {
            let sum = |of: &dyn Fn(&SlotAccount) -> Count| {
                slots.iter().map(of).fold(Count::default(), |sum, more| Count {
                    records: sum.records + more.records,
                    bytes: sum.bytes + more.bytes,
                })
            };
            figures.push((cause.name(), sum(&|slot| slot.refused[index])));
            let mut in_stream = Count::default();
            for item in items.iter().filter(|item| item.pos < head) {
                if let Kind::Lost { cause: reported, count } = &item.kind
                    && *reported == cause.name()
                {
                    in_stream.records += count.records;
                    in_stream.bytes += count.bytes;
                }
            }
            figures.push((&reported[index], in_stream));
        }
        let markers = count(0, head, &lost).records;
        let consumer_pos = if overwrites { self.consumed } else { self.tail };
        let between = |from: u64, upto: u64| -> Vec<Value> {
            let within = items.iter().filter(|item| (from..upto).contains(&item.pos));
            within.filter_map(shown).collect()
        };
        let lapped = (overwrites && consumer_pos < self.tail).then(|| {
            let before = count(0, consumer_pos, &is_record);
            json!({
                "pos": consumer_pos,
                "cause": "lapped",
                "lost_records": gone.records - before.records,
                "lost_bytes": gone.bytes - before.bytes,
            })
        });
        let unread = between(consumer_pos.max(self.tail), head);
        // The part that a snapshot shows besides them ends with a record.
        let last = items.iter().rfind(|item| item.pos >= head && is_record(item));
        let stranded_upto = last.map_or(head, |item| item.pos + item.size);
        let members: Vec<_> = (0..self.options.slots)
            .filter_map(|index| self.member(index, items, &slots[index as usize], file))
            .collect();
        json!({
            "what": self.what,
            "layout": layout(&self.options, file),
            "data_tail": self.tail,
            "data_head": head,
            "items": between(self.tail, head),
            "unread": lapped.into_iter().chain(unread).collect::<Vec<_>>(),
            "stranded": { "items": between(head, stranded_upto), "upto": stranded_upto },
            "books": totals(&figures, markers, consumer_pos),
            "slots": members,
            "producer": holder(file, control(file), slot_pid(true, 0), "golden producer 0"),
            "consumer": holder(file, at("consumer_epoch").start, 4002, "golden consumer"),
        })
    }

    fn member(
        &self,
        index: u32,
        items: &[Item],
        account: &SlotAccount,
        file: &[u8],
    ) -> Option<Value> {
        let place = slot_at(file, index).start;
        let name = format!("golden producer {index}");
        let mut member = holder(file, place, slot_pid(true, index), &name);
        if member["epoch"] == 0 {
            return None;
        }
        member["slot"] = index.into();
        let mut open = Count::default();
        for item in items.iter().filter(|i| matches!(i.kind, Kind::Open(slot) if slot == index)) {
            open.add(item.size);
        }
        let refused = Cause::REFUSED.map(Cause::name).into_iter().zip(account.refused);
        for (name, count) in [
            ("written", account.written),
            ("discarded", account.discarded),
            ("reclaimed", account.reclaimed),
            ("open", open),
        ]
        .into_iter()
        .chain(refused)
        {
            count_in(&mut member, name, count);
        }
        Some(member)
    }
}
