//! Spans: complete, late, long, and incomplete.

use super::rows::*;
use super::*;
use std::time::Duration;

pub(crate) fn start<'a>() -> SpanStart<'a> {
    SpanStart {
        parent_span_id: Some(PARENT),
        kind: Some(SpanKind::Server),
        link: Some((TraceId([3; 16]), SpanId([4; 8]))),
        scope: "scope",
        attributes: &[("a", Value::U64(1)), ("b", Value::U64(2))],
        ..SpanStart::new(TRACE, SPAN, "GET /")
    }
}

pub(crate) fn end<'a>() -> SpanEnd<'a> {
    SpanEnd {
        parent_span_id: Some(PARENT),
        duration_nano: Some(1000),
        status: Some((Status::Error, "why")),
        attributes: &[("c", Value::U64(3))],
        ..SpanEnd::new(TRACE, SPAN, "GET /")
    }
}

#[test]
fn every_field_of_a_span_arrives_from_two_rings_as_one() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let (mut one, mut two) = (Feed::new(1, "one"), Feed::new(2, "two"));
    let mut otlp = open(&server);
    one.sink.emit(&start()).unwrap();
    let more = SpanStart {
        link: Some((TRACE, PARENT)),
        attributes: &[("b", Value::U64(22)), ("x", Value::Bool(true))],
        ..SpanStart::new(TRACE, SPAN, "")
    };
    one.sink.emit(&more).unwrap();
    two.sink.emit(&end()).unwrap();
    one.pump(&mut seqs, &mut otlp);
    assert!(otlp.unsettled().is_some(), "the start is held for its end");
    two.pump(&mut seqs, &mut otlp);
    close(otlp);
    let all = spans(&server);
    assert_eq!(all.len(), 1);
    let (resource, scope, span) = &all[0];
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("one"));
    assert_eq!(scope, "scope");
    assert_eq!((&*span.trace_id, &*span.span_id), (&TRACE.0[..], &SPAN.0[..]));
    assert_eq!((&*span.parent_span_id, &*span.name, span.kind), (&PARENT.0[..], "GET /", 2));
    assert!(span.start_time_unix_nano > 1_600_000_000_000_000_000);
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    assert_ne!(
        span.end_time_unix_nano - span.start_time_unix_nano,
        1000,
        "the timestamps are used"
    );
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.code, &*status.message), (2, "why"));
    let names: Vec<_> = span.attributes.iter().map(|pair| &*pair.key).collect();
    assert_eq!(names, ["a", "b", "x", "c"]);
    assert_eq!(find(&span.attributes, "b"), i(22));
    let links: Vec<_> = span.links.iter().map(|link| (&*link.trace_id, &*link.span_id)).collect();
    assert_eq!(links, [(&[3; 16][..], &[4; 8][..]), (&TRACE.0[..], &PARENT.0[..])]);
    assert_eq!(logs(&server).len(), 0);
}

#[test]
fn an_end_without_a_start_is_marked() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = mapped(&server, |mapping| mapping.span_grace = Duration::ZERO);
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&end()).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    delivers(&mut otlp);
    let span = spans(&server).remove(0).2;
    assert_eq!(find(&span.attributes, "perfring.span.start"), s("missing"));
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1000);
    assert_eq!((&*span.name, &*span.parent_span_id), ("GET /", &PARENT.0[..]));
    close(otlp);
}

#[test]
fn a_start_that_comes_after_its_end_is_joined() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let (mut one, mut two) = (Feed::new(1, "one"), Feed::new(2, "two"));
    let options = mapped(&server, |mapping| mapping.span_grace = Duration::from_secs(3600));
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    one.sink.emit(&start()).unwrap();
    two.sink.emit(&end()).unwrap();
    two.pump(&mut seqs, &mut otlp);
    one.pump(&mut seqs, &mut otlp);
    delivers(&mut otlp);
    let all = spans(&server);
    let (resource, _, span) = &all[0];
    assert_eq!((all.len(), span.kind, span.attributes.len()), (1, 2, 3));
    assert_eq!(find(&span.attributes, "perfring.span.start"), None);
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("one"));
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    close(otlp);
}

#[test]
fn a_span_of_a_removed_ring_is_reported_as_unfinished() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = mapped(&server, |mapping| mapping.span_grace = Duration::ZERO);
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&start()).unwrap();
    feed.sink.emit(&Log { body: "last words".into(), ..Log::default() }).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    feed.end(&mut seqs, &mut otlp);
    delivers(&mut otlp);
    let (resource, _, span) = spans(&server).remove(0);
    assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
    assert_eq!(find(&span.attributes, "perfring.span.end"), s("missing"));
    let status = span.status.unwrap();
    assert_eq!((status.code, &*status.message), (2, "its ring was removed before it ended"));
    assert_eq!(span.end_time_unix_nano, logs(&server)[0].2.time_unix_nano);
    close(otlp);
}

#[test]
fn a_long_span_releases_its_ring_and_is_complete_in_the_end() {
    for long_spans in [LongSpans::Log, LongSpans::Memory] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let mut feed = Feed::new(1, "ring");
        let options = mapped(&server, |mapping| {
            mapping.span_wait = Duration::ZERO;
            mapping.long_spans = long_spans;
        });
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        feed.sink.emit(&start()).unwrap();
        feed.pump(&mut seqs, &mut otlp);
        delivers(&mut otlp);
        let reported = logs(&server);
        assert_eq!(reported.len(), usize::from(long_spans == LongSpans::Log));
        if let Some((resource, scope, log)) = reported.first() {
            assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
            assert_eq!((&**scope, &*log.event_name), ("scope", "perfring.span.start"));
            assert_eq!((&*log.trace_id, &*log.span_id), (&TRACE.0[..], &SPAN.0[..]));
            assert_eq!(find(&log.attributes, "a"), i(1));
            assert_eq!(find(&log.attributes, "perfring.span.name"), s("GET /"));
            assert_eq!(
                find(&log.attributes, "perfring.span.parent_span_id"),
                s("0909090909090909")
            );
            assert!(log.time_unix_nano > 0);
        }
        feed.sink.emit(&end()).unwrap();
        feed.pump(&mut seqs, &mut otlp);
        close(otlp);
        let all = spans(&server);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].2.kind, all[0].2.attributes.len()), (2, 3));
    }
}

#[test]
fn waiting_items_hold_a_quarter_of_their_ring_at_most() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    feed.origin.data_size = 4096;
    let options = mapped(&server, |mapping| {
        mapping.span_wait = Duration::from_secs(3600);
        mapping.metric_interval = Duration::from_secs(3600);
        mapping.resource_wait = Duration::from_secs(3600);
    });
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&start()).unwrap();
    feed.sink.emit(&Gauge::new("g", 1u64)).unwrap();
    let not_resource =
        |rec: &perfring_export::Rec<'_>| rec.kind_of().unwrap().name != "perfring.Resource";
    feed.pump_if(&mut seqs, &mut otlp, not_resource);
    assert_eq!((spans(&server).len(), metrics(&server).len()), (0, 0));
    assert_eq!(otlp.unsettled(), Some(1));
    for number in 0..100u64 {
        feed.sink.emit(&Log { body: number.into(), ..Log::default() }).unwrap();
    }
    feed.pump_if(&mut seqs, &mut otlp, not_resource);
    let last = seqs.next;
    until("only the last item is held", || {
        otlp.flush().unwrap();
        otlp.unsettled().is_none_or(|seq| seq > last - 60)
    });
    assert_eq!(metrics(&server).len(), 1);
    // The resource was not waited for any longer.
    let reported = logs(&server);
    let start = reported.iter().find(|row| row.2.event_name == "perfring.span.start").unwrap();
    assert_eq!(find(&start.0.attributes, "service.name"), s(&unreported_service()));
    close(otlp);
}

#[test]
fn too_many_open_spans_are_reported_oldest_first() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = mapped(&server, |mapping| mapping.open_spans = 3);
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for number in 1..=5 {
        feed.sink.emit(&SpanStart::new(TRACE, SpanId([number; 8]), "s")).unwrap();
    }
    feed.pump(&mut seqs, &mut otlp);
    until("two are sent", || {
        otlp.flush().unwrap();
        spans(&server).len() == 2
    });
    for (at, (_, _, span)) in spans(&server).iter().enumerate() {
        assert_eq!(span.span_id, [at as u8 + 1; 8]);
        assert!(span.status.as_ref().unwrap().message.contains("too many spans are open"));
    }
    close(otlp);
}

#[test]
fn in_a_hurry_nothing_is_held_back_in_any_ring() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let hour = Duration::from_secs(3600);
    let options = mapped(&server, |mapping| {
        mapping.span_wait = hour;
        mapping.resource_wait = hour;
        mapping.metric_interval = hour;
        mapping.batch_delay = hour;
    });
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&SpanStart::new(TRACE, SpanId([1; 8]), "s")).unwrap();
    feed.sink.emit(&Log { body: 1u64.into(), ..Log::default() }).unwrap();
    let not_resource =
        |rec: &perfring_export::Rec<'_>| rec.kind_of().unwrap().name != "perfring.Resource";
    feed.pump_if(&mut seqs, &mut otlp, not_resource);
    otlp.flush().unwrap();
    assert!(otlp.unsettled().is_some());
    otlp.hurry();
    delivers(&mut otlp);
    assert_eq!(logs(&server).len(), 2); // one is the span's start
    close(otlp);
}
