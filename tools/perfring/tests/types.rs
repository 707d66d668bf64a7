//! A ring's type table: listed, damaged, and its fill.

use crate::command::{Done, Live, Place, close_and_wait, json_lines, perfring, run};
use crate::kinds::{ALL, LINE, LOG, ORDER, all_kinds};
use perfring_abi::FIELDS;
use perfring_consumer::{Observer, Start};
use perfring_producer::{Producer, RecordType};
use perfring_testkit::rng::Rng;
use perfring_types::Schema;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

const LISTED: &str = "\
demo.Order
  type       5000 (0x1388)
  version    3
  encoding   pod, 56 bytes
  help       An order on the book
   0  id       u64          Counts from 1
   8  age      f32          [s]
  12  side     enum of u8   1=buy 2=\"sell at market\"
  13  venue    text[11]
  24  legs     [struct; 2]
   0    qty    u32          [{piece}]
   8    price  f64          [EUR] Of one

demo.Line
  type       5001 (0x1389)
  version    1
  encoding   utf-8

";

#[test]
fn types_are_listed_with_all_their_fields() {
    let place = Place::new();
    let ring = all_kinds(&place);
    fs::set_permissions(&ring, fs::Permissions::from_mode(0o400)).unwrap();
    let before = fs::read(&ring).unwrap();
    let copy = place.path("copy");
    fs::copy(&ring, &copy).unwrap();
    for file in [&*ring, copy.to_str().unwrap()] {
        let done = run(&["types", file], b"");
        assert_eq!((done.code(), done.err().as_str()), (0, ""));
        let out = done.out();
        assert!(out.starts_with(LISTED), "{out}");
        assert!(out.contains("  class      log\n"), "{out}");
        assert!(out.contains("  severity_text    = \"WARN\"\n"), "{out}");
        assert!(out.contains("  #3  body             any\n"), "{out}");
        let hashed = LOG.id.get();
        assert!(out.contains(&format!("  type       {hashed:#x} ({hashed})\n")), "{out}");
    }
    let lines = json_lines(&run(&["types", "--json", &ring], b"").out());
    assert_eq!(lines.len(), ALL.len());
    for (line, schema) in lines.iter().zip(ALL) {
        let mut as_registered: Value = serde_json::from_str(&schema.to_json()).unwrap();
        as_registered["type"] = schema.id.get().into();
        assert_eq!(*line, as_registered);
    }
    assert!(fs::read(&ring).unwrap() == before, "it wrote to the ring");
}

#[test]
fn a_narrow_terminal_shows_a_fields_remarks_below_it() {
    let place = Place::new();
    let ring = all_kinds(&place);
    for width in ["24", "40", "72"] {
        let done = Done(perfring(&["types", &ring]).env("COLUMNS", width).output().unwrap());
        let columns = width.parse().unwrap();
        for line in done.out().lines().filter(|line| line.trim().contains(' ')) {
            // One word, or text that cannot be wrapped: a field's name and kind.
            let short = line.chars().count() <= columns || line.split_whitespace().count() <= 4;
            assert!(short, "{width}: {line:?}");
        }
    }
    let done = Done(perfring(&["types", &ring]).env("COLUMNS", "40").output().unwrap());
    let below = "  12  side  enum of u8\n          1=buy 2=\"sell at market\"\n";
    assert!(done.out().contains(below), "{}", done.out());
}

#[test]
fn rings_without_types_say_so() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let done = run(&["types", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, ""));
    assert!(done.err().contains("no type was registered"), "{}", done.err());
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&["--types-size", "0"]);
    let done = run(&["types", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, ""));
    assert!(done.err().contains("perfring create --types-size"), "{}", done.err());
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    assert!(producer.register(&LINE).is_err());
    drop(producer);
    fs::remove_file(&ring).unwrap();
    let path = place.path("ring");
    let ring = path.to_str().unwrap();
    run(&["create", ring, "--types-size", "17M"], b"").refuses(2, "up to 16 MiB");
    run(&["types", ring], b"").refuses(3, "perfring create");
    fs::write(&path, b"hello").unwrap();
    run(&["types", ring], b"").refuses(4, "not a perfring file");
}

/// Writes into the type table of a ring, counted from the table's start.
fn scribble(ring: &str, at: u64, bytes: &[u8]) {
    let layout = *Observer::attach(Path::new(ring), Start::Oldest).unwrap().layout();
    let file = File::options().write(true).open(ring).unwrap();
    file.write_all_at(bytes, layout.areas().types.start + at).unwrap();
}

#[test]
fn the_intact_part_of_a_damaged_table_is_used_and_all_records_are_shown() {
    let place = Place::new();
    let ring = all_kinds(&place);
    // Another length of the third entry's text.
    let size = |schema: &Schema<'_>| 8 * schema.to_entry().len() as u64;
    let third = size(&ORDER) + size(&LINE);
    scribble(&ring, 64 + third + 8, &[0xff]);
    let says = format!("damaged {third} bytes after its first entry");
    let done = run(&["types", &ring], b"");
    assert_eq!(done.code(), 4);
    assert!(done.out().starts_with(LISTED.trim_end()), "{}", done.out());
    assert!(done.err().contains(&says) && done.err().lines().count() == 1, "{}", done.err());
    for reader in ["dump", "tail", "consume"] {
        let done = run(&[reader, &ring], b"");
        assert_eq!(done.code(), 4);
        assert!(done.out().starts_with("demo.Order id=1 "), "{}", done.out());
        assert!(done.out().contains("\n{\"b\":[1,2.5,null],\"a\":{\"c\":\"d e\"}}\n17\n"));
        assert_eq!(done.out().lines().count(), 14, "{reader}");
        assert!(done.err().contains(&says), "{}", done.err());
        assert!(!done.out().contains(['\x1b', '\x07']));
    }
}

#[test]
fn a_table_of_noise_is_an_error_and_the_records_are_bytes() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let bytes = Rng::new(1).bytes(65_536);
    scribble(&ring, 0, &bytes);
    let plain = run(&["dump", "--untyped", &ring], b"");
    assert_eq!((plain.code(), plain.out().lines().count()), (4, 14));
    let done = run(&["dump", &ring], b"");
    assert_eq!((done.code(), done.out()), (4, plain.out()));
    assert!(done.err().contains("type table is damaged 0 bytes after"), "{}", done.err());
    run(&["types", &ring], b"").refuses(4, "type table is damaged 0 bytes after");
    // The damage may be in one type's text only.
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&[]);
    let text = r#"{"name":"x","encoding":"pod","size":4,"fields":[{"name":"a","kind":"u64"}]}"#;
    let entry = perfring_types::Entry { id: ORDER.id, layout: 1, text }.to_words();
    let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_ne_bytes()).collect();
    scribble(&ring, 64, &bytes);
    scribble(&ring, 0, &(64 + bytes.len() as u64).to_ne_bytes());
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&LINE).unwrap();
    producer.publish_as(ORDER.id, b"1234").unwrap();
    producer.publish_as(LINE.id, b"5678").unwrap();
    let done = run(&["dump", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (4, "1234\ndemo.Line 5678\n"));
    assert!(done.err().contains("text of type 0x1388 cannot be used"), "{}", done.err());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    let ring = place.ring(&["--types-size", "1M"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let help = "words ".repeat(50);
    for id in 5000..6000 {
        let schema = Schema { id: RecordType::new(id).unwrap(), help: &help, ..LINE };
        producer.register(&schema).unwrap();
    }
    for args in [&["types", &ring][..], &["types", "--json", &ring]] {
        assert_eq!(close_and_wait(Live::start(args)), (String::new(), 0));
    }
}

#[test]
fn stat_and_doctor_report_how_full_the_table_is() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let used: usize = ALL.map(|s| 8 * s.to_entry().len()).iter().sum();
    let used = used + 64;
    let stat = |ring: &str| json_lines(&run(&["stat", "--json", ring], b"").out()).remove(0);
    let figures = stat(&ring);
    assert_eq!((&figures["type_count"], &figures["types_used"]), (&json!(ALL.len()), &json!(used)));
    assert_eq!((&figures["types_size"], &figures["types_damaged"]), (&json!(65536), &json!(false)));
    assert!(FIELDS.iter().any(|field| field.name == "types_size"));
    let text = run(&["stat", &ring], b"").out();
    assert!(
        text.contains(&format!("\n  types        9 types, {used} bytes of 64 KiB used\n")),
        "{text}"
    );
    let doctor = |ring: &str| {
        let done = run(&["doctor", "--json", ring], b"");
        (crate::command::check(&done, ring, "types"), done.code())
    };
    assert_eq!(
        doctor(&ring),
        (("ok".to_owned(), format!("9 types, {used} bytes of 64 KiB used")), 0)
    );
    scribble(&ring, 64 + 8, &[0xff]);
    assert_eq!(stat(&ring)["types_damaged"], true);
    let ((level, says), code) = doctor(&ring);
    assert!(
        code == 4 && level == "fail" && says.contains("type table is damaged 0 bytes"),
        "{says}"
    );
    let text = run(&["stat", &ring], b"");
    assert!(text.out().contains("  types        damaged, "), "{}", text.out());
    assert_eq!(text.code(), 0, "its totals are intact");
    fs::remove_file(&ring).unwrap();
    // Nearly full, full, none.
    let ring = place.ring(&["--types-size", "4K"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let mut id = 5000;
    while producer.register(&Schema { id: RecordType::new(id).unwrap(), ..LINE }).is_ok() {
        id += 1;
    }
    drop(producer);
    let ((level, says), code) = doctor(&ring);
    assert!(code == 1 && level == "warn" && says.contains("--types-size"), "{says}");
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&["--types-size", "0"]);
    assert_eq!(stat(&ring)["types_size"], 0);
    assert!(run(&["stat", &ring], b"").out().contains("\n  types        no table\n"));
    assert_eq!(doctor(&ring).0.0, "ok");
}
