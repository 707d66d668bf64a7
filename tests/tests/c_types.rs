//! Types from C: the same entries, ids and refusals as from Rust, and records that are shown by field names.

use perfring_consumer::{Item, Snapshot};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{Options, Producer, RecordType, ReserveError};
use perfring_testkit::rng::Rng;
use perfring_tests::c_schema::{any_schema, odd_floats, to_c};
use perfring_tests::foreign::{Build, c_program, lines};
use perfring_tests::{OTHER_TYPE, ring_dir, skip, workspace};
use perfring_types::read::TypeTable;
use perfring_types::{Class, Constant, Field, Kind, Shape};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// `c_types.c` with these schemas.
fn c_types(build: Build, schemas: &[Schema<'_>], dir: &Path) -> Option<PathBuf> {
    fs::write(dir.join("schemas.h"), to_c(schemas)).unwrap();
    c_program(build, "tests/foreign/c_types.c", dir)
}

#[test]
fn c_makes_the_entries_that_rust_makes() {
    let dir = ring_dir();
    let mut rng = Rng::new(17);
    let mut schemas: Vec<_> = (0..80).map(|_| any_schema(&mut rng)).collect();
    schemas.push(odd_floats());
    let mut bytes = 0;
    for build in [Build::C11, Build::Cxx17, Build::Sanitized] {
        let Some(exe) = c_types(build, &schemas, dir.path()) else {
            skip("there is no g++, which compiles the C headers as C++");
            continue;
        };
        let said = lines(&exe, &[], Path::new("entries"));
        assert_eq!(said.len(), schemas.len());
        for (line, schema) in said.iter().zip(&schemas) {
            let entry: Vec<_> =
                schema.to_entry().into_iter().flat_map(|word| word.to_ne_bytes()).collect();
            let hex: String = entry.iter().map(|byte| format!("{byte:02x}")).collect();
            let ours = format!("{} {} {hex}", schema.id.get(), schema.layout());
            assert_eq!(*line, ours, "{build:?}: {}", schema.to_json());
            bytes += entry.len();
        }
    }
    println!("{bytes} bytes of entries agree");
}

/// The type table in the file of a ring.
fn table(ring: &Path) -> Vec<u8> {
    let (file, layout) = (fs::read(ring).unwrap(), *Snapshot::take(ring).unwrap().layout());
    let at = layout.areas().types.start as usize;
    file[at..at + layout.types_size as usize].to_vec()
}

#[test]
fn what_c_registers_is_what_rust_registers() {
    let dir = ring_dir();
    let [ours, theirs] = ["ours", "theirs"].map(|name| dir.path().join(name));
    let mut rng = Rng::new(18);
    let mut schemas = Vec::new();
    // A chosen id, other words for the same id, another type under it, and a schema that is too long.
    let id = RecordType::new(5000).unwrap();
    schemas.push(Schema { id, ..Schema::new("c.First", Encoding::Json) });
    schemas.push(Schema { id, help: "in other words", ..Schema::new("c.First", Encoding::Json) });
    schemas.push(Schema { id, ..Schema::new("c.Second", Encoding::Json) });
    schemas.push(Schema {
        help: "long ".repeat(250_000).leak(),
        ..Schema::new("c.Long", Encoding::Json)
    });
    schemas.extend((0..25).map(|_| any_schema(&mut rng)));
    let exe = c_types(Build::Sanitized, &schemas, dir.path()).expect("install gcc");
    for types_size in [0, 4096, 1 << 20] {
        let options = Options { types_size, ..Options::default() };
        let _ = (fs::remove_file(&ours), fs::remove_file(&theirs));
        let mut producer = Producer::create(&ours, &options).unwrap();
        perfring_producer::files::create(&theirs, &options).unwrap();
        let said = lines(&exe, &["register"], &theirs);
        assert_eq!(said.len(), 2 * schemas.len());
        let (mut registered, mut refused) = (0, 0);
        for (line, schema) in said.iter().zip(schemas.iter().chain(&schemas)) {
            let (code, why) = line.split_once(' ').unwrap();
            match producer.register(schema) {
                Ok(()) => {
                    assert_eq!(code, "0", "{why}");
                    registered += 1;
                }
                Err(error @ ReserveError::Type(_)) => {
                    assert_eq!(why, error.to_string(), "{code}");
                    assert!(["-20", "-21", "-22"].contains(&code), "{line}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        println!("types_size {types_size}: {registered} registered, {refused} refused");
        if types_size == 0 {
            assert_eq!(registered, 0, "there is no table");
            continue;
        }
        assert!(registered > 2 && refused >= 4, "{registered} {refused}");
        drop(producer);
        assert!(table(&ours) == table(&theirs), "the tables differ");
    }
}

#[test]
fn c_refuses_what_is_no_schema_and_leaves_the_table_alone() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &Options::default()).unwrap();
    let exe = c_types(Build::Sanitized, &[OTHER_TYPE], dir.path()).expect("install gcc");
    let said = lines(&exe, &["wrong"], &ring);
    let about = ["kernel's", "not UTF-8", "not UTF-8", "u65", "4 bytes, and its kind is u64"];
    assert_eq!(said.len(), about.len());
    for (line, about) in said.iter().zip(about) {
        assert!(line.starts_with("-1") && line.contains(about), "{line}");
    }
    assert_eq!(Snapshot::take(&ring).unwrap().types().entries().count(), 0);
}

#[test]
fn c_takes_the_tables_lock_and_adds_nothing_to_a_damaged_table() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &Options::default()).unwrap();
    let exe = c_types(Build::Sanitized, &[OTHER_TYPE], dir.path()).expect("install gcc");
    let at = Snapshot::take(&ring).unwrap().layout().areas().types.start;
    let file = OpenOptions::new().read(true).write(true).open(&ring).unwrap();
    lock(&file, at);
    let said = lines(&exe, &["register"], &ring);
    assert!(said.iter().all(|line| line.starts_with("-23 another process holds")), "{said:?}");
    drop(file);
    assert_eq!(lines(&exe, &["register"], &ring), ["0 ", "0 "]);

    let file = OpenOptions::new().read(true).write(true).open(&ring).unwrap();
    let good = table(&ring);
    let schema = Schema::new("c.Another", Encoding::Json).with_hashed_id();
    let exe = c_types(Build::Sanitized, &[schema], dir.path()).expect("install gcc");
    for (offset, word) in [(64, 8u64), (64, u64::MAX), (72, 0), (88, 1), (0, 72)] {
        file.write_all_at(&word.to_ne_bytes(), at + offset).unwrap();
        let before = table(&ring);
        let mut producer = Producer::attach(&ring).unwrap();
        let ours = producer.register(&schema);
        drop(producer);
        file.write_all_at(&before, at).unwrap();
        let said = lines(&exe, &["register"], &ring);
        match ours {
            Ok(()) => assert_eq!(said[0], "0 ", "{word:#x} at {offset}"),
            Err(error) => {
                assert_eq!(said[0], format!("-12 {error}"), "{word:#x} at {offset}");
                assert!(table(&ring) == before);
            }
        }
        file.write_all_at(&good, at).unwrap();
    }
}

fn lock(file: &fs::File, byte: u64) {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
}

#[test]
fn the_records_of_a_typed_producer_in_c_are_shown_by_field_names() {
    let dir = ring_dir();
    for build in [Build::C11, Build::Cxx17, Build::Sanitized] {
        let Some(exe) = c_program(build, "proto/examples/typed_producer.c", dir.path()) else {
            skip("there is no g++, which compiles the C headers as C++");
            continue;
        };
        let ring = dir.path().join(format!("{build:?}"));
        perfring_producer::files::create(&ring, &Options::default()).unwrap();
        let _ = lines(&exe, &[], &ring);
        // The second finds its type registered.
        let _ = lines(&exe, &[], &ring);
        let snapshot = Snapshot::take(&ring).unwrap();
        assert_eq!(snapshot.types().entries().count(), 1);
        let types = TypeTable::from_words(snapshot.types().words());
        let mut shown = Vec::new();
        for item in &snapshot {
            let Item::Record(record) = item.unwrap() else { panic!("nothing was lost") };
            let order = types.get(RecordType::new(record.kind).unwrap()).unwrap();
            shown.push(order.render_text(&order.decode(record.bytes).unwrap()));
        }
        let two = [
            "id=1 age=0.5 s side=buy venue=XETRA prices=[12.5 12.25]",
            "id=2 age=0.25 s side=sell venue=Bourse prices=[99.0 98.5]",
        ];
        assert_eq!(shown, [two, two].concat());
    }
}

/// The examples of ABI.md, "Types", on which an author tries an implementation.
#[test]
fn the_vectors_of_the_document_are_rusts() {
    const READING: Schema<'static> = Schema::new("demo.Reading", Encoding::Pod).with_fields(
        16,
        &[
            Field {
                unit: "Cel",
                help: "of the room",
                ..Field::new("value", 0, Shape::plain(Kind::F64, 8))
            },
            Field::new("sensor", 8, Shape::plain(Kind::Text, 8)),
        ],
    );
    const U8: Shape<'static> = Shape::plain(Kind::U8, 1);
    const STATES: Shape<'static> = Shape {
        of: Some(&U8),
        labels: &[
            perfring_types::Label { value: 0, name: "idle" },
            perfring_types::Label { value: 1, name: "busy" },
        ],
        ..Shape::plain(Kind::Enum, 1)
    };
    const WORKERS: Schema<'static> = Schema::new("demo.Workers", Encoding::Pod)
        .with_fields(4, &[Field::new("states", 0, Shape::array(&STATES, 4))]);
    const STARTED: Schema<'static> =
        Schema { class: Class::Log, version: 2, ..Schema::new("demo.Started", Encoding::Tagged) }
            .with_fields(
                0,
                &[
                    Field::constant("severity_number", Constant::U64(9)),
                    Field::constant("body", Constant::Str("started")),
                    Field::new("port", 0, Shape::ANY),
                ],
            );
    let document = fs::read_to_string(workspace().join("proto/ABI.md")).unwrap();
    let line = Schema::new("demo.Line", Encoding::Utf8);
    let mut missing = String::new();
    for schema in [line, READING, WORKERS, STARTED].map(Schema::with_hashed_id) {
        let entry = schema.to_entry();
        let check = entry[1] >> 32;
        let vector = format!(
            "```\ntext    {}\nlayout  0x{:016x}\nid      0x{:08x}\nlen     {}\ncheck   0x{check:08x}\n```",
            schema.to_json(),
            schema.layout(),
            schema.id.get(),
            schema.to_json().len(),
        );
        if !document.contains(&vector) {
            missing += &vector;
        }
    }
    assert!(missing.is_empty(), "ABI.md does not have these vectors:\n{missing}");
}
