//! What a program logs through `tracing` is what the ring holds: names, levels, values, ids.

use super::SHAPE;
use crate::common::{Row, of, rings, rows};
use perfring_consumer::Snapshot;
use perfring_testkit::rng::Rng;
use perfring_tracing::options;
use perfring_types::Class;
use perfring_types::read::Value;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tracing::{Level, Subscriber, debug, error, info, info_span, span, trace, warn};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, Layer as _, prelude::*};

fn ring() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    (dir, path)
}

fn subscriber(path: &Path) -> impl Subscriber + Send + Sync + use<> {
    tracing_subscriber::registry().with(SHAPE.layer(path, &options()))
}

#[test]
fn an_event_has_its_location_level_message_and_every_kind_of_value() {
    let (_dir, path) = ring();
    let line = line!() + 2;
    tracing::subscriber::with_default(subscriber(&path), || {
        warn!(
            text = "ünï",
            yes = true,
            int = -3i64,
            uint = 7u8,
            real = 0.5,
            wide = i128::MIN,
            uwide = u128::MAX,
            shown = %"shown",
            debug = ?Some("x"),
            empty = tracing::field::Empty,
            "hello {}",
            1 + 1
        );
    });
    let rows = rows(&path);
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(row.class, Class::Log);
    assert_eq!((row.u64("severity_number"), row.str("severity_text")), (13, "WARN"));
    assert_eq!(row.str("body"), "hello 2");
    assert_eq!(row.str("otel.scope.name"), module_path!());
    assert!(row.str("code.file.path").ends_with("events_and_spans.rs"));
    assert_eq!(row.u64("code.line.number"), u64::from(line));
    assert_eq!(row.type_name, format!("{}:{line}", module_path!()));
    assert_eq!(row.u64("process.pid"), u64::from(std::process::id()));
    assert_eq!(row.str("text"), "ünï");
    assert_eq!(row.get("yes"), &Value::Bool(true));
    assert_eq!(row.get("int"), &Value::I64(-3));
    assert_eq!(row.get("uint"), &Value::U64(7));
    assert_eq!(row.get("real"), &Value::F64(0.5));
    assert_eq!(row.get("wide"), &Value::I128(i128::MIN));
    assert_eq!(row.get("uwide"), &Value::U128(u128::MAX));
    assert_eq!(row.str("shown"), "shown");
    assert_eq!(row.str("debug"), "Some(\"x\")");
    assert!(!row.has("empty") && !row.has("trace_id"));
}

#[test]
fn levels_have_opentelemetrys_numbers_and_a_named_event_its_name() {
    let (_dir, path) = ring();
    tracing::subscriber::with_default(subscriber(&path), || {
        trace!("");
        debug!("");
        info!("");
        warn!("");
        error!(name: "disk.full", target: "shop::disk", "");
    });
    let rows = rows(&path);
    let numbers: Vec<_> = rows.iter().map(|row| row.u64("severity_number")).collect();
    assert_eq!(numbers, [1, 5, 9, 13, 17]);
    assert_eq!(rows[4].str("event_name"), "disk.full");
    assert_eq!(rows[4].type_name, "shop::disk::disk.full");
    assert_eq!(rows[4].str("otel.scope.name"), "shop::disk");
    assert_eq!(rows[4].str("code.module.name"), module_path!());
    assert!(!rows[0].has("event_name"));
}

#[test]
fn fields_that_would_mean_something_else_are_attributes_all_the_same() {
    let (_dir, path) = ring();
    tracing::subscriber::with_default(subscriber(&path), || {
        info!(body = "mine", trace_id = 5, severity_text = "loud", name = "n", "ours");
        info_span!("real", name = "mine", level = "high");
    });
    let rows = rows(&path);
    assert_eq!(rows[0].str("body"), "ours");
    assert_eq!(rows[0].str("attributes.body"), "mine");
    assert_eq!(rows[0].get("attributes.trace_id"), &Value::I64(5));
    assert_eq!(rows[0].str("severity_text"), "INFO");
    assert_eq!(rows[0].str("attributes.severity_text"), "loud");
    assert_eq!(rows[0].str("name"), "n"); // means nothing in a log record
    assert_eq!(rows[1].str("name"), "real");
    assert_eq!(rows[1].str("attributes.name"), "mine");
    assert_eq!(rows[1].str("level"), "high"); // takes precedence over the layer's
}

#[test]
fn opentelemetrys_fields_set_the_kind_the_name_and_the_status_of_a_span() {
    let (_dir, path) = ring();
    tracing::subscriber::with_default(subscriber(&path), || {
        use tracing::field::Empty;
        info_span!(
            "at.once",
            otel.kind = "server",
            otel.status_code = "ERROR",
            otel.status_message = "no stock",
            n = 1
        );
        let later = info_span!(
            "later",
            otel.kind = Empty,
            otel.status_code = Empty,
            otel.name = Empty,
            x = Empty
        );
        later.record("otel.status_code", "ok");
        later.record("otel.kind", tracing::field::display("Client"));
        later.record("otel.name", "GET /");
        later.record("x", 5);
        drop(later);
        info_span!("named", otel.name = %format_args!("POST {}", "/buy"), otel.status_description = "late");
        info_span!("other", otel.kind = "sideways", otel.status_code = 2, otel.scope.name = "mine");
        info!(otel.kind = "server", "an event has no kind");
    });
    let rows = rows(&path);
    let (starts, ends) = (of(&rows, Class::SpanStart), of(&rows, Class::SpanEnd));
    assert_eq!((starts[0].str("name"), starts[0].u64("kind")), ("at.once", 2));
    assert_eq!((ends[0].u64("status.code"), ends[0].str("status.message")), (2, "no stock"));
    assert!(!starts[0].has("otel.kind") && !starts[0].has("otel.status_code"));
    assert_eq!(starts[0].get("n"), &Value::I64(1));
    // Recorded later: the kind in its own record, the rest in the end.
    assert_eq!((starts[1].str("name"), starts[1].has("kind")), ("later", false));
    assert_eq!((starts[2].u64("kind"), starts[2].has("name")), (3, false));
    assert_eq!((starts[3].get("x"), starts[3].has("otel.name")), (&Value::I64(5), false));
    assert_eq!((ends[1].u64("status.code"), ends[1].str("name")), (1, "GET /"));
    // A text alone is of an error.
    assert_eq!((starts[4].str("name"), ends[2].str("name")), ("POST /buy", "POST /buy"));
    assert_eq!((ends[2].u64("status.code"), ends[2].str("status.message")), (2, "late"));
    // What is none of OpenTelemetry's values is an attribute.
    assert_eq!((starts[5].str("otel.kind"), starts[5].has("kind")), ("sideways", false));
    assert_eq!(
        (starts[5].get("otel.status_code"), ends[3].has("status.code")),
        (&Value::I64(2), false)
    );
    assert_eq!((starts.len(), ends.len()), (6, 4));
    assert_eq!(of(&rows, Class::Log)[0].str("otel.kind"), "server");
}

#[test]
fn a_span_begins_says_more_and_ends_and_events_are_in_it() {
    let (_dir, path) = ring();
    tracing::subscriber::with_default(subscriber(&path), || {
        let outer = info_span!("outer", a = 1, late = tracing::field::Empty);
        let before = info_span!(parent: None, "before");
        outer.record("late", "now");
        outer.follows_from(&before);
        outer.in_scope(|| {
            info!("in outer");
            info_span!("inner").in_scope(|| info!("in inner"));
            info!(parent: None, "apart");
        });
        info!(parent: &outer, "by name");
        info!("outside");
    });
    let rows = rows(&path);
    let starts = of(&rows, Class::SpanStart);
    let start = |name: &str| {
        *starts
            .iter()
            .find(|row| row.value.get("name") == Some(&Value::Str(name.into())))
            .unwrap_or_else(|| panic!("no {name} in {starts:?}"))
    };
    let (outer, inner, before) = (start("outer"), start("inner"), start("before"));
    let (trace, span) = (outer.bytes("trace_id"), outer.bytes("span_id"));
    assert_eq!((trace.len(), span.len()), (16, 8));
    assert!(!outer.has("parent_span_id"));
    assert_eq!(outer.get("a"), &Value::I64(1));
    assert_eq!(outer.str("level"), "INFO");
    assert_eq!(
        (inner.bytes("trace_id"), inner.bytes("parent_span_id")),
        (trace.clone(), span.clone())
    );
    assert_ne!(before.bytes("trace_id"), trace);

    let more: Vec<_> = starts.iter().filter(|row| !row.has("name")).collect();
    assert_eq!(more.len(), 2);
    assert!(more.iter().all(|row| row.bytes("span_id") == span && row.bytes("trace_id") == trace));
    assert_eq!(more[0].str("late"), "now");
    assert_eq!(more[1].bytes("link.span_id"), before.bytes("span_id"));
    assert_eq!(more[1].bytes("link.trace_id"), before.bytes("trace_id"));

    let logs = of(&rows, Class::Log);
    let log = |body: &str| *logs.iter().find(|row| row.str("body") == body).unwrap();
    for (body, around) in [("in outer", outer), ("in inner", inner), ("by name", outer)] {
        assert_eq!(log(body).bytes("span_id"), around.bytes("span_id"), "{body}");
        assert_eq!(log(body).bytes("trace_id"), trace, "{body}");
    }
    assert!(!log("apart").has("span_id") && !log("outside").has("span_id"));

    let ends = of(&rows, Class::SpanEnd);
    let names: Vec<_> = ends.iter().map(|row| row.str("name")).collect();
    assert_eq!(names, ["inner", "before", "outer"]);
    assert_eq!(ends[0].bytes("parent_span_id"), span);
    assert_eq!((ends[2].bytes("trace_id"), ends[2].bytes("span_id")), (trace, span));
    assert!(ends[2].u64("duration_nano") > ends[0].u64("duration_nano"));
}

#[test]
fn the_current_span_is_the_registrys_in_any_order_of_enters_and_exits() {
    let (_dir, path) = ring();
    let layer = SHAPE.layer(&path, &options());
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        let spans: Vec<_> = (0..4u64).map(|n| info_span!(parent: None, "s", n)).collect();
        let mut open = Vec::new();
        let mut rng = Rng::new(1);
        for _ in 0..400 {
            let roll = rng.index(1 << 31);
            if roll.is_multiple_of(2) || open.is_empty() {
                let at = roll / 2 % spans.len();
                open.push((at, spans[at].enter()));
            } else {
                drop(open.swap_remove(roll / 2 % open.len()));
            }
            // The registry's view: the names of the spans are the same, so the current one is
            // identified by its index among the open ones.
            let id = tracing::Span::current().id();
            let expected = spans.iter().position(|span| span.id() == id);
            info!(expected = expected.map_or(-1, |at| at as i64), "where");
        }
    });
    let rows = rows(&path);
    let by_id: HashMap<_, _> = of(&rows, Class::SpanStart)
        .iter()
        .map(|row| (row.bytes("span_id"), row.u64("n") as i64))
        .collect();
    let logs = of(&rows, Class::Log);
    assert_eq!(logs.len(), 400);
    for row in logs {
        let found = if row.has("span_id") { by_id[&row.bytes("span_id")] } else { -1 };
        assert_eq!(row.get("expected"), &Value::I64(found));
    }
}

#[test]
fn threads_and_moved_spans_keep_their_parents() {
    const THREADS: u64 = 100; // more than there are slots
    let (_dir, path) = ring();
    let layer = SHAPE.layer(&path, &options());
    let sink = layer.sink().clone();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let dispatch = dispatch.clone();
            std::thread::spawn(move || {
                let here = tracing::dispatcher::with_default(&dispatch, || {
                    let root = info_span!("root", n);
                    root.in_scope(|| info!(n, "one"));
                    root
                });
                // As a task that another thread continues.
                let elsewhere = dispatch.clone();
                std::thread::spawn(move || {
                    tracing::dispatcher::with_default(&elsewhere, || {
                        here.in_scope(|| info_span!("child", n).in_scope(|| info!(n, "two")));
                    });
                })
                .join()
                .unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // A thread that is off its core with the ring's lock costs others a record. Each is counted.
    let refused = |ring: &PathBuf| Snapshot::take(ring).unwrap().totals().producer.refused;
    let refused: Vec<_> = rings(&path).iter().map(refused).collect();
    assert!(refused.iter().all(|refused| refused.total() == refused.contended));
    let contended: u64 = refused.iter().map(|refused| refused.contended.records).sum();
    assert!(sink.dropped() <= contended, "a resource aside");
    let rows = rows(&path);
    let (starts, logs) = (of(&rows, Class::SpanStart), of(&rows, Class::Log));
    let missing = 4 * THREADS - (starts.len() + logs.len()) as u64;
    assert!(missing <= sink.dropped(), "{missing} of {}", sink.dropped());
    let key = |row: &Row| (row.u64("n"), row.str("name") == "root");
    let starts: HashMap<_, _> = starts.into_iter().map(|row| (key(row), row)).collect();
    let roots = starts.iter().filter(|((_, is_root), _)| *is_root);
    let traces: HashSet<_> = roots.clone().map(|(_, row)| row.bytes("trace_id")).collect();
    assert_eq!(traces.len(), roots.count());
    let mut checked = 0;
    for n in 0..THREADS {
        let both = starts.get(&(n, true)).zip(starts.get(&(n, false)));
        let Some((root, child)) = both else { continue };
        assert_eq!(child.bytes("parent_span_id"), root.bytes("span_id"));
        assert_eq!(child.bytes("trace_id"), root.bytes("trace_id"));
        checked += 1;
    }
    for row in logs {
        let span = starts.get(&(row.u64("n"), row.str("body") == "one"));
        let Some(span) = span else { continue };
        assert_eq!(row.bytes("span_id"), span.bytes("span_id"));
        checked += 1;
    }
    println!("{checked} rows checked, {missing} counted as lost");
    assert!(checked + 2 * missing >= 3 * THREADS);
    let ends = of(&rows, Class::SpanEnd).len() as u64;
    assert!(2 * THREADS - ends <= sink.dropped() + missing, "{ends} ends");
}

#[test]
fn filters_are_tracing_subscribers_own() {
    let (_dir, path) = ring();
    let layer = SHAPE.layer(&path, &options());
    let filtered = layer.with_filter(EnvFilter::new(concat!("info,", module_path!(), "=warn")));
    // Another layer sees more: its spans are none of ours.
    let other =
        tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_filter(LevelFilter::TRACE);
    let subscriber = tracing_subscriber::registry().with(filtered).with(other);
    tracing::subscriber::with_default(subscriber, || {
        let kept = span!(Level::WARN, "kept").entered();
        let _hidden = info_span!("hidden").entered();
        info!("not this");
        warn!("this");
        drop(kept);
    });
    let rows = rows(&path);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows[1].str("body"), "this");
    assert_eq!(rows[1].bytes("span_id"), rows[0].bytes("span_id"));
}

#[test]
fn an_error_is_written_with_its_causes() {
    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot start")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let (_dir, path) = ring();
    let error = Outer(std::io::Error::other("no disk"));
    tracing::subscriber::with_default(subscriber(&path), || {
        error!(error = &error as &(dyn std::error::Error + 'static), "");
    });
    assert_eq!(rows(&path)[0].str("error"), "cannot start: no disk");
}

#[test]
fn a_text_that_does_not_fit_is_truncated_and_says_so() {
    let (_dir, path) = ring();
    tracing::subscriber::with_default(subscriber(&path), || {
        info!(long = "x".repeat(100_000), after = 1, "said first");
    });
    let rows = rows(&path);
    assert_eq!(rows[0].str("body"), "said first");
    let long = rows[0].str("long");
    assert!(long.len() > 60_000 && long.ends_with("x…"), "{}", long.len());
    assert!(rows[0].u64("…") >= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_strings_come_back(texts in proptest::collection::vec(any::<String>(), 3), n: u64) {
        let (_dir, path) = ring();
        tracing::subscriber::with_default(subscriber(&path), || {
            let span = info_span!("span", text = texts[0], more = tracing::field::Empty);
            span.record("more", texts[1].as_str());
            info!(text = texts[1], debug = ?texts[2], n, "{}", texts[0]);
        });
        let rows = rows(&path);
        let log = of(&rows, Class::Log)[0];
        prop_assert_eq!(log.str("body"), &texts[0]);
        prop_assert_eq!(log.str("text"), &texts[1]);
        prop_assert_eq!(log.str("debug"), format!("{:?}", texts[2]));
        prop_assert_eq!(log.u64("n"), n);
        let starts = of(&rows, Class::SpanStart);
        prop_assert_eq!(starts[0].str("text"), &texts[0]);
        prop_assert_eq!(starts[1].str("more"), &texts[1]);
    }
}

/// More than the first table of open spans has room for, twice, so that entries are used again.
#[test]
fn thousands_of_spans_that_are_open_together_end_as_themselves() {
    const SPANS: usize = 3000;
    let (_dir, path) = ring();
    tracing::subscriber::with_default(subscriber(&path), || {
        for round in 0..2u64 {
            let mut rng = Rng::new(round);
            let mut open: Vec<tracing::Span> = Vec::new();
            for number in 0..SPANS as u64 {
                let parent = open.get(number as usize / 2).and_then(tracing::Span::id);
                let code = tracing::field::Empty;
                let span =
                    info_span!(parent: parent, "one", round, number, otel.status_code = code);
                if number % 7 == 0 {
                    span.record("otel.status_code", "ok");
                }
                open.push(span);
            }
            while !open.is_empty() {
                drop(open.swap_remove(rng.index(open.len())));
            }
        }
    });
    let rows = rows(&path);
    let mut starts = HashMap::new();
    for row in rows.iter().filter(|row| row.class == Class::SpanStart && row.has("number")) {
        let parent = row.has("parent_span_id").then(|| row.bytes("parent_span_id"));
        let ids = (row.bytes("trace_id"), parent, row.u64("number"));
        assert!(starts.insert(row.bytes("span_id"), ids).is_none(), "an id twice");
    }
    assert_eq!(starts.len(), 2 * SPANS);
    let mut ends = 0;
    for row in rows.iter().filter(|row| row.class == Class::SpanEnd) {
        let (trace, parent, number) =
            starts.remove(&row.bytes("span_id")).expect("one start, one end");
        assert_eq!(row.bytes("trace_id"), trace);
        assert_eq!(row.has("parent_span_id").then(|| row.bytes("parent_span_id")), parent);
        assert_eq!(row.has("status.code"), number % 7 == 0, "{number}");
        ends += 1;
    }
    assert_eq!(ends, 2 * SPANS);
}
