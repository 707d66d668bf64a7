//! Every field under its name, whichever are present or missing.

use super::rows::*;
use super::*;
use perfring_export::{Event, Origin, Took, What};
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn a_configuration_s_attributes_are_added_to_each_resource_that_has_none_of_that_name() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(3, "shop-1");
    let mut otlp = open(&server);
    let added = [("k8s.pod.name", "shop-7"), ("service.name", "not this")];
    otlp.add_resource(&added.map(|(name, value)| (name.to_owned(), value.to_owned())));
    feed.sink.emit(&Log { body: "b".into(), ..Log::default() }).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let (resource, ..) = logs(&server).remove(0);
    assert_eq!(find(&resource.attributes, "k8s.pod.name"), s("shop-7"));
    assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
}

#[test]
fn every_field_of_a_log_record_arrives() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(3, "shop-1");
    let mut otlp = open(&server);
    let log = Log {
        severity: Some(Severity::Fatal2),
        body: "b".into(),
        trace_id: Some(TRACE),
        span_id: Some(SPAN),
        event_name: "e",
        observed_time_unix_nano: Some(5),
        scope: "scope",
        file: "f.rs",
        line: Some(7),
        attributes: &[
            ("k", true.into()),
            ("big", Value::U64(u64::MAX)),
            ("d", 0.5.into()),
            ("raw", Value::Bytes(&[1, 2])),
            ("list", Value::U64s(&[1, 2])),
            ("body", "not the body".into()),
        ],
    };
    feed.sink.emit(&log).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let (resource, scope, got) = logs(&server).remove(0);
    assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
    assert_eq!(find(&resource.attributes, "process.pid"), i(std::process::id().into()));
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("shop-1"));
    let uuid = s("07070707-0707-0707-0707-070707070703");
    assert_eq!(find(&resource.attributes, "perfring.ring.uuid"), uuid);
    assert_eq!(scope, "scope");
    assert!(got.time_unix_nano > 1_600_000_000_000_000_000);
    assert_eq!(got.observed_time_unix_nano, 5);
    assert_eq!((got.severity_number, &*got.severity_text), (22, "FATAL2"));
    assert_eq!(got.body.unwrap().value, s("b"));
    assert_eq!((got.trace_id, got.span_id), (TRACE.0.to_vec(), SPAN.0.to_vec()));
    assert_eq!(got.event_name, "e");
    let all = &got.attributes;
    assert_eq!(find(all, "code.file.path"), s("f.rs"));
    assert_eq!(find(all, "code.line.number"), i(7));
    assert_eq!(find(all, "k"), Some(Any::BoolValue(true)));
    assert_eq!(find(all, "big"), s("18446744073709551615"));
    assert_eq!(find(all, "d"), Some(Any::DoubleValue(0.5)));
    assert_eq!(find(all, "raw"), Some(Any::BytesValue(vec![1, 2])));
    assert!(matches!(find(all, "list"), Some(Any::ArrayValue(list)) if list.values.len() == 2));
    assert_eq!(find(all, "body"), s("not the body"));
    assert!(matches!(find(all, "perfring.key"), Some(Any::StringValue(key))
        if key.starts_with("07070707070707070707070707070703-")));
    assert_eq!(all.len(), 9, "{all:?}");
    assert_eq!(got.dropped_attributes_count, 0);
}

#[test]
fn truncated_values_are_counted() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let mut otlp = open(&server);
    let long = "x".repeat(feed.sink.max_len());
    let attributes = [("a", (&long).into()), ("b", 1u64.into()), ("c", 2u64.into())];
    feed.sink.emit(&Log { attributes: &attributes, ..Log::default() }).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let got = logs(&server).remove(0).2;
    assert!(got.dropped_attributes_count > 0);
    assert_eq!(find(&got.attributes, "…"), None);
}

#[test]
fn a_record_before_its_resource_waits_for_it_and_not_for_ever() {
    for late in [true, false] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let mut feed = Feed::new(1, "ring");
        let wait = if late { Duration::from_secs(3600) } else { Duration::ZERO };
        let options = mapped(&server, |mapping| mapping.resource_wait = wait);
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        feed.sink.emit(&Log { body: "first".into(), ..Log::default() }).unwrap();
        feed.sink.emit(&Gauge::new("g", 1u64)).unwrap();
        let is_resource =
            |rec: &perfring_export::Rec<'_>| rec.kind_of().unwrap().name == "perfring.Resource";
        feed.pump_if(&mut seqs, &mut otlp, |rec| !is_resource(rec));
        if late {
            otlp.flush().unwrap();
            assert_eq!(otlp.unsettled(), Some(1));
            // The same ring from its beginning: here only the resource.
            let mut again = Feed::with(
                1,
                "ring",
                perfring_telemetry::options(),
                perfring_telemetry::Resource::default().with("service.name", "late"),
            );
            again.began = true;
            again.pump_if(&mut seqs, &mut otlp, is_resource);
        }
        delivers(&mut otlp);
        let service = s(&if late { "late".to_owned() } else { unreported_service() });
        let (reported, _, _) = &logs(&server)[0];
        assert_eq!(find(&reported.attributes, "service.name"), service);
        assert_eq!(find(&reported.attributes, "process.pid"), i(std::process::id().into()));
        assert_eq!(find(&metrics(&server)[0].0.attributes, "service.name"), service);
        close(otlp);
    }
}

#[test]
fn losses_are_a_log_record_and_counts() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = mapped(&server, |mapping| mapping.metric_interval = Duration::from_secs(3600));
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for (pos, cause) in [(64, Cause::Full), (128, Cause::Full), (192, Cause::Lapped)] {
        let cause = LossCause::Ring(cause);
        let loss = Loss { time: Some(1), wall: Some(99), ..Loss::new(pos, 3, 100, cause) };
        feed.lose(&mut seqs, &mut otlp, loss);
    }
    close(otlp);
    let all = logs(&server);
    assert_eq!(all.len(), 3);
    let (resource, _, log) = &all[0];
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("ring"));
    assert_eq!((log.time_unix_nano, &*log.event_name), (99, "perfring.loss"));
    assert_eq!(find(&log.attributes, "perfring.lost.records"), i(3));
    assert_eq!(find(&log.attributes, "perfring.lost.cause"), s("full"));
    assert_eq!(
        find(&log.attributes, "perfring.key"),
        s("07070707070707070707070707070701-64-lost-full")
    );
    let all = metrics(&server);
    let (_, _, lost) = all.iter().find(|row| row.2.name == "perfring.ring.lost_records").unwrap();
    let Some(Data::Sum(sum)) = &lost.data else { panic!() };
    let mut counts: Vec<_> =
        sum.data_points.iter().map(|it| (find(&it.attributes, "error.type"), it.value)).collect();
    counts.sort_by_key(|count| format!("{count:?}"));
    let expected = [(s("full"), Some(Point::AsInt(6))), (s("lapped"), Some(Point::AsInt(3)))];
    assert_eq!(counts, expected);
    assert_eq!(find(&sum.data_points[0].attributes, "perfring.ring.name"), s("ring"));
}

#[test]
fn records_without_a_class_are_log_records_if_wanted() {
    for plain in [Plain::Logs, Plain::Off] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let mut feed = Feed::new(1, "ring");
        let options = mapped(&server, |mapping| mapping.plain = plain);
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        let fields = ["x", names::TRACE_ID, names::SPAN_ID];
        let fields = fields.map(|name| Field::new(name, 0, Shape::ANY));
        let odd = feed.sink.declare(Class::Plain, "demo.Point", "", &fields).unwrap();
        let ids =
            |values: &mut perfring_types::tagged::TaggedWriter<'_>, trace: &[u8], span: &[u8]| {
                values.bytes(names::TRACE_ID, trace);
                values.bytes(names::SPAN_ID, span);
            };
        feed.sink
            .write(odd, |values| {
                values.u64("x", 5);
                ids(values, &[1; 16], &[2; 8]);
            })
            .unwrap();
        // Ids that are none are values like any other.
        feed.sink.write(odd, |values| ids(values, &[1; 15], &[0; 8])).unwrap();
        // A sum without a temporality is not a sum.
        let bad = feed.sink.declare(Class::Sum, "demo.Bad", "", &[]).unwrap();
        feed.sink.write(bad, |values| values.text(names::NAME, "n")).unwrap();
        let other =
            perfring_telemetry::producer::SharedProducer::attach(feed.path.clone()).unwrap();
        other.publish(b"a line").unwrap();
        let line = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id();
        other.register(&line).unwrap();
        other.publish_as(line.id, b"a typed line").unwrap();
        feed.pump(&mut seqs, &mut otlp);
        close(otlp);
        let all = logs(&server);
        let of = |name: &str| all.iter().find(|row| row.2.event_name == name).map(|row| &row.2);
        let fault = find(&of("demo.Bad").unwrap().attributes, "perfring.fault");
        assert_eq!(fault, s("a sum without a number"));
        assert_eq!(find(&of("demo.Bad").unwrap().attributes, "name"), s("n"));
        if plain == Plain::Off {
            assert_eq!(all.len(), 1);
            continue;
        }
        let points: Vec<_> = all.iter().filter(|row| row.2.event_name == "demo.Point").collect();
        let [(.., point), (.., odd)] = &points[..] else { panic!("{points:?}") };
        assert_eq!(find(&point.attributes, "x"), i(5));
        assert_eq!((&*point.trace_id, &*point.span_id), (&[1; 16][..], &[2; 8][..]));
        assert!(point.attributes.iter().all(|its| !its.key.ends_with("_id")), "{point:?}");
        assert_eq!((&*odd.trace_id, &*odd.span_id), (&[][..], &[][..]));
        assert_eq!(find(&odd.attributes, names::SPAN_ID), Some(Any::BytesValue(vec![0; 8])));
        assert_eq!(of("demo.Line").unwrap().body.clone().unwrap().value, s("a typed line"));
        let bytes = of("").unwrap();
        assert_eq!(bytes.body.clone().unwrap().value, s("a line"));
        let kind = i64::from(RecordType::BYTES.get());
        assert_eq!(find(&bytes.attributes, "perfring.type"), i(kind));
    }
}

#[test]
fn signals_that_are_not_selected_are_taken_and_left_out() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let signals = vec![perfring_export::otlp::Lane::Traces];
    let options = mapped(&server, |mapping| mapping.signals = signals);
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&Log { body: "b".into(), ..Log::default() }).unwrap();
    feed.sink.emit(&Gauge::new("g", 1u64)).unwrap();
    feed.sink.emit(&super::spans::start()).unwrap();
    feed.sink.emit(&super::spans::end()).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    assert_eq!((logs(&server).len(), metrics(&server).len(), spans(&server).len()), (0, 0, 1));
}

#[test]
fn nothing_is_observed_before_the_turn_in_which_it_came() {
    let server = Server::start();
    let (mut otlp, origin) = (open(&server), Origin::default());
    let take = |otlp: &mut Otlp, seq| {
        let what = What::Lost(Loss::new(8 * seq, 1, 16, LossCause::Ring(Cause::Full)));
        assert_eq!(otlp.take(&Event { seq, origin: &origin, what }).unwrap(), Took::Yes);
    };
    take(&mut otlp, 0);
    otlp.flush().unwrap();
    // A program that read rings would sleep here.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    take(&mut otlp, 1);
    close(otlp);
    let observed: Vec<u64> =
        logs(&server).into_iter().map(|(_, _, record)| record.observed_time_unix_nano).collect();
    assert_eq!(observed.len(), 2);
    assert!(u128::from(observed[1]) >= now, "{observed:?}, {now}");
}
