//! The golden file of a metrics area.

use super::account::{Golden, PAGE, TIME, options, slot_pid};
use super::members::Members;
use perfring_abi::Policy;
use perfring_producer::{
    Options,
    metrics::{Buckets, Metric, MetricKind, Metrics, MetricsError},
};
use perfring_testkit::image::{at, slot_at, word};
use perfring_types::{Class, Constant, Encoding, Field, Schema, Shape};
use serde_json::{Value, json};

const SIZE: u64 = 2 * PAGE;
/// Bytes of a line: of a block's head, and of a sum or a gauge in each stripe.
const LINE: u64 = 64;
const RESOURCE: &[u8] = b"golden resource";

/// Makes all of them.
pub(super) fn all() -> Vec<Golden> {
    vec![metrics()]
}

/// A metrics area by this script's account.
struct Account {
    used: u64,
    samples: Vec<Value>,
    types: Vec<Value>,
    /// Where each block is, and the slot of its process.
    blocks: Vec<(u64, u32)>,
}

impl Account {
    /// Notes that the process in a slot has taken a block of so many bytes, and the block's value; a gauge that was not set has
    /// none.
    fn takes(&mut self, slot: u32, schema: &Schema<'_>, bytes: u64, value: Value) {
        let at = self.used;
        self.used += bytes;
        self.blocks.push((at, slot));
        if self.types.iter().all(|known| known["id"] != schema.id.get()) {
            let layout = format!("{:016x}", schema.layout());
            let text = schema.to_json();
            self.types.push(json!({ "id": schema.id.get(), "layout": layout, "text": text }));
        }
        if !value.is_null() {
            self.samples.push(json!({
                "at": at,
                "type": schema.id.get(),
                "owner": u64::from(slot) << 48 | 1,
                "pid": slot_pid(true, slot),
                "start_ns": TIME + at,
                "value": value,
            }));
        }
    }
}

fn with_schema<R>(name: &'static str, class: Class, act: impl FnOnce(&Schema<'_>) -> R) -> R {
    let fields = [
        Field::new("value", 0, Shape::ANY),
        Field::constant("name", Constant::Str(name)),
        Field::constant("unit", Constant::Str("{order}")),
    ];
    let schema = Schema { class, ..Schema::new(name, Encoding::Tagged) };
    act(&schema.with_fields(0, &fields).with_hashed_id())
}

fn resource() -> Schema<'static> {
    let schema = Schema::new("golden.resource", Encoding::Tagged);
    Schema { class: Class::Resource, ..schema }.with_hashed_id()
}

/// Adds this to a word of the file.
fn add(file: &mut [u8], at: u64, value: u64) {
    let at = at as usize;
    let before = u64::from_ne_bytes(file[at..at + 8].try_into().unwrap());
    file[at..at + 8].copy_from_slice(&before.wrapping_add(value).to_ne_bytes());
}

fn metrics() -> Golden {
    let what = "A shared ring with a metrics area: a block of each kind and one of a kind that no reader knows yet, a counter of two \
                stripes and of two processes, and one that a process was killed in while it took it over from a dead one. One instrument found no room.";
    let options =
        Options { types_size: 2 * PAGE, metrics_size: SIZE, ..options(Policy::Overwrite) };
    let ring = Members::with(what, options);
    let first = Metrics::attach(&ring.path).unwrap();
    let first = first.with_description(resource(), || RESOURCE.to_vec()).unwrap();
    let second = Metrics::attach(&ring.path).unwrap();
    let mut account =
        Account { used: LINE, samples: Vec::new(), types: Vec::new(), blocks: Vec::new() };
    account.takes(
        0,
        &resource(),
        LINE + LINE,
        json!({ "record": str::from_utf8(RESOURCE).unwrap() }),
    );

    type Update = fn(&Metric);
    let sums: [(&str, Class, MetricKind, Update, Value); 6] = [
        ("u64", Class::Sum, MetricKind::CounterU64, |of| of.add(7), json!(7)),
        ("f64", Class::Sum, MetricKind::CounterF64, |of| of.add_f64(1.5), json!(1.5)),
        ("i64", Class::Sum, MetricKind::UpDownI64, |of| of.add(3u64.wrapping_neg()), json!(-3)),
        ("down", Class::Sum, MetricKind::UpDownF64, |of| of.add_f64(-0.25), json!(-0.25)),
        ("set", Class::Gauge, MetricKind::GaugeI64, |of| of.set(5u64.wrapping_neg()), json!(-5)),
        ("never set", Class::Gauge, MetricKind::GaugeF64, |_| {}, Value::Null),
    ];
    for (name, class, kind, update, value) in sums {
        with_schema(name, class, |schema| {
            update(&first.register(schema, kind, 1).unwrap());
            account.takes(0, schema, LINE + LINE, value);
        });
    }
    // From 2^-2 on, 24 buckets of a quarter of a power of two: three lines behind the stripe's first.
    let buckets = Buckets::new(2, -2, 4).unwrap();
    with_schema("measured", Class::Histogram, |schema| {
        let measured = first.register(schema, MetricKind::Histogram(buckets), 1).unwrap();
        for value in [0.5, 3.0, 3.0, 0.0, -1.0, 1e9] {
            measured.record(buckets, value);
        }
        // 0.5 is the upper bound of the bucket with the index -5, and 3 is between 2^(6/4) and 2^(7/4).
        let mut counts = [0; 24];
        (counts[3], counts[14], counts[23]) = (1, 2, 1);
        let value = json!({
            "scale": 2, "first": -8, "counts": counts, "zeros": 1, "sum": 1_000_000_006.5,
            "range": [0.0, 1e9], "refused": 1,
        });
        account.takes(0, schema, LINE + LINE + 3 * LINE, value);
    });
    let mut edits = Vec::new();
    with_schema("u64", Class::Sum, |schema| {
        second.register(schema, MetricKind::CounterU64, 1).unwrap().add(100);
        account.takes(1, schema, LINE + LINE, json!(100));
    });
    with_schema("striped", Class::Sum, |schema| {
        first.register(schema, MetricKind::CounterU64, 2).unwrap();
        // As threads of two stripes would have.
        edits.extend([(account.used + LINE, 40), (account.used + 2 * LINE, 2)]);
        account.takes(0, schema, LINE + 2 * LINE, json!(42));
    });
    with_schema("later", Class::Sum, |schema| {
        second.register(schema, MetricKind::CounterU64, 1).unwrap().add(9);
        edits.push((account.used, 0xa0 << 32)); // the kind is 0xa1
        account.takes(1, schema, LINE + LINE, Value::Null);
    });
    with_schema("taken over", Class::Sum, |schema| {
        second.register(schema, MetricKind::CounterU64, 1).unwrap().add(11);
        edits.push((account.used + 16, (1u64 << 48 | 1).wrapping_neg())); // no owner
        edits.push((16, 1)); // one was replaced
        account.takes(1, schema, LINE + LINE, Value::Null);
    });
    with_schema("no room", Class::Histogram, |schema| {
        let kind = MetricKind::Histogram(Buckets::default());
        let full = first.register(schema, kind, 2).map(drop).unwrap_err();
        assert!(matches!(full, MetricsError::Full { .. }), "{full}");
        let layout = format!("{:016x}", schema.layout());
        let (id, text) = (schema.id.get(), schema.to_json());
        account.types.push(json!({ "id": id, "layout": layout, "text": text }));
    });

    let mut file = ring.bytes();
    drop((first, second));
    let area = word(&file, "metrics_offset");
    for (at, value) in edits {
        add(&mut file, area + at, value);
    }
    let name = at("consumer_name").start - at("consumer_epoch").start;
    for slot in 0..2 {
        let place = slot_at(&file, slot).start + name;
        let mut padded = [0; 64];
        let text = format!("golden producer {slot}");
        padded[..text.len()].copy_from_slice(text.as_bytes());
        file[place..place + 64].copy_from_slice(&padded);
    }
    for (block, slot) in &account.blocks {
        let at = (area + block) as usize;
        file[at + 24..at + 32].copy_from_slice(&u64::from(slot_pid(true, *slot)).to_ne_bytes());
        file[at + 32..at + 40].copy_from_slice(&(TIME + block).to_ne_bytes());
    }
    let mut golden = ring.take("metrics", file);
    golden.expect["types"] = account.types.into();
    golden.expect["fields"] = json!([]);
    golden.expect["metrics"] = json!({
        "size": SIZE,
        "used": account.used,
        "instruments": 10,
        "refused": 1,
        "replaced": 1,
        "samples": account.samples,
    });
    golden
}
