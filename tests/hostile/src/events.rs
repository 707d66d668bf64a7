//! Events for outputs: their rings' names, types, timestamps and payloads are arbitrary.

use crate::file::GOLDEN;
use crate::types::write_tagged;
use perfring_abi::{HeaderPage, Layout};
use perfring_consumer::{Cause, Policy, RecordRef, RecordType, advanced::Anchor, stat::OwnerInfo};
use perfring_export::{Birth, Event, Loss, LossCause, Origin, Rec, What};
use perfring_telemetry::{Gauge, Histogram, Log, Signal, SpanEnd, SpanStart, Sum};
use perfring_testkit::choices::{Choices, Input};
use perfring_types::read::{Type, TypeTable};
use perfring_types::tagged::TaggedWriter;
use perfring_types::{Encoding, Entries, Schema};
use std::sync::OnceLock;

/// Names with a meaning for one output or another.
const NAMES: &[&str] = &[
    "time_unix_nano",
    "process.pid",
    "severity_number",
    "severity_text",
    "body",
    "trace_id",
    "span_id",
    "parent_span_id",
    "event_name",
    "observed_time_unix_nano",
    "otel.scope.name",
    "name",
    "kind",
    "duration_nano",
    "status.code",
    "status.message",
    "unit",
    "description",
    "value",
    "is_monotonic",
    "aggregation_temporality",
    "start_time_unix_nano",
    "count",
    "sum",
    "min",
    "max",
    "explicit_bounds",
    "bucket_counts",
    "service.name",
    "thread.id",
    "thread.name",
    "link.trace_id",
];

const RESOURCE: &str = r#"{"name":"perfring.Resource","class":"resource","encoding":"tagged","fields":[
    {"name":"time_unix_nano","kind":"any"},{"name":"process.pid","kind":"any"},
    {"name":"start_time_unix_nano","kind":"any"}]}"#;
const NESTED: &str = r#"{"name":"a.Nested","encoding":"pod","size":32,"fields":[
    {"name":"at","kind":"struct","size":16,"fields":[{"name":"x","kind":"f64"},{"name":"y z","at":8,"kind":"u64"}]},
    {"name":"list","at":16,"kind":"array","count":4,"of":{"kind":"u16"}},
    {"name":"state","at":24,"kind":"enum","of":{"kind":"u8"},"labels":[{"value":0,"name":"a b"},{"value":1}]},
    {"name":"c","at":28,"kind":"char"}]}"#;
const JSON: &str = r#"{"name":"a.Json","encoding":"json"}"#;
const TEXT: &str = r#"{"name":"a.Text","encoding":"utf-8"}"#;

/// Types that are always present.
fn known() -> &'static TypeTable {
    static KNOWN: OnceLock<TypeTable> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let schemas = [
            Log::SCHEMA,
            SpanStart::SCHEMA,
            SpanEnd::SCHEMA,
            Gauge::SCHEMA,
            Sum::SCHEMA,
            Histogram::SCHEMA,
        ];
        let words: Vec<u64> = schemas.iter().flat_map(Schema::to_entry).collect();
        let mut table = TypeTable::from_words(&words);
        for (id, text) in (6000..).zip([RESOURCE, NESTED, JSON, TEXT]) {
            let id = RecordType::new(id).expect("an application's");
            table.add(Type::parse(id, text).expect("a type"));
        }
        table.extend(Entries::new(&golden_types()));
        table
    })
}

/// Returns the entries of the golden file that has some.
pub(crate) fn golden_types() -> Vec<u64> {
    let typed = GOLDEN.iter().find(|(name, _)| *name == "typed").expect("it is there").1;
    let page = HeaderPage::from_bytes(typed).expect("a header");
    let layout = Layout::check(&page, typed.len() as u64).expect("a ring");
    let table = crate::types::words(&typed[layout.areas().types.start as usize..]);
    table[8..table[0] as usize / 8].to_vec()
}

/// Events that can be given to outputs repeatedly.
pub(crate) struct Script {
    origins: Vec<Origin>,
    events: Vec<(usize, Made)>,
}

enum Made {
    Began,
    Ended,
    Record { pos: u64, kind: u32, bytes: Vec<u8>, time: Option<u64>, late: u64 },
    Lost(Loss),
}

impl Script {
    pub(crate) fn of(input: &mut Input<'_>) -> Self {
        let mut script = Script { origins: Vec::new(), events: Vec::new() };
        for id in 0..=u32::from(input.u8() % 3) {
            script.origins.push(origin(input, id));
        }
        let mut pos = 0_u64;
        while !input.is_empty() && script.events.len() < 128 {
            let at = input.of(script.origins.len());
            let made = script.made(&script.origins[at], input, &mut pos);
            script.events.push((at, made));
        }
        script
    }

    fn made(&self, origin: &Origin, input: &mut Input<'_>, pos: &mut u64) -> Made {
        let what = input.u8();
        match what % 16 {
            0 => Made::Began,
            1 => Made::Ended,
            2 => {
                let causes = [
                    LossCause::Busy,
                    LossCause::Ring(Cause::Full),
                    LossCause::Ring(Cause::Lapped),
                    LossCause::Ring(Cause::Foreign),
                ];
                let (cause, time) = (input.one(&causes), timestamp(input));
                let (records, bytes) = (input.number(1, 8), input.number(8, 8));
                let wall = (what & 16 == 0).then(|| input.number(1 << 60, 8));
                Made::Lost(Loss { time, wall, ..Loss::new(*pos, records, bytes, cause) })
            }
            _ => {
                let kinds: Vec<&Type> = origin.types.iter().collect();
                let kind = match input.u8() {
                    255 => None,
                    which => kinds.get(usize::from(which) % (kinds.len() + 1)).copied(),
                };
                let bytes = payload(kind, input);
                *pos = match what >> 4 {
                    15 => input.number(*pos, 4096),
                    _ => pos.wrapping_add(bytes.len() as u64 + 8),
                };
                let time = origin.timed.then(|| timestamp(input)).flatten();
                let late = if what >> 4 == 14 { input.u64() } else { 0 };
                let kind = kind.map_or_else(|| input.u32(), |kind| kind.id.get());
                Made::Record { pos: *pos, kind, bytes, time, late }
            }
        }
    }

    /// Passes each event on, until one is not taken.
    pub(crate) fn each(&self, mut to: impl FnMut(&Event<'_>)) {
        for (seq, (at, made)) in (0..).zip(&self.events) {
            let origin = &self.origins[*at];
            let what = match made {
                Made::Began => What::Began,
                Made::Ended => What::Ended,
                Made::Lost(loss) => What::Lost(*loss),
                Made::Record { pos, kind, bytes, time, late } => {
                    let record =
                        RecordRef { pos: *pos, kind: *kind, bytes, time: *time, writer: None };
                    What::Record(Rec::new_late(record, origin, *late))
                }
            };
            to(&Event { seq, origin, what });
        }
    }
}

fn timestamp(input: &mut Input<'_>) -> Option<u64> {
    match input.u8() {
        0..200 => Some(u64::from(input.u32())),
        200..230 => Some(input.number(1 << 50, 1 << 40)),
        _ => None,
    }
}

fn origin(input: &mut Input<'_>, id: u32) -> Origin {
    let shape = input.u8();
    let mut types = if shape & 1 == 0 { known().clone() } else { TypeTable::default() };
    for at in 0..u32::from(shape >> 1 & 3) {
        let id = RecordType::new(7000 + at).expect("an application's");
        if let Ok(kind) = Type::parse(id, &input.text(4096)) {
            types.add(kind);
        }
    }
    let anchor = |input: &mut Input<'_>| Anchor {
        pos: input.number(0, 4096),
        clock_ns: input.number(1 << 40, 1 << 30),
        realtime_ns: input.number(1 << 60, 1 << 30),
        error_ns: 0,
    };
    Origin {
        id,
        name: if shape & 64 == 0 { format!("ring {id}") } else { input.text(300) },
        location: if shape & 64 == 0 { "/dev/shm/ring".to_owned() } else { input.text(300) },
        uuid: [id as u8; 16],
        epoch: shape.into(),
        policy: [Some(Policy::Drop), Some(Policy::Overwrite), None][usize::from(shape >> 3) % 3],
        timed: shape & 128 == 0,
        data_size: 1 << (12 + shape % 8),
        producer: OwnerInfo {
            pid: input.u8().into(),
            name: format!("p{id}"),
            ..OwnerInfo::default()
        },
        boot: [shape >> 6; 16],
        birth: (shape & 4 != 0)
            .then(|| Birth { namespace: input.u8().into(), started_ns: input.u8().into() }),
        per_cpu: shape & 16 != 0,
        types,
        anchors: (0..shape >> 5 & 3).map(|_| anchor(input)).collect(),
    }
}

fn payload(kind: Option<&Type>, input: &mut Input<'_>) -> Vec<u8> {
    let Some(kind) = kind else { return input.bytes(256).to_vec() };
    match kind.encoding.known() {
        Some(Encoding::Tagged) => {
            let mut payload = Vec::new();
            let mut writer = TaggedWriter::new(&mut payload);
            write_tagged(input, NAMES, &mut writer);
            if input.u8() == 0 {
                // Unchanged, except for a byte or two.
                let len = payload.len().max(1);
                for _ in 0..2 {
                    let at = usize::from(input.u16()) % len;
                    if let Some(byte) = payload.get_mut(at) {
                        *byte ^= input.u8();
                    }
                }
            }
            payload
        }
        Some(Encoding::Pod) if kind.size < 1 << 12 && input.u8() < 250 => {
            let mut payload = input.take(kind.size as usize).to_vec();
            payload.resize(kind.size as usize, 0);
            payload
        }
        _ => input.bytes(1024).to_vec(),
    }
}
