//! The golden files of shared rings.

use super::*;

/// All of them, made anew.
pub(super) fn all() -> [Golden; 7] {
    [
        shared_drop(),
        shared_overwrite_lapped(),
        shared_killed_with_open(),
        shared_killed_in_commit(),
        shared_killed_under_lock(),
        shared_killed_before_head(),
        timed_shared(),
    ]
}

/// What a producer in one slot of a shared ring has done.
#[derive(Clone, Copy, Default)]
struct SlotAccount {
    written: Count,
    discarded: Count,
    reclaimed: Count,
    refused: Refused,
    told: Refused,
}

/// A shared ring in the making. The producers are the caller's, who keeps their reservations.
pub(super) struct Members {
    what: &'static str,
    _dir: tempfile::TempDir,
    path: PathBuf,
    options: Options,
    consumer: Option<Consumer>,
    /// Everything that was ever reserved, in order.
    items: Vec<Item>,
    tail: u64,
    slots: Vec<SlotAccount>,
    consumed: u64,
    read: Count,
    aux: aux::Area,
}

impl Members {
    pub(super) fn new(what: &'static str, policy: Policy) -> Self {
        Self::with(what, options(policy))
    }

    pub(super) fn with(what: &'static str, options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = Options { slots: 4, ..options };
        let options = Options { producers: Producers::Many, ..options };
        create(&path, &options).unwrap();
        let slots = vec![SlotAccount::default(); options.slots as usize];
        let (items, consumer) = (Vec::new(), None);
        let (tail, consumed, read) = (0, 0, Count::default());
        let aux = aux::Area::default();
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

    /// `data_head`: before the oldest that is open.
    fn head(&self) -> u64 {
        let open = |item: &&Item| matches!(item.kind, Kind::Open(_));
        self.items.iter().find(open).map_or(self.end(), |item| item.pos)
    }

    fn account(&mut self, producer: &SharedProducer) -> &mut SlotAccount {
        &mut self.slots[producer.slot() as usize]
    }

    /// Writes down that this is reserved now, behind the markers that it brings, and what goes for
    /// it.
    fn stands(&mut self, producer: &SharedProducer, size: u64, kind: Kind) {
        let account = self.account(producer);
        let untold = std::array::from_fn::<_, { Cause::REFUSED.len() }, _>(|cause| {
            account.refused[cause].since(account.told[cause])
        });
        account.told = account.refused;
        for (cause, count) in Cause::REFUSED.into_iter().zip(untold) {
            if count != Count::default() {
                let lost = Kind::Lost { cause: cause.name(), count };
                self.items.push(Item { pos: self.end(), size: 32, kind: lost });
            }
        }
        self.items.push(Item { pos: self.end(), size, kind });
        if self.options.policy == Policy::Overwrite {
            while self.end() - self.tail >= self.options.size {
                self.tail = self.items.iter().find(|i| i.pos > self.tail).unwrap().pos;
            }
        }
    }

    pub(super) fn publish(&mut self, producer: &SharedProducer, kind: u32, payload: &[u8]) {
        producer.publish(RecordType::new(kind).unwrap(), payload).unwrap();
        let size = size_of(&self.options, payload.len());
        self.stands(producer, size, Kind::Record { kind, payload: payload.to_vec() });
        self.aux.reserved(&self.options, &mut self.items, payload.len());
        self.account(producer).written.add(size);
    }

    pub(super) fn reserve<'a>(
        &mut self,
        producer: &'a SharedProducer,
        len: usize,
    ) -> SharedReservation<'a> {
        let reserved = producer.reserve(RecordType::BYTES, len).unwrap();
        self.stands(producer, size_of(&self.options, len), Kind::Open(producer.slot()));
        self.aux.reserved(&self.options, &mut self.items, len);
        assert_eq!(reserved.pos(), self.items.last().unwrap().pos, "{}", self.what);
        reserved
    }

    pub(super) fn commit(
        &mut self,
        producer: &SharedProducer,
        mut open: SharedReservation<'_>,
        payload: &[u8],
    ) {
        let at = self.items.iter().position(|item| item.pos == open.pos()).unwrap();
        let (pos, all) = (open.pos(), self.items[at].size);
        open[..payload.len()].copy_from_slice(payload);
        open.commit_len(payload.len());
        // One that was reserved in the AUX area stands there, however short it is committed.
        let size = match self.aux.has(pos) {
            true => all,
            false => size_of(&self.options, payload.len()),
        };
        let kind = Kind::Record { kind: 4096, payload: payload.to_vec() };
        self.items[at] = Item { pos, size, kind };
        if size < all {
            let rest = Item { pos: pos + size, size: all - size, kind: Kind::Rest };
            self.items.insert(at + 1, rest);
        }
        self.account(producer).written.add(size);
    }

    pub(super) fn discard(&mut self, producer: &SharedProducer, open: SharedReservation<'_>) {
        let item = self.items.iter_mut().find(|item| item.pos == open.pos()).unwrap();
        item.kind = Kind::Hole;
        let size = item.size;
        self.account(producer).discarded.add(size);
        open.discard();
    }

    /// Records that are published together, in a reservation that is larger by `more` bytes.
    fn batch(&mut self, producer: &SharedProducer, payloads: &[Vec<u8>], more: u64) {
        let bytes: u64 = payloads.iter().map(|payload| size_of(&self.options, payload.len())).sum();
        let mut batch = producer.batch((bytes + more) as usize).unwrap();
        for payload in payloads {
            assert!(batch.push(RecordType::BYTES, payload));
            let size = size_of(&self.options, payload.len());
            self.stands(producer, size, Kind::Record { kind: 4096, payload: payload.clone() });
            self.account(producer).written.add(size);
        }
        batch.publish();
        if more > 0 {
            self.stands(producer, more, Kind::Rest);
        }
    }

    pub(super) fn refused(&mut self, producer: &SharedProducer, len: usize, error: ReserveError) {
        let refused = producer.publish(RecordType::BYTES, &vec![0; len]);
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

    /// The consumer reads so many items and releases them.
    pub(super) fn consume(&mut self, count: usize) {
        let path = &self.path;
        let consumer = self
            .consumer
            .get_or_insert_with(|| Consumer::attach_as(path, "golden consumer").unwrap());
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
    fn set(&self, field: &str, value: u64) {
        let file = fs::File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(&value.to_ne_bytes(), at(field).start as u64).unwrap();
    }

    /// The file as given, with what must be found by this account, as it is and once it is
    /// recovered.
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
            add_times(&mut expect);
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
        let told = Cause::REFUSED.map(|cause| format!("told_{}", cause.name()));
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
                if let Kind::Lost { cause: told, count } = &item.kind
                    && *told == cause.name()
                {
                    in_stream.records += count.records;
                    in_stream.bytes += count.bytes;
                }
            }
            figures.push((&told[index], in_stream));
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
        // What a snapshot shows beside them ends with a record.
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
            "books": books(&figures, markers, consumer_pos),
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

/// Where the count of what a slot has written stands.
fn written_at(file: &[u8], index: u32) -> std::ops::Range<usize> {
    let start = slot_at(file, index).start;
    start + offset_of!(Slot, written)..start + offset_of!(Slot, losses)
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
    // The lock, as a producer holds it that is stopped.
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
    // The consumer has read all that it may, and somebody is in the way.
    ring.consume(4);
    let open = ring.reserve(&c, 3000);
    ring.consume(1); // the loss that it told
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

fn shared_killed_in_commit() -> Golden {
    let what = "A producer of a shared ring was killed when it had counted a record and not yet committed \
                it: the older copy of its slot's count is true.";
    let mut ring = Members::new(what, Policy::Drop);
    let [a, b] = ring.attach();
    ring.publish(&a, 5000, b"counted");
    let open = ring.reserve(&a, 40);
    ring.publish(&b, 5001, b"stranded");
    let mut file = ring.bytes();
    open.commit();
    let after = ring.bytes();
    let written = written_at(&file, 0);
    assert_ne!(file[written.clone()], after[written.clone()]);
    file[written.clone()].copy_from_slice(&after[written]);
    ring.take("shared_killed_in_commit", file)
}

/// A shared ring, before and after a publish under the lock; the account is of before.
fn publishing(what: &'static str) -> (Members, Vec<u8>, Vec<u8>) {
    let mut ring = Members::new(what, Policy::Drop);
    let [a, b] = ring.attach();
    for n in 0..5 {
        ring.publish(if n % 2 == 0 { &a } else { &b }, 5000, &text(n, 20 * n));
    }
    ring.consume(2);
    let before = ring.bytes();
    a.publish(RecordType::BYTES, b"under the lock").unwrap();
    let mut after = ring.bytes();
    // Slot 0, of epoch 1.
    after[at("shared_lock")].copy_from_slice(&(1u64 | 1 << 16).to_ne_bytes());
    (ring, before, after)
}

fn shared_killed_under_lock() -> Golden {
    let what = "A producer of a shared ring was killed under the lock: the record is published by \
                data_head, and producer_pos is not moved yet.";
    let (mut ring, before, after) = publishing(what);
    let size = record_size("under the lock".len());
    let kind = Kind::Record { kind: 4096, payload: b"under the lock".to_vec() };
    ring.items.push(Item { pos: ring.end(), size, kind });
    ring.slots[0].written.add(size);
    let file = killed(&after, &before, &["producer_pos"]);
    assert!(word(&file, "producer_pos") < word(&file, "data_head"));
    ring.take("shared_killed_under_lock", file)
}

fn shared_killed_before_head() -> Golden {
    let what = "A producer of a shared ring was killed under the lock: the record is written and counted, \
                in the slot and in the ledger, and data_head is not moved yet.";
    let (ring, before, after) = publishing(what);
    let file = killed(&after, &before, &["producer_pos", "data_head"]);
    ring.take("shared_killed_before_head", file)
}
