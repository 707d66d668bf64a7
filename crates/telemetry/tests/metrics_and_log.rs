//! What the `metrics` and `log` crates say is what the ring holds.

use metrics::{Unit, counter, describe_counter, describe_histogram, gauge, histogram};
use nix::fcntl::{FcntlArg, fcntl};
use perfring_consumer::{Item, Snapshot};
use perfring_telemetry::producer::{Options, RecordType, SharedProducer};
use perfring_telemetry::{Resource, Sink, log::RingLog, metrics::RingRecorder, options};
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use std::path::Path;

fn rows(path: &Path) -> Vec<(Class, String, Value)> {
    let snapshot = Snapshot::take(path).unwrap();
    let types = TypeTable::from_entries(snapshot.types().entries());
    let mut rows = Vec::new();
    for item in &snapshot {
        let Item::Record(record) = item.unwrap() else { continue };
        let of = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        let class = of.class.known().unwrap();
        if class != Class::Resource {
            rows.push((class, of.name.clone(), of.decode(record.bytes).unwrap()));
        }
    }
    rows
}

#[test]
fn instruments_have_types_or_stand_in_full_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    for (name, types_size, own) in [("room", 1 << 16, true), ("full", 4096, false)] {
        let path = dir.path().join(name);
        // The ready types take 4.3 KiB: two pages, filled up below.
        let options = Options { types_size: types_size.max(8192), ..options() };
        let sink = Sink::create(&path, &options, Resource::here()).unwrap();
        if !own {
            for n in 0..100 {
                let _ = sink.declare(Class::Gauge, &format!("filler {n}"), "", &[]);
            }
        }
        metrics::with_local_recorder(&RingRecorder::new(sink), || {
            describe_counter!("requests", Unit::Count, "answered");
            describe_histogram!("latency", Unit::Seconds, "");
            let requests = || counter!("requests", "method" => "GET", "name" => "x");
            requests().increment(2);
            requests().increment(3); // another handle of the same
            requests().absolute(4); // less than there were
            requests().absolute(9);
            counter!("requests", "method" => "PUT").increment(1);
            gauge!("depth").set(2.0);
            gauge!("depth").increment(0.5);
            gauge!("depth").decrement(1.0);
            histogram!("latency").record(0.25);
        });
        let rows = rows(&path);
        let values: Vec<_> = rows.iter().map(|row| row.2.get("value").unwrap().clone()).collect();
        let expected = [2, 5, 5, 9, 1].map(Value::U64).into_iter();
        let expected: Vec<_> = expected.chain([2.0, 2.5, 1.5, 0.25].map(Value::F64)).collect();
        assert_eq!(values, expected);
        let text = |row: usize, name: &str| rows[row].2.get(name).map(ToString::to_string);
        for (row, (class, kind, value)) in rows.iter().enumerate() {
            let name = ["requests", "depth", "latency"][[0, 0, 0, 0, 0, 1, 1, 1, 2][row]];
            assert_eq!(value.get("name"), Some(&Value::Str(name.into())));
            assert_eq!(kind == name, own, "{kind}");
            let expected = [Class::Sum, Class::Gauge, Class::Histogram];
            assert_eq!(*class, expected[[0, 0, 0, 0, 0, 1, 1, 1, 2][row]]);
        }
        assert_eq!(rows[0].2.get("is_monotonic"), Some(&Value::Bool(true)));
        assert_eq!(rows[0].2.get("aggregation_temporality"), Some(&Value::U64(2)));
        assert_eq!(text(0, "unit").as_deref(), Some("1"));
        assert_eq!(text(0, "description").as_deref(), Some("answered"));
        assert_eq!(text(0, "method").as_deref(), Some("GET"));
        assert_eq!(text(0, "attributes.name").as_deref(), Some("x"));
        assert_eq!(text(4, "method").as_deref(), Some("PUT"));
        assert_eq!(text(8, "unit").as_deref(), Some("s"));
    }
}

#[test]
fn an_instrument_that_found_the_table_locked_gets_its_type_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let sink = Sink::create(&path, &options(), Resource::here()).unwrap();
    let byte = SharedProducer::attach(&path).unwrap().layout().areas().types.start;
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as nix::libc::c_short,
        l_whence: nix::libc::SEEK_SET as nix::libc::c_short,
        l_start: byte.try_into().unwrap(),
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    metrics::with_local_recorder(&RingRecorder::new(sink), || {
        let held = counter!("held");
        drop(file); // and with it the lock
        (0..3000).for_each(|_| held.increment(1));
    });
    let rows = rows(&path);
    assert!(
        rows.iter()
            .map(|row| row.2.get("value").unwrap())
            .eq(&(1..=3000).map(Value::U64).collect::<Vec<_>>())
    );
    assert!(rows.iter().all(|row| row.2.get("name") == Some(&Value::Str("held".into()))));
    let without = rows.iter().filter(|row| row.1 != "held").count();
    // Neither for good, nor with a try for each sample.
    assert!((100..2000).contains(&without), "{without}");
}

#[test]
fn records_of_the_log_crate_have_level_message_and_location() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let sink = Sink::create(&path, &options(), Resource::here()).unwrap();
    RingLog::new(sink).install(log::LevelFilter::Info).unwrap();
    log::debug!("not this");
    log::error!(target: "shop::disk", "no room, {} left", 3);
    let rows = rows(&path);
    let [(class, _, value)] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(*class, Class::Log);
    let text = |name: &str| match value.get(name) {
        Some(Value::Str(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    assert_eq!(text("body"), "no room, 3 left");
    assert_eq!((text("severity_number"), text("severity_text")), ("17".into(), "ERROR".into()));
    assert_eq!(text("otel.scope.name"), "shop::disk");
    assert_eq!(text("code.module.name"), "telemetry::metrics_and_log");
    assert!(text("code.file.path").ends_with("metrics_and_log.rs"));
    assert!(value.get("code.line.number").is_some());
}
