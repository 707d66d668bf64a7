//! The files as pyarrow reads them.
#![cfg(feature = "parquet")]

use crate::common::shapes::{JSON, TAGGED, full_ring, lapped_ring, publish, tagged};
use crate::common::{Followed, close_at_once, python, skip};
use crate::feed::{Feed, Numbers};

use perfring_consumer::RecordType;
use perfring_export::{Output, Parquet, ParquetOptions, Timestamps};
use perfring_producer::{Options, Producer};
use perfring_telemetry::{
    FIRST, Gauge, Histogram, Log, Severity, SpanEnd, SpanId, SpanKind, SpanStart, Status, Sum,
    TraceId,
};
use perfring_types::read::Value;
use perfring_types::{Class, Constant, Encoding, Field, Record, Schema, Shape};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::path::Path;

/// A plain struct whose fields are one name for a reader that ignores case.
#[repr(C)]
#[derive(Clone, Copy, Record, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(non_snake_case, reason = "that is what is tested")]
struct Cases {
    id: u32,
    ID: u32,
    Id_: u32,
    Time: u32,
}

/// A file as pyarrow reads it.
struct File {
    types: Json,
    rows: Vec<Json>,
    groups: u64,
}

fn read(path: &Path) -> Option<HashMap<String, File>> {
    let script = include_str!("readers/parquet.py");
    let Some(out) = python("pyarrow", script, &[path.to_str().unwrap()]) else {
        skip("Python has no pyarrow (pip: pyarrow)");
        return None;
    };
    let file = |line: &str| {
        let mut file: Json = serde_json::from_str(line).unwrap();
        let Json::Array(rows) = file["rows"].take() else { panic!("{line}") };
        let groups = file["groups"].as_u64().unwrap();
        (
            file["file"].as_str().unwrap().to_owned(),
            File { types: file["types"].take(), rows, groups },
        )
    };
    Some(out.lines().map(file).collect())
}

/// Converts a value to its form in a column.
fn cell(value: &Value) -> Json {
    match value {
        Value::I128(value) => json!(value.to_string()),
        Value::U128(value) => json!(value.to_string()),
        Value::F32(value) => json!(f64::from(*value)),
        Value::Label { value, name: None } => json!(value.to_string()),
        Value::List(values) => values.iter().map(cell).collect(),
        other => serde_json::to_value(other).unwrap(),
    }
}

/// Checks that the row has all fields of the value: in columns, in those of its structs, or in
/// `more`.
fn check_fields(row: &Json, before: &str, value: &Value) -> usize {
    let Value::Struct(fields) = value else {
        assert_eq!(row["value"], cell(value));
        return 1;
    };
    let mut count = 0;
    for (name, value) in fields {
        let name = format!("{before}{name}");
        if let (Value::Struct(_), true) = (value, row.get(&name).is_none()) {
            count += check_fields(row, &format!("{name}."), value);
            continue;
        }
        count += 1;
        let shown = match &row[&name] {
            // Other values than plain lists are JSON.
            Json::String(text) if matches!(value, Value::List(_) | Value::Struct(_)) => {
                let json: Json = serde_json::from_str(text).unwrap();
                assert_eq!(json, serde_json::to_value(value).unwrap());
                continue;
            }
            other => other,
        };
        assert_eq!(shown, &cell(value), "{name}");
    }
    count
}

/// Checks that all of the ring's records and losses are present, in their order. Returns their
/// numbers.
fn check(files: &HashMap<String, File>, ring: &Followed) -> (usize, usize) {
    let name = &ring.origin.name;
    let mut rows: HashMap<u64, &Json> = HashMap::new();
    let mut order: HashMap<&str, u64> = HashMap::new();
    for (file, table) in files.iter().filter(|(file, _)| *file != "losses.parquet") {
        for row in table.rows.iter().filter(|row| row["ring"] == json!(name)) {
            let pos = row["pos"].as_u64().unwrap();
            assert!(rows.insert(pos, row).is_none());
            let before = order.insert(file, pos);
            assert!(before.is_none_or(|before| before < pos));
        }
    }
    let records = ring.records();
    assert_eq!(rows.len(), records.len());
    for record in &records {
        let row = rows[&record.pos];
        assert_eq!(row["time"].as_u64(), record.wall);
        assert_eq!(row["boottime"].as_u64(), record.time);
        assert_eq!(row["late"], json!(0));
        assert_eq!(row["ring_uuid"], json!(ring.origin.uuid_text()));
        match &record.value {
            Some(value) => {
                assert_eq!(row["type_name"], json!(record.name));
                check_fields(row, "", value);
            }
            None => {
                assert_eq!(row["payload"], cell(&Value::Bytes(record.bytes.clone())));
                assert_eq!(row["damage"].is_null(), record.name.is_empty());
                assert_eq!(row["type_name"].is_null(), record.name.is_empty());
            }
        }
    }
    let losses: Vec<_> = files["losses.parquet"]
        .rows
        .iter()
        .filter(|row| row["ring"] == json!(name))
        .map(|row| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (number("pos"), number("records"), number("bytes"), row["cause"].as_str().unwrap())
        })
        .collect();
    let lost = ring.losses();
    let expected: Vec<_> =
        lost.iter().map(|lost| (lost.pos, lost.records, lost.bytes, lost.cause.name())).collect();
    assert_eq!(losses, expected);
    (records.len(), lost.len())
}

#[test]
fn pyarrow_reads_every_record_and_every_loss() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let rings =
        [full_ring(&dir.path().join("full"), 1), lapped_ring(&dir.path().join("lapped"), 2)];
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    rings.iter().for_each(|ring| ring.export(&mut out));
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    let counts = rings.each_ref().map(|ring| check(&files, ring));
    println!("{counts:?} records and losses");
    assert!(counts.iter().all(|(records, losses)| *records > 800 && *losses == 5));

    let types = &files["perfring-export.Plain.parquet"].types;
    let expected = json!({
        "time": "timestamp[ns, tz=UTC]", "boottime": "uint64", "ring": "string",
        "ring_uuid": "string", "pos": "uint64", "late": "uint64", "type": "uint32",
        "type_name": "string", "number": "uint64", "price": "double", "delta": "int64",
        "at.x": "float", "at.y": "int32", "took": "uint32", "small": "int16", "tiny": "uint8",
        "state": "string", "market": "string", "last": "list<element: int32>", "raw": "binary",
    });
    assert_eq!(types, &expected);
    let types = &files["perfring-export.Line.parquet"].types;
    assert_eq!(
        (&types["code"], &types["tags"]),
        (&json!("int32"), &json!("list<element: string>"))
    );
    let types = &files["demo.Tagged_event.parquet"].types;
    assert_eq!((&types["http.status"], &types["ok"]), (&json!("int64"), &json!("bool")));
    assert_eq!(
        (&types["shares"], &types["large"]),
        (&json!("list<element: double>"), &json!("string"))
    );
}

#[test]
fn little_memory_and_short_files_change_nothing_but_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let ring = lapped_ring(&dir.path().join("ring"), 1);
    let options = ParquetOptions { memory: 20_000, rows: 100, ..ParquetOptions::new(&path) };
    let mut out = Parquet::open("parquet", &options).unwrap();
    ring.export(&mut out);
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    check(&files, &ring);
    let plain = |at: &str| &files[&format!("perfring-export.Plain{at}.parquet")];
    assert!(plain("").rows.len() == 100 && plain("-2").rows.len() < 100);
    assert!(plain("").groups > 1);
}

#[test]
fn a_signal_has_one_table_whatever_types_its_records_have() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    out.add_resource(
        &[("service.name", "other"), ("k8s.pod.name", "shop-7")].map(|(n, v)| (n.into(), v.into())),
    );
    let mut feed = Feed::new(1, "shop");
    let (trace, span) = (TraceId([7; 16]), SpanId([8; 8]));
    // Each of the two call sites has its type. The level is a constant of the first one.
    let line = [
        Field::new("body", 0, Shape::ANY),
        Field::new("order", 0, Shape::ANY),
        Field::constant("severity_number", Constant::U64(13)),
    ];
    let site = feed.sink.declare(Class::Log, "shop:17", "", &line).unwrap();
    feed.sink.write(site, |writer| writer.text(FIRST, "late")).unwrap();
    let attributes = &[("http.status", 500u64.into()), ("body", "mine".into())];
    let severity = Some(Severity::Error);
    feed.sink.emit(&Log { severity, body: 5u64.into(), attributes, ..Log::default() }).unwrap();
    feed.sink
        .emit(&SpanStart { kind: Some(SpanKind::Server), ..SpanStart::new(trace, span, "buy") })
        .unwrap();
    let status = Some((Status::Error, "no stock"));
    feed.sink
        .emit(&SpanEnd { status, duration_nano: Some(5), ..SpanEnd::new(trace, span, "buy") })
        .unwrap();
    feed.sink.emit(&Gauge { unit: "1", ..Gauge::new("cpu.use", 0.5) }).unwrap();
    feed.sink.emit(&Sum::cumulative("requests", (1u64 << 60) + 1)).unwrap();
    feed.sink.emit(&Histogram::state("size", &[1.0, 2.0], &[1, 0, 2])).unwrap();
    feed.pump(&mut Numbers::default(), &mut out);
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    let mut names: Vec<&str> = files.keys().map(String::as_str).collect();
    names.sort_unstable();
    let signals = ["logs", "losses", "metrics", "resources", "spans"];
    assert_eq!(names, signals.map(|name| format!("{name}.parquet")));
    let table = |name: &str| &files[&format!("{name}.parquet")];
    let cells = |row: &Json, names: &[&str]| -> Json {
        names
            .iter()
            .map(|name| row.get(*name).unwrap_or_else(|| panic!("no {name}")).clone())
            .collect()
    };
    let logs = &table("logs").rows;
    let of_log = ["class", "type_name", "severity_number", "severity_text", "body"];
    assert_eq!(cells(&logs[0], &of_log), json!(["log", "shop:17", 13, null, "late"]));
    assert_eq!(cells(&logs[1], &of_log), json!(["log", "perfring.Log", 17, "ERROR", "5"]));
    let more: Json = serde_json::from_str(logs[1]["attributes"].as_str().unwrap()).unwrap();
    assert_eq!(more, json!({"http.status": 500, "attributes.body": "mine"}));
    assert_eq!(logs[1]["process.pid"], json!(std::process::id()));
    let spans = &table("spans").rows;
    let of_span = [
        "class",
        "span_id",
        "name",
        "kind",
        "duration_nano",
        "status.code",
        "status.message",
        "attributes",
    ];
    let id = "08".repeat(8);
    assert_eq!(
        cells(&spans[0], &of_span),
        json!(["span_start", id, "buy", 2, null, null, null, null])
    );
    assert_eq!(
        cells(&spans[1], &of_span),
        json!(["span_end", id, "buy", null, 5, 2, "no stock", null])
    );
    let metrics = &table("metrics").rows;
    let of_metric = [
        "class",
        "name",
        "unit",
        "value",
        "value.integer",
        "aggregation_temporality",
        "bucket_counts",
    ];
    assert_eq!(
        cells(&metrics[0], &of_metric),
        json!(["gauge", "cpu.use", "1", 0.5, null, null, null])
    );
    let whole = (1u64 << 60) + 1;
    assert_eq!(
        cells(&metrics[1], &of_metric),
        json!(["sum", "requests", null, whole as f64, whole, 2, null])
    );
    assert_eq!(
        cells(&metrics[2], &of_metric),
        json!(["histogram", "size", null, null, null, 1, [1, 0, 2]])
    );
    assert_eq!(metrics[2]["explicit_bounds"], json!([1.0, 2.0]));
    let resource = &table("resources").rows[0];
    let more: Json = serde_json::from_str(resource["attributes"].as_str().unwrap()).unwrap();
    assert_eq!((&resource["class"], &more["service.name"]), (&json!("resource"), &json!("shop")));
    assert_eq!(more["k8s.pod.name"], json!("shop-7"));
}

/// Records whose fields change, or have names that are taken.
#[test]
fn fields_without_a_column_are_in_more() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("out"), dir.path().join("ring"));
    let create = Options { size: 1 << 20, time: true, ..Options::default() };
    let mut producer = Producer::create(&ring, &create).unwrap();
    let mut followed = Followed::open(&ring, 1);
    producer.register(&JSON).unwrap();
    for at in 0..2000 {
        // The first 1024 determine the columns.
        let json = match at {
            7 => r#"{"mixed":[1]}"#,
            0..1024 => r#"{"time":1,"a":-1,"b":"text","more":true,"mixed":1}"#,
            _ => r#"{"a":9223372036854775808,"new":{"x":[1]},"b":5,"mixed":"s"}"#,
        };
        producer.publish_as(JSON.id, json.as_bytes()).unwrap();
    }
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    followed.read().export(&mut out);
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    let file = &files["demo.Json.parquet"];
    let own = |row: &Json| {
        ["field.time", "a", "b", "field.more", "mixed", "more"].map(|name| row[name].clone())
    };
    assert_eq!(
        own(&file.rows[0]),
        [json!(1), json!(-1), json!("text"), json!(true), json!("1"), Json::Null]
    );
    let more = r#"{"a":9223372036854775808,"new":{"x":[1]},"b":5}"#;
    let null = Json::Null;
    assert_eq!(
        own(&file.rows[1999]),
        [null.clone(), null.clone(), null.clone(), null, json!("\"s\""), json!(more)]
    );
    assert_eq!(file.rows.len(), 2000);
}

/// Spark refuses names that differ only in case, and DuckDB returns one column for both.
#[test]
fn columns_that_differ_only_in_case_have_names_that_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("out"), dir.path().join("ring"));
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    producer.register(&JSON).unwrap();
    for json in [r#"{"id":1,"ID":2,"Time":3,"MORE":4}"#, r#"{"ID":5,"id":6,"Ring":7}"#] {
        producer.publish_as(JSON.id, json.as_bytes()).unwrap();
    }
    producer.publish_pod(&Cases { id: 8, ID: 9, Id_: 10, Time: 11 }).unwrap();
    let mut followed = Followed::open(&ring, 1);
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    followed.read().export(&mut out);
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    for (file, table) in &files {
        let names: Vec<_> =
            table.types.as_object().unwrap().keys().map(|name| name.to_lowercase()).collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{file}: {names:?}");
    }
    let own = |file: &str, at: usize, names: &[&str]| -> Vec<Json> {
        let row = &files[file].rows[at];
        names.iter().map(|name| row[*name].clone()).collect()
    };
    let names = ["id_", "ID", "field.Time", "field.MORE", "field.Ring"];
    let null = Json::Null;
    assert_eq!(
        own("demo.Json.parquet", 0, &names),
        [json!(1), json!(2), json!(3), json!(4), null.clone()]
    );
    assert_eq!(
        own("demo.Json.parquet", 1, &names),
        [json!(6), json!(5), null.clone(), null, json!(7)]
    );
    let pod = own("perfring-export.Cases.parquet", 0, &["id__", "ID", "Id_", "field.Time"]);
    assert_eq!(pod, [8, 9, 10, 11].map(|number| json!(number)));
}

#[test]
fn times_are_microseconds_where_a_reader_has_no_nanoseconds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let ring = full_ring(&dir.path().join("full"), 1);
    let options = ParquetOptions { timestamps: Timestamps::Us, ..ParquetOptions::new(&path) };
    let mut out = Parquet::open("parquet", &options).unwrap();
    ring.export(&mut out);
    close_at_once(out);
    let walls: HashMap<u64, u64> =
        ring.records().iter().map(|record| (record.pos, record.wall.unwrap())).collect();
    let Some(files) = read(&path) else { return };
    let mut rows = 0;
    for (file, table) in &files {
        assert_eq!(table.types["time"], json!("timestamp[us, tz=UTC]"), "{file}");
        for row in table.rows.iter().filter(|_| file != "losses.parquet") {
            let wall = walls[&row["pos"].as_u64().unwrap()];
            assert_eq!(row["time"].as_u64(), Some(wall / 1000), "{file}");
            rows += 1;
        }
    }
    assert_eq!(rows, walls.len());
}

#[test]
fn types_of_one_name_share_a_file_if_they_have_the_same_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    let mut rings = Vec::new();
    for id in 0..3u32 {
        let ring = dir.path().join(format!("ring {id}"));
        let mut producer =
            Producer::create(&ring, &Options { time: true, ..Options::default() }).unwrap();
        publish(&mut producer, 0).unwrap();
        // The same name under another number; in the last ring it is of another encoding.
        let kind = RecordType::new(6000 + id).unwrap();
        let encoding = if id == 2 { Encoding::Utf8 } else { Encoding::Tagged };
        producer.register(&Schema { id: kind, encoding, ..TAGGED }).unwrap();
        let payload = if id == 2 { b"text".to_vec() } else { tagged(id.into()) };
        producer.publish_as(kind, &payload).unwrap();
        let mut followed = Followed::open(&ring, id + 1);
        followed.read().export(&mut out);
        rings.push(followed);
    }
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    rings.iter().for_each(|ring| assert_eq!(check(&files, ring).0, 2));
    let mut names: Vec<_> = files.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["demo.Tagged_event.parquet", "losses.parquet", "perfring-export.Plain.parquet"]
    );
    assert_eq!(files["perfring-export.Plain.parquet"].rows.len(), 3);
    assert_eq!(files["losses.parquet"].rows.len(), 0);
}

#[test]
fn another_directory_is_not_changed_and_an_unfinished_output_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let ring = full_ring(&dir.path().join("ring"), 1);
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    ring.export(&mut out);
    assert!(path.read_dir().unwrap().count() > 0);
    drop(out);
    assert_eq!(path.read_dir().unwrap().count(), 0);
    std::fs::write(path.join("thesis.tex"), "mine").unwrap();
    let overwrite = ParquetOptions { overwrite: true, ..ParquetOptions::new(&path) };
    let refused = Parquet::open("parquet", &overwrite).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    assert!(path.join("thesis.tex").exists());
}

#[test]
fn nothing_is_delivered_before_its_file_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("files");
    let ring = full_ring(&dir.path().join("full"), 1);
    let mut out = Parquet::open("parquet", &ParquetOptions::new(&path)).unwrap();
    ring.events(7, |event| {
        out.take(event).unwrap();
    });
    out.flush().unwrap();
    assert_eq!(out.unsettled(), Some(8)); // all but the ring's beginning
    assert_eq!(out.figures().delivered, 0);
    close_at_once(out);

    // With one row in each file all is delivered at once, except rows that wait for their columns;
    // and those are all present in the end.
    let path = dir.path().join("rows");
    let options = ParquetOptions { rows: 1, ..ParquetOptions::new(&path) };
    let mut out = Parquet::open("parquet", &options).unwrap();
    ring.export(&mut out);
    assert!(out.figures().delivered > 0);
    close_at_once(out);
    let Some(files) = read(&path) else { return };
    let rows = files.iter().filter(|(name, _)| !name.starts_with("losses"));
    assert_eq!(rows.map(|(_, file)| file.rows.len()).sum::<usize>(), ring.records().len());
}
