//! A ring that refuses or is gone, providers that end, processes that fork: the results say it, and counts agree.

use crate::rows::{of, ring, rows, s, small};
use crate::tee::Tee;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use opentelemetry::KeyValue;
use opentelemetry::logs::{Logger, LoggerProvider};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{Tracer, TracerProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
use perfring_consumer::{Consumer, Item, RecordType};
use perfring_opentelemetry::{Lack, RingExporter};
use perfring_producer::{Options, Policy, Producer, SharedProducer};
use perfring_testkit::alone::run_alone;
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use std::collections::HashSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The exporters' futures never wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("an export waits"),
    }
}

fn resource(service: &'static str) -> Resource {
    Resource::builder_empty().with_attributes([KeyValue::new("service.name", service)]).build()
}

#[test]
fn a_full_drop_ring_refuses_and_every_record_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let options = Options { size: 1 << 16, policy: Policy::Drop, ..small() };
    let ring = RingExporter::open(&path, &options).unwrap();
    let (tee, kept) = Tee::new(ring.spans());
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(tee)
        .with_resource(resource("shop"))
        .build();
    let tracer = provider.tracer("shop");
    let mut consumer = Consumer::attach(&path).unwrap();
    for _ in 0..1000 {
        drop(tracer.start("serve"));
    }
    let results = kept.results();
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(results.len(), 1000);
    let (mut starts, mut ends, mut lost) = (HashSet::new(), HashSet::new(), 0);
    let types = TypeTable::from_entries(consumer.types().entries());
    while let Some(item) = consumer.read().unwrap() {
        match item {
            Item::Record(record) => {
                let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
                let value = kind.decode(record.bytes).unwrap();
                match kind.class.known().unwrap() {
                    Class::SpanStart => starts.insert(value.get("span_id").unwrap().to_string()),
                    Class::SpanEnd => ends.insert(value.get("span_id").unwrap().to_string()),
                    _ => false,
                };
            }
            Item::Lost(of) => lost += of.records,
        }
    }
    let whole = starts.intersection(&ends).count();
    println!("{whole} spans, {lost} records lost, {} exports refused", refused.len());
    assert!(whole > 100 && refused.len() > 100);
    assert_eq!(refused.len(), 1000 - whole, "the results name each span that is not whole");
    assert_eq!((starts.len() + ends.len()) as u64 + ring.dropped(), 2000, "two of each span");
    assert!(lost >= ring.dropped(), "the ring also counts resources that it refused");
    for why in refused {
        assert!(why.contains("1 of 1 spans are not, or not whole, in"), "{why}");
        assert!(why.contains("the ring is full"), "{why}");
        assert!(!why.contains("more records were refused"), "{why}");
    }
    // Room again: the next span is whole, and its result says nothing of the earlier ones.
    consumer.acknowledge();
    drop(tracer.start("serve"));
    assert_eq!(kept.results(), [Ok(())]);
}

#[test]
fn a_file_that_was_removed_is_made_again_and_what_it_had_is_counted() {
    let (_dir, path, ring) = ring();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(ring.spans())
        .with_resource(resource("shop"))
        .build();
    let tracer = provider.tracer("shop");
    drop(tracer.start("before"));
    // Simple processors have nothing to flush: any exporter of the ring does.
    let any = ring.spans();
    SpanExporter::force_flush(&any).unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..3 {
        drop(tracer.start("lost"));
    }
    assert!(!path.exists());
    let said = SpanExporter::force_flush(&any).unwrap_err().to_string();
    let lost = ring.dropped();
    assert_eq!(lost, 6, "two records of each span");
    assert!(
        said.contains("6 more records were refused, or written into a file that was removed"),
        "{said}"
    );
    drop(tracer.start("after"));
    SpanExporter::force_flush(&any).unwrap();
    let all = rows(&path);
    assert_eq!(all[0].get("service.name"), Some(s("shop")), "the resource is there again");
    let names: Vec<_> = all[1..].iter().map(|row| row.get("name").unwrap()).collect();
    assert_eq!(names, [s("after"), s("after")]);
    assert_eq!(ring.dropped(), lost);
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rings").join("ring");
    assert!(RingExporter::open(&path, &small()).is_err(), "no directory");
    std::fs::create_dir(dir.path().join("rings")).unwrap();
    let exclusive = dir.path().join("exclusive");
    Producer::create(&exclusive, &Options { producers: Default::default(), ..small() }).unwrap();
    let error = RingExporter::open(&exclusive, &small()).unwrap_err();
    println!("{error}");
    let untimed = dir.path().join("untimed");
    SharedProducer::create(&untimed, &Options { time: false, ..small() }).unwrap();
    let error = RingExporter::open(&untimed, &small()).unwrap_err().to_string();
    assert!(error.contains("time"), "{error}");
    // Gone between opening and the first export, and its directory with it.
    let ring = RingExporter::open(&path, &small()).unwrap();
    std::fs::remove_dir_all(dir.path().join("rings")).unwrap();
    let (tee, kept) = Tee::new(ring.logs());
    let provider = SdkLoggerProvider::builder().with_simple_exporter(tee).build();
    let logger = provider.logger("shop");
    logger.emit(logger.create_log_record());
    let said = kept.results().remove(0).unwrap_err();
    assert!(said.contains("nothing was written: "), "{said}");
    // It is tried again at the next export.
    std::fs::create_dir(dir.path().join("rings")).unwrap();
    let _again = RingExporter::open(&path, &small()).unwrap();
    logger.emit(logger.create_log_record());
    assert_eq!(kept.results(), [Ok(())]);
    assert_eq!(of(Class::Log, &path).len(), 1);
}

#[test]
fn after_shutdown_each_result_says_so_and_nothing_is_written() {
    let (_dir, path, ring) = ring();
    let (spans, metrics) = (ring.spans(), ring.metrics());
    let is_shut = |done: Result<(), OTelSdkError>| {
        assert!(matches!(done, Err(OTelSdkError::AlreadyShutdown)), "{done:?}");
    };
    SpanExporter::shutdown(&spans).unwrap();
    is_shut(SpanExporter::shutdown(&spans));
    is_shut(now(SpanExporter::export(&spans, Vec::new())));
    is_shut(SpanExporter::force_flush(&spans));
    // One exporter of a ring ends without the others.
    now(PushMetricExporter::export(&metrics, &ResourceMetrics::default())).unwrap();
    PushMetricExporter::shutdown(&metrics).unwrap();
    is_shut(now(PushMetricExporter::export(&metrics, &ResourceMetrics::default())));
    is_shut(PushMetricExporter::force_flush(&metrics));
    let (tee, kept) = Tee::new(ring.logs());
    let provider = SdkLoggerProvider::builder().with_simple_exporter(tee).build();
    let logger = provider.logger("shop");
    logger.emit(logger.create_log_record());
    provider.shutdown().unwrap();
    assert!(provider.shutdown().is_err());
    assert_eq!(kept.results().len(), 1);
    assert_eq!(rows(&path).len(), 2, "the resource and one log record");
}

#[test]
fn another_resource_is_counted_and_said_and_all_data_has_the_first() {
    let (_dir, path, ring) = ring();
    let logs = SdkLoggerProvider::builder()
        .with_simple_exporter(ring.logs())
        .with_resource(resource("shop"))
        .build();
    let (tee, kept) = Tee::new(ring.spans());
    let traces = SdkTracerProvider::builder()
        .with_simple_exporter(tee)
        .with_resource(resource("store"))
        .build();
    let metrics = SdkMeterProvider::builder()
        .with_periodic_exporter(ring.metrics())
        .with_resource(resource("shop"))
        .build();
    metrics.meter("shop").u64_counter("orders").build().add(1, &[]);
    drop(traces.tracer("store").start("serve"));
    let said = kept.results().remove(0).unwrap_err();
    assert!(said.contains(Lack::Resources.name()), "{said}");
    assert_eq!(ring.lack(Lack::Resources), 1);
    let logger = logs.logger("shop");
    logger.emit(logger.create_log_record());
    metrics.force_flush().unwrap();
    let resources = of(Class::Resource, &path);
    assert_eq!(resources.len(), 1);
    assert_eq!(resources[0].get("service.name"), Some(s("shop")));
}

/// Says in the child that it is one.
const CHILD: &str = "PERFRING_TEST_ALONE";

#[test]
fn a_forked_child_writes_under_its_own_pid() {
    let test = "failures::a_forked_child_writes_under_its_own_pid";
    if std::env::var_os(CHILD).is_none() {
        return run_alone(test, CHILD, "");
    }
    let (_dir, path, ring) = ring();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(ring.spans())
        .with_resource(resource("shop"))
        .build();
    let tracer = provider.tracer("shop");
    drop(tracer.start("parent"));
    // SAFETY: the child calls what any thread may call, and ends without returning.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let done = std::panic::catch_unwind(AssertUnwindSafe(|| {
                drop(tracer.start("child"));
                assert_eq!(ring.dropped(), 0);
            }));
            // SAFETY: ends the process; nothing of it is needed any more.
            unsafe { nix::libc::_exit(i32::from(done.is_err())) }
        }
        ForkResult::Parent { child } => child,
    };
    assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)));
    drop(tracer.start("parent"));
    let (own, child) = (u64::from(std::process::id()), child.as_raw() as u64);
    let spans = of(Class::SpanStart, &path);
    let got: Vec<_> = spans.iter().map(|row| (row.get("name"), row.get("process.pid"))).collect();
    let pair = |name: &str, pid| (Some(s(name)), Some(Value::U64(pid)));
    assert_eq!(got, [pair("parent", own), pair("child", child), pair("parent", own)]);
    let resources = of(Class::Resource, &path);
    let pids: Vec<_> = resources.iter().map(|row| row.get("process.pid").unwrap()).collect();
    assert_eq!(pids, [Value::U64(own), Value::U64(child)]);
    assert_eq!(resources[1].get("service.name"), Some(s("shop")));
    assert_eq!(ring.dropped(), 0);
}
