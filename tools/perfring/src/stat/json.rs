//! A ring's figures as one JSON object, with the names of `proto/ABI.md`.

use super::Balance;
use perfring_consumer::{Evict, Holding, Home, Stat, Tell};
use serde_json::{Value, json};
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, home: &Home, stat: &Stat) -> io::Result<()> {
    let layout = &stat.layout;
    let mut object = json!({
        "ring": home.to_string(),
        "data_size": layout.data_size,
        "policy": layout.policy.name(),
        "evict": match layout.evict { Evict::Exact => "exact", Evict::Half => "half" },
        "tell": match layout.tell { Tell::InStream => "stream", Tell::CountersOnly => "counters" },
        "page_size": layout.page_size,
        "max_len": layout.max_len(),
        "created_ns": layout.created_ns,
        "creator_pid": layout.creator_pid,
        "creator_uid": layout.creator_uid,
        "uuid": uuid::Uuid::from_bytes(layout.uuid).to_string(),
        "boot_id": uuid::Uuid::from_bytes(layout.boot_id).to_string(),
        "producer": holding(&stat.producer),
        "consumer": holding(&stat.consumer),
        "damaged": stat.totals.is_none(),
    });
    if let (Some(totals), Some(object)) = (&stat.totals, object.as_object_mut()) {
        let producer = &totals.producer;
        object.insert("data_head".to_owned(), totals.head.into());
        object.insert("data_tail".to_owned(), totals.tail.into());
        object.insert("lost_markers".to_owned(), producer.lost_markers.into());
        let balanced = Balance::of(layout.policy, totals).holds();
        object.insert("balanced".to_owned(), balanced.into());
        for (name, count) in [
            ("written", producer.written),
            ("discarded", producer.discarded),
            ("full", producer.refused.full),
            ("too_large", producer.refused.too_large),
            ("told_full", producer.told.full),
            ("told_too_large", producer.told.too_large),
            ("untold", totals.untold()),
            ("overwritten", totals.overwritten),
            ("read", totals.consumer.read),
            ("lapped", totals.consumer.lapped),
            ("present", totals.present),
        ] {
            object.insert(format!("{name}_records"), count.records.into());
            object.insert(format!("{name}_bytes"), count.bytes.into());
        }
    }
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

fn holding(holding: &Holding) -> Value {
    let who = &holding.who;
    json!({
        "alive": holding.alive,
        "name": who.name,
        "pid": who.pid,
        "uid": who.uid,
        "epoch": who.epoch,
        "attached_ns": who.attached_ns,
    })
}
