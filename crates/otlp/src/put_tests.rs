//! Log records straight from their bytes and those by way of values: the same bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use super::put;
use perfring_consumer::{RecordRef, RecordType};
use perfring_events::signal::{DirectReader, Signal};
use perfring_events::{Key, Origin, Rec};
use perfring_telemetry::names;
use perfring_testkit::rng::Rng;
use perfring_types::tagged::CUT;
use perfring_types::{Class, Entry, read::TypeTable};

const CASES: u64 = 40_000;
const ID: u32 = 5000;
const KEY: Key = Key { uuid: [0xa7; 16], pos: 18_446_744_073_709_551_615, lost: None, sum: None };

/// Names of fields and of values: reserved ones, others, and others that begin as a reserved one that is an attribute.
const NAMES: [&str; 20] = [
    names::TIME,
    names::PID,
    names::SEVERITY_NUMBER,
    names::SEVERITY_TEXT,
    names::BODY,
    names::TRACE_ID,
    names::SPAN_ID,
    names::EVENT_NAME,
    names::OBSERVED_TIME,
    names::SCOPE,
    CUT,
    "a",
    "b",
    "number",
    "http.request.method",
    "attributes.body",
    "attributes.",
    "attributes.a",
    "",
    "name",
];

fn name(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => rng.text(20),
        1 => "long".repeat(rng.index(60)),
        _ => NAMES[rng.index(NAMES.len())].to_owned(),
    }
}

/// Bytes of a value, and its tag: mostly one that the name can have.
fn value(rng: &mut Rng, name: &str) -> (u8, Vec<u8>) {
    let number = |number: u64| number.to_ne_bytes().to_vec();
    if rng.below(8) > 0 {
        match name {
            names::TIME | names::PID | names::OBSERVED_TIME => {
                return (3, number(rng.below(1 << 40)));
            }
            names::SEVERITY_NUMBER => return (3, number(rng.below(26))),
            names::SEVERITY_TEXT | names::EVENT_NAME | names::SCOPE => {
                return (5, rng.text(9).into());
            }
            names::TRACE_ID => return (6, rng.bytes(16)),
            names::SPAN_ID => return (6, rng.bytes(8)),
            _ => {}
        }
    }
    match rng.below(14) {
        0 => (0, Vec::new()),
        1 => (1, vec![rng.below(2) as u8]),
        2 => (2, number(rng.wide() as u64)),
        3 => (3, number(rng.wide() as u64)),
        4 => (4, rng.float().to_ne_bytes().into()),
        5 | 6 => {
            let max = [3, 20, 200, 20_000][rng.index(4)];
            (5, rng.text(max).into())
        }
        7 => {
            let len = rng.index(30);
            (6, rng.bytes(len))
        }
        8 => (7, (rng.wide() as i128).to_ne_bytes().into()),
        9 => (8, rng.wide().to_ne_bytes().into()),
        10 => (9, (0..rng.below(40)).flat_map(|_| rng.float().to_ne_bytes()).collect()),
        11 => (10, (0..rng.below(40)).flat_map(|_| (rng.wide() as u64).to_ne_bytes()).collect()),
        12 => (5, vec![0xff, 0xfe]),
        _ => (rng.below(16) as u8, rng.bytes(8)),
    }
}

/// A text as JSON has it, without characters that would need more.
fn quoted(text: &str) -> String {
    let is_plain = |c: &char| !c.is_control() && !matches!(c, '"' | '\\');
    format!("\"{}\"", text.chars().filter(is_plain).collect::<String>())
}

fn constant(rng: &mut Rng, name: &str) -> String {
    match (name, rng.below(5)) {
        (names::SEVERITY_NUMBER, 1..) => rng.below(26).to_string(),
        (_, 0) => "-3".into(),
        (_, 1) => "0.5".into(),
        (_, 2) => "true".into(),
        _ => quoted(&rng.text(12)),
    }
}

/// Fields of a tagged type as JSON, and their names.
fn tagged(rng: &mut Rng) -> (String, Vec<String>) {
    let names: Vec<String> = (0..rng.below(14)).map(|_| name(rng)).collect();
    let fields = names.iter().map(|name| {
        let shape = match rng.below(12) {
            0 | 1 => format!(r#""constant":{}"#, constant(rng, name)),
            2 if rng.below(3) == 0 => {
                r#""kind":"enum","of":{"kind":"u8"},"labels":[{"value":1,"name":"one"}]"#.into()
            }
            _ => r#""kind":"any""#.into(),
        };
        format!(r#"{{"name":{},{shape}}}"#, quoted(name))
    });
    let fields: Vec<String> = fields.collect();
    (fields.join(","), names)
}

fn tagged_payload(rng: &mut Rng, fields: &[String]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut put = |rng: &mut Rng, number: u16, field: &str| {
        let (tag, value) = value(rng, field);
        let name = if number == 0xffff { field } else { "" };
        let name = &name.as_bytes()[..name.len().min(255)];
        payload.extend(number.to_ne_bytes());
        payload.extend([tag, name.len() as u8]);
        payload.extend((value.len() as u32).to_ne_bytes());
        payload.extend(name);
        payload.extend(&value);
        payload.resize(payload.len().next_multiple_of(8), 0);
    };
    for (number, field) in fields.iter().enumerate() {
        if rng.below(3) > 0 {
            put(rng, number as u16, field);
        }
    }
    for _ in 0..rng.below(5) {
        let name = name(rng);
        put(rng, 0xffff, &name);
    }
    if rng.below(8) == 0 {
        // Twice, out of order, or of no field.
        let number = rng.index(fields.len() + 1);
        let field = fields.get(number).cloned().unwrap_or_default();
        put(rng, number as u16, &field);
    }
    payload
}

/// Fields of a Pod type as JSON, and their size.
fn pod(rng: &mut Rng) -> (String, u32) {
    let (mut fields, mut at, mut seen) = (Vec::new(), 0, Vec::new());
    for _ in 0..rng.below(9) {
        let name = name(rng);
        if seen.contains(&quoted(&name)) {
            continue;
        }
        seen.push(quoted(&name));
        if rng.below(8) == 0 {
            let constant = constant(rng, &name);
            fields.push(format!(r#"{{"name":{},"constant":{constant}}}"#, quoted(&name)));
            continue;
        }
        let (size, shape) = match rng.below(16) {
            0 => (4, r#""kind":"char""#.into()),
            1 => (4, r#""kind":"array","count":4,"of":{"kind":"u8"}"#.into()),
            2 => {
                (1, r#""kind":"enum","of":{"kind":"i8"},"labels":[{"value":0,"name":"no"}]"#.into())
            }
            3 => (8, r#""kind":"text","size":8"#.into()),
            4 => (16, r#""kind":"bytes","size":16"#.into()),
            5 => (1, r#""kind":"bool""#.into()),
            _ => {
                let kinds = [
                    "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32",
                    "f64",
                ];
                let sizes = [1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 4, 8];
                let nth = rng.index(kinds.len());
                (sizes[nth], format!(r#""kind":"{}""#, kinds[nth]))
            }
        };
        fields.push(format!(r#"{{"name":{},"at":{at},{shape}}}"#, quoted(&name)));
        at += size;
    }
    (fields.join(","), at)
}

#[test]
fn a_log_record_from_its_bytes_is_the_one_from_its_values_whatever_it_has() {
    let (mut read, mut logs, mut damaged) = (0, 0, 0);
    for seed in 0..CASES {
        let mut rng = Rng::new(seed);
        let class = ["log", "log", "log", "plain", "gauge"][rng.index(5)];
        let is_pod = rng.below(4) == 0;
        let (fields, names, size) = match is_pod {
            true => {
                let (fields, size) = pod(&mut rng);
                (fields, Vec::new(), size)
            }
            false => {
                let (fields, names) = tagged(&mut rng);
                (fields, names, 0)
            }
        };
        let encoding = if is_pod { "pod" } else { "tagged" };
        let text = format!(
            r#"{{"name":"a.Type","class":"{class}","encoding":"{encoding}","size":{size},"fields":[{fields}]}}"#
        );
        let id = RecordType::new(ID).unwrap();
        let types = TypeTable::from_words(&Entry { id, layout: 0, text: &text }.to_words());
        assert!(types.damage().is_empty(), "{}\n{text}", types.damage()[0]);
        let origin = Origin { types, ..Origin::default() };
        let mut reader = DirectReader::default();
        // The plan is the same for all records.
        for _ in 0..3 {
            let mut payload = match is_pod {
                true if rng.below(2) == 0 => vec![0; size as usize],
                true => rng.bytes(size as usize),
                false => tagged_payload(&mut rng, &names),
            };
            let is_damaged = rng.below(10) == 0 && !payload.is_empty();
            if is_damaged {
                let at = rng.index(payload.len());
                match rng.below(2) {
                    0 => payload.truncate(at),
                    _ => payload[at] ^= 1 << rng.below(8),
                }
            }
            let record = RecordRef { pos: 8, kind: ID, bytes: &payload, time: None, writer: None };
            let record = Rec::new(record, &origin);
            let (mut ours, mut wanted) = (Vec::new(), Vec::new());
            let now = rng.below(2);
            let found = put::direct(&mut reader, (0, &record), true, now, Some(KEY), &mut ours);
            let Some(found) = found else { continue };
            let mut signal = Signal::of(&record);
            match &signal {
                Signal::Log(log) => put::log(log, now, Some(KEY), &mut wanted),
                Signal::Plain(plain) => put::plain(plain, now, Some(KEY), &mut wanted),
                other => panic!("{other:?}"),
            }
            let common = signal.common();
            assert_eq!((found.pid, found.scope), (common.pid, common.scope), "{seed}: {text}");
            assert!(ours == wanted, "seed {seed}: {text}\n{payload:?}\n{ours:?}\n{wanted:?}");
            read += 1;
            logs += u32::from(found.class == Class::Log);
            damaged += u32::from(is_damaged);
        }
    }
    println!(
        "{read} of {} records were read directly, {logs} log records; {damaged} were damaged",
        3 * CASES
    );
    assert!(read > CASES as u32 / 3 && logs > CASES as u32 / 6 && damaged > 100);
}
