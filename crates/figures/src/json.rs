//! A ring's figures as JSON objects, with the names of `proto/ABI.md`.

use crate::accounts::Balance;
use crate::areas::TypesUse;
use perfring_consumer::{
    Evict, Location, Producers, Report,
    metrics::MetricsFill,
    stat::{
        ConsumerFigures, Count, HeldUp, ProducerFigures, ProducerTotals, Refused, RingTotals, Seat,
        Stat,
    },
};
use serde_json::{Map, Value, json};

/// Returns the figures as an object; without those of the type table, if it was not read.
#[must_use]
pub fn object(location: &Location, stat: &Stat, types: Option<&TypesUse>) -> Value {
    let layout = &stat.layout;
    let exclusive = layout.producers == Producers::One;
    let mut object = json!({
        "ring": location.to_string(),
        "data_size": layout.data_size,
        "aux_size": layout.aux_size,
        "policy": layout.policy.name(),
        "evict": match layout.evict { Evict::Exact => "exact", Evict::Half => "half" },
        "report": match layout.report {
            Report::InStream => "in_stream",
            Report::CountersOnly => "counters_only",
        },
        "producers": layout.producers.name(),
        "slot_count": layout.slots,
        "consumer_count": layout.consumers,
        "time": layout.time,
        "sample_id": layout.sample_id,
        "page_size": layout.page_size,
        "max_len": layout.max_len(),
        "created_ns": layout.created_ns,
        "creator_pid": layout.creator_pid,
        "creator_uid": layout.creator_uid,
        "uuid": uuid::Uuid::from_bytes(layout.uuid).to_string(),
        "boot_id": uuid::Uuid::from_bytes(layout.boot_id).to_string(),
        "epoch": stat.epoch(),
        "producer": exclusive.then(|| holder(&stat.producer)),
        "slots": stat.producers.iter().map(slot).collect::<Vec<_>>(),
        "held_up": stat.held_up.as_ref().map(held_up),
        "consumer": holder(&stat.consumer),
        "consumers": stat.consumers.iter().map(named).collect::<Vec<_>>(),
        "damaged": stat.totals.is_none(),
    });
    if let Some(types) = types {
        object["types_size"] = types.size.into();
        object["types_used"] = types.used.into();
        object["type_count"] = types.count.into();
        object["types_damaged"] = (!types.damage.is_empty()).into();
    }
    insert_fill(&mut object, &stat.metrics);
    if let (Some(totals), Some(object)) = (&stat.totals, object.as_object_mut()) {
        object.insert("balanced".to_owned(), Balance::of(layout.policy, totals).holds().into());
        object.extend(self::totals(totals));
    }
    object
}

/// Inserts how full a metrics area is, or several together.
pub fn insert_fill(object: &mut Value, fill: &MetricsFill) {
    object["metrics_size"] = fill.size.into();
    object["metrics_used"] = fill.used.into();
    object["metrics_damaged"] = fill.damage.is_some().into();
    object["instrument_count"] = fill.instruments.into();
    object["instruments_refused"] = fill.refused.into();
    object["instruments_replaced"] = fill.replaced.into();
}

/// Returns the totals of a ring as an object.
#[must_use]
pub fn totals(totals: &RingTotals) -> Map<String, Value> {
    let mut object = producer_totals(&totals.producer);
    object.insert("data_head".to_owned(), totals.head.into());
    object.insert("data_tail".to_owned(), totals.tail.into());
    object.insert("aux_head".to_owned(), totals.aux_head.into());
    object.insert("aux_tail".to_owned(), totals.aux_tail.into());
    object.insert("consumer_pos".to_owned(), totals.consumer.pos.into());
    insert_counts(
        &mut object,
        &[
            ("unreported".to_owned(), totals.unreported()),
            ("overwritten".to_owned(), totals.overwritten),
            ("read".to_owned(), totals.consumer.read),
            ("lapped".to_owned(), totals.consumer.lapped),
            ("present".to_owned(), totals.present),
            ("stranded".to_owned(), totals.stranded),
        ],
    );
    object
}

/// Returns the totals of a producer as an object.
#[must_use]
pub fn producer_totals(totals: &ProducerTotals) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("lost_markers".to_owned(), totals.lost_markers.into());
    insert_counts(&mut object, &refused("", &totals.refused));
    insert_counts(&mut object, &refused("reported_", &totals.reported));
    insert_counts(
        &mut object,
        &[
            ("written".to_owned(), totals.written),
            ("discarded".to_owned(), totals.discarded),
            ("reclaimed".to_owned(), totals.reclaimed),
        ],
    );
    object
}

fn insert_counts(object: &mut Map<String, Value>, counts: &[(String, Count)]) {
    for (name, count) in counts {
        object.insert(format!("{name}_records"), count.records.into());
        object.insert(format!("{name}_bytes"), count.bytes.into());
    }
}

fn refused(prefix: &str, refused: &Refused) -> Vec<(String, Count)> {
    let causes = [
        ("full", refused.full),
        ("too_large", refused.too_large),
        ("contended", refused.contended),
        ("pending", refused.pending),
    ];
    causes.map(|(cause, count)| (format!("{prefix}{cause}"), count)).into()
}

fn holder<F>(seat: &Seat<F>) -> Map<String, Value> {
    let owner = &seat.owner;
    let holder: [(&str, Value); 7] = [
        ("alive", seat.is_alive().into()),
        ("state", seat.state.word().into()),
        ("name", owner.name.as_str().into()),
        ("pid", owner.pid.into()),
        ("uid", owner.user().into()),
        ("epoch", owner.epoch.into()),
        ("attached_ns", owner.attached_ns.into()),
    ];
    holder.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// One producer of a shared ring, with its figures since it attached.
fn slot(member: &Seat<ProducerFigures>) -> Value {
    let figures = &member.figures;
    let mut object = holder(member);
    object.insert("slot".to_owned(), member.number.into());
    insert_counts(&mut object, &refused("", &figures.refused));
    insert_counts(
        &mut object,
        &[
            ("written".to_owned(), figures.written),
            ("discarded".to_owned(), figures.discarded),
            ("reclaimed".to_owned(), figures.reclaimed),
            ("open".to_owned(), figures.open),
        ],
    );
    object.into()
}

/// One named consumer.
fn named(consumer: &Seat<ConsumerFigures>) -> Value {
    let mut object = holder(consumer);
    object.insert("seat".to_owned(), consumer.number.into());
    object.insert("waited_for".to_owned(), consumer.figures.waited_for.into());
    object.insert("slowest".to_owned(), consumer.figures.slowest.into());
    object.insert("pos".to_owned(), consumer.figures.totals.pos.into());
    insert_counts(
        &mut object,
        &[
            ("read".to_owned(), consumer.figures.totals.read),
            ("lapped".to_owned(), consumer.figures.totals.lapped),
            ("unread".to_owned(), consumer.figures.unread),
        ],
    );
    object.into()
}

fn held_up(held: &HeldUp) -> Value {
    let for_ns = u64::try_from(held.since.as_nanos()).unwrap_or(u64::MAX);
    json!({ "slot": held.slot, "alive": held.alive, "for_ns": for_ns, "locked": held.locked })
}
