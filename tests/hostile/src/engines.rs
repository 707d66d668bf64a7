//! Outputs that send to a server, without the servers: OTLP, NATS, Prometheus.

use crate::events::Script;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest as Logs;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest as Metrics;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Traces;
use perfring_export::nats::door::Messages;
use perfring_export::otlp::{Lane, Otlp};
use perfring_export::prometheus::Prometheus;
use perfring_export::{Output, Took, What};
use perfring_testkit::choices::{Choices, Input};
use prost::Message as _;
use std::time::Instant;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let which = input.u8();
    let subject = if which & 8 == 0 { String::new() } else { input.text(128) };
    let script = Script::of(&mut input);
    nats(&script, &subject, which & 16 == 0);
    otlp(&script, which & 32 == 0);
    // It opens a port, which takes time.
    if which & 7 == 0 {
        prometheus(&script, which & 64 == 0);
    }
}

/// Checks that a server accepts the subjects and headers, with any names in them.
fn nats(script: &Script, subject: &str, raw: bool) {
    use perfring_export::nats::{Headers, Options, Payload};
    let mut options = Options { headers: Some(Headers::All), ..Options::default() };
    options.payload = if raw { Payload::Raw } else { Payload::Json };
    if !subject.is_empty() {
        options.subject = subject.to_owned();
    }
    let mut messages = match Messages::new(&options) {
        Ok(messages) => messages,
        Err(sentence) => return assert!(!sentence.is_empty()),
    };
    script.each(|event| {
        let Some(message) = messages.of(event) else { return };
        let bad = |c: char| c.is_whitespace() || c.is_control() || "*>".contains(c);
        let legal = |word: &str| !word.is_empty() && !word.contains(bad);
        assert!(message.subject.split('.').all(legal), "{:?}", message.subject);
        for (name, value) in &message.headers {
            assert!(value.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{name}: {value:?}");
        }
        if let What::Record(record) = &event.what
            && raw
        {
            assert_eq!(message.payload, record.bytes);
        }
    });
}

/// Checks that requests can be parsed, and that all that was taken is delivered.
fn otlp(script: &Script, at_once: bool) {
    let mut options = perfring_export::otlp::Options::default();
    if at_once {
        (options.mapping.metric_interval, options.mapping.batch_items) =
            (std::time::Duration::ZERO, 4);
        (options.mapping.open_spans, options.mapping.held_bytes) = (2, 4096);
    }
    let mut otlp =
        Otlp::without_threads("fuzz", &options).unwrap_or_else(|error| panic!("{error}"));
    let mut records = 0;
    script.each(|event| {
        assert_eq!(otlp.take(event).ok(), Some(Took::Yes));
        records += u64::from(matches!(event.what, What::Record(_)));
        match event.seq % 16 {
            5 => otlp.hurry(),
            9 => otlp.requests(false).into_iter().for_each(read),
            13 => {
                let _ = otlp.flush();
            }
            _ => {}
        }
    });
    otlp.requests(true).into_iter().for_each(read);
    // Items that are still open are reported at the end. Nothing is sent here, so the deadline may have
    // passed.
    let _ = otlp.close(Instant::now());
    otlp.requests(true).into_iter().for_each(read);
    let figures = otlp.figures();
    if figures.delivered != records {
        script.each(|event| eprintln!("{event:?}"));
    }
    assert_eq!((figures.taken, figures.delivered, figures.refused), (records, records, 0));
    assert_eq!(otlp.unsettled(), None);
}

fn read((lane, bytes): (Lane, Vec<u8>)) {
    let read = match lane {
        Lane::Logs => Logs::decode(&*bytes).map(|request| request.encoded_len()),
        Lane::Metrics => Metrics::decode(&*bytes).map(|request| request.encoded_len()),
        Lane::Traces => Traces::decode(&*bytes).map(|request| request.encoded_len()),
    };
    assert_eq!(read.ok(), Some(bytes.len()));
}

/// Checks that Prometheus can read each line of the page.
fn prometheus(script: &Script, open_metrics: bool) {
    let options = perfring_export::prometheus::Options {
        listen: "127.0.0.1:0".to_owned(),
        series: 64,
        pid_label: true,
        ..perfring_export::prometheus::Options::default()
    };
    let mut output = Prometheus::open("fuzz", &options).unwrap_or_else(|error| panic!("{error}"));
    script.each(|event| {
        assert_eq!(output.take(event).ok(), Some(Took::Yes));
        if event.seq % 32 == 31 {
            page(&output.page(open_metrics));
        }
    });
    page(&output.page(open_metrics));
    let _ = output.close(Instant::now());
}

fn page(text: &str) {
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(
                ["HELP ", "TYPE ", "EOF"].iter().any(|word| comment.starts_with(word)),
                "{line}"
            );
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        assert!(!name.is_empty() && name.chars().all(legal), "{line}");
        assert!(!name.starts_with(|c: char| c.is_ascii_digit()), "{line}");
        // A value, after the labels and their quoted texts.
        let value = line.rsplit(' ').next().unwrap_or_default();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}
