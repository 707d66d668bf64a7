//! The golden files of type tables.

use super::account::{Golden, PAGE, options};
use super::script::Script;
use bytemuck::{Pod, Zeroable};
use perfring_abi::{Policy, RecordType};
use perfring_producer::Options;
use perfring_types::{Class, Constant, Encoding, Enum, Record, Schema, Shape};
use perfring_types::{Field as Part, tagged::TaggedWriter};
use rkyv::{Archive, Serialize};
use serde_json::{Value, json};

/// Makes all of them.
pub(super) fn all() -> Vec<Golden> {
    vec![typed()]
}

// Doc comments of types are in the golden files: they stay.
/// What a valve did.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, Record)]
#[record(name = "golden.Valve", id = 5000)]
struct Valve {
    /// Since it was built.
    #[record(unit = "s")]
    age: u64,
    state: Enum<State>,
    #[record(hex)]
    key: [u8; 3],
    #[record(text)]
    name: [u8; 4],
    flow: [Flow; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, Record)]
struct Flow {
    #[record(unit = "l/min")]
    rate: f32,
    turns: i16,
    _pad: [u8; 2],
}

#[repr(u8)]
#[derive(Clone, Copy, Record)]
enum State {
    Shut = 0,
    Open = 1,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv, name = "golden.Line", version = 3, id = 5001)]
struct Line {
    message: String,
    short: String,
    code: Option<u16>,
    tags: Vec<String>,
}

const TEXT: Schema<'static> =
    Schema { id: RecordType::new(5002).unwrap(), ..Schema::new("golden.Text", Encoding::Utf8) };

const EVENT: Schema<'static> = Schema {
    id: RecordType::new(5003).unwrap(),
    class: Class::Log,
    help: "quotes \" and \\ and a tab\t",
    fields: &[
        Part::constant("severity_number", Constant::U64(17)),
        Part::new("body", 0, Shape::ANY),
        Part::new("took", 0, Shape::ANY),
        Part::new("never", 0, Shape::ANY),
    ],
    ..Schema::new("golden.Event", Encoding::Tagged)
};

/// The expected type table, and the expected values of the records.
struct Shown {
    types: Vec<Value>,
    fields: Vec<Value>,
}

impl Shown {
    fn register(&mut self, script: &mut Script, schema: &Schema<'_>) {
        script.producer().register(schema).unwrap();
        let layout = format!("{:016x}", schema.layout());
        let (id, text) = (schema.id.get(), schema.to_json());
        self.types.push(json!({ "id": id, "layout": layout, "text": text }));
    }

    fn publish(&mut self, script: &mut Script, kind: RecordType, payload: &[u8], fields: Value) {
        script.publish(kind.get(), payload);
        self.fields.push(fields);
    }

    fn add_to(self, mut golden: Golden) -> Golden {
        golden.expect["types"] = self.types.into();
        golden.expect["fields"] = self.fields.into();
        golden
    }
}

fn with_types(what: &'static str) -> (Script, Shown) {
    let options = Options { types_size: PAGE, ..options(Policy::Drop) };
    let script = Script::new(what, options).with_producer();
    (script, Shown { types: Vec::new(), fields: Vec::new() })
}

fn typed() -> Golden {
    let what = "A ring with a type table: a plain struct, an rkyv archive, text, a tagged record with \
                a constant, and a record of a type that is not in the table.";
    let (mut script, mut shown) = with_types(what);
    shown.register(&mut script, &Valve::SCHEMA);
    let valve = Valve {
        age: 1 << 60,
        state: State::Open.into(),
        key: [0, 0xab, 0xff],
        name: *b"V-1\0",
        flow: [
            Flow { rate: 1.5, turns: -2, _pad: [0; 2] },
            Flow { rate: -0.0, turns: 7, _pad: [0; 2] },
        ],
    };
    let flows = json!([{ "rate": 1.5, "turns": -2 }, { "rate": -0.0, "turns": 7 }]);
    let fields = json!({
        "age": 1u64 << 60, "state": "Open", "key": "00abff", "name": "V-1", "flow": flows,
    });
    shown.publish(&mut script, Valve::SCHEMA.id, bytemuck::bytes_of(&valve), fields);

    shown.register(&mut script, &Line::SCHEMA);
    let line = Line {
        message: "a message of more than eight bytes, ä".to_owned(),
        short: "short".to_owned(),
        code: Some(404),
        tags: vec![String::new(), "exactly8".to_owned(), "nine long".to_owned()],
    };
    let fields = json!({
        "message": line.message.clone(), "short": "short", "code": 404, "tags": line.tags.clone(),
    });
    let archive = rkyv::to_bytes::<rkyv::rancor::Error>(&line).unwrap();
    shown.publish(&mut script, Line::SCHEMA.id, &archive, fields);

    shown.register(&mut script, &TEXT);
    shown.publish(&mut script, TEXT.id, "grüß".as_bytes(), json!("grüß"));
    shown.publish(&mut script, RecordType::BYTES, b"of no type", Value::Null);

    shown.register(&mut script, &EVENT);
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.text(1, "valve stuck");
    writer.f64(2, 0.25);
    writer.u64("turns", 3);
    let fields = json!({ "severity_number": 17, "body": "valve stuck", "took": 0.25, "turns": 3 });
    shown.publish(&mut script, EVENT.id, &payload, fields);
    shown.add_to(script.end("typed"))
}
