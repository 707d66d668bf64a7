//! A sink publishes its process's context, and its logs say which trace their thread works for.

use libdd_otel_thread_ctx::linux::OwnedThreadContext;
use perfring_consumer::{Item, RecordType, Snapshot};
use perfring_context::{ProcessContext, publish};
use perfring_telemetry::{Log, Resource, Sink, SpanId, TraceId, options};
use perfring_types::read::TypeTable;

#[test]
fn a_sink_publishes_who_it_is_and_its_logs_say_which_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let shop = Resource::here().with("service.name", "shop");
    let sink = Sink::create(&path, &options(), shop.clone()).unwrap();
    let published = || ProcessContext::own().unwrap().unwrap();
    assert_eq!(published().get("service.name"), Some("shop"));
    let instance = published().get("service.instance.id").unwrap().to_owned();
    assert_eq!(shop.get("service.instance.id"), Some(&*instance));
    // The first one stays, and later resources are of the same instance.
    let other = Sink::create(dir.path().join("other"), &options(), shop.with("service.name", "b"));
    assert_eq!(published().get("service.name"), Some("shop"));
    assert_eq!(Resource::here().get("service.instance.id"), Some(&*instance));
    assert_eq!(Resource::here().get("service.name"), Some("shop"));
    drop(other);
    publish([("service.name", "by another library")]).unwrap();
    assert_eq!(Resource::here().get("service.name"), Some("by another library"));

    let within = sink.clone().with_thread_context();
    let log = |sink: &Sink, body: &'static str, ids: Option<u8>| {
        let (trace_id, span_id) = (ids.map(|id| TraceId([id; 16])), ids.map(|id| SpanId([id; 8])));
        sink.emit(&Log { body: body.into(), trace_id, span_id, ..Log::default() }).unwrap();
    };
    log(&within, "no span", None);
    OwnedThreadContext::new([1; 16], [2; 8], 1, [3; 8], &[]).attach();
    log(&within, "in it", None);
    log(&within, "its own", Some(9));
    log(&sink, "not asked for", None);
    OwnedThreadContext::detach();

    let snapshot = Snapshot::take(&path).unwrap();
    let types = TypeTable::from_entries(snapshot.types().entries());
    let mut logs = Vec::new();
    for item in &snapshot {
        let Item::Record(record) = item.unwrap() else { continue };
        let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        if kind.name == "perfring.Log" {
            logs.push(kind.render_text(&kind.decode(record.bytes).unwrap()));
        }
    }
    let has = |nth: usize, text: &str| logs[nth].contains(text);
    let (trace, span) = ("01".repeat(16), "02".repeat(8));
    assert!(has(0, "no span") && !has(0, "trace_id"), "{logs:?}");
    assert!(has(1, "in it") && has(1, &trace) && has(1, &span), "{logs:?}");
    assert!(has(2, "its own") && has(2, &"09".repeat(16)) && !has(2, &trace), "{logs:?}");
    assert!(has(3, "not asked for") && !has(3, "trace_id"), "{logs:?}");
}
