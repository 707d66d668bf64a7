//! At-least-once delivery.

use super::*;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use perfring_consumer::Cause;
use perfring_export::{Event, Loss, LossCause, Output, Took, What};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Returns the bodies (numbers) of all received log records, and how often each was received.
pub(super) fn numbers(got: &Got) -> BTreeMap<i64, usize> {
    let mut out = BTreeMap::new();
    for record in records(got) {
        if let Some(Any::IntValue(body)) = record.body.as_ref().unwrap().value {
            *out.entry(body).or_default() += 1;
        }
    }
    out
}

pub(super) fn records(
    got: &Got,
) -> impl Iterator<Item = &opentelemetry_proto::tonic::logs::v1::LogRecord> + '_ {
    got.logs
        .iter()
        .flat_map(|request| &request.resource_logs)
        .flat_map(|of| &of.scope_logs)
        .flat_map(|of| &of.log_records)
}

#[test]
fn a_server_that_fails_for_a_while_gets_everything() {
    let server = Server::start();
    server.reply([
        Reply::Closed,
        Reply::Status(503, ""),
        Reply::Status(429, "Retry-After: 0\r\n"),
        Reply::TakenThenBroken,
        Reply::Status(502, ""),
        Reply::Status(504, ""),
    ]);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = mapped(&server, |mapping| mapping.batch_items = 10);
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..100);
    let read = feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    assert_eq!(otlp.unsettled(), None);
    let got = server.got.lock().unwrap();
    let came = numbers(&got);
    assert_eq!(came.keys().copied().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    // Only the batch whose answer broke off arrived twice, and its records are recognised by their
    // keys.
    let twice = came.values().filter(|times| **times == 2).count();
    assert!((1..=10).contains(&twice) && came.values().all(|times| *times <= 2), "{came:?}");
    let key = |pair: &opentelemetry_proto::tonic::common::v1::KeyValue| pair.key == "perfring.key";
    let keys: BTreeSet<String> =
        records(&got).map(|it| format!("{:?}", it.attributes.iter().find(|it| key(it)))).collect();
    assert_eq!(keys.len(), 100);
    let figures = otlp.figures();
    assert_eq!((figures.taken, figures.delivered, figures.refused), (read, read, 0));
    assert_eq!((figures.retries, figures.trouble), (6, None));
}

#[test]
fn a_server_that_is_killed_and_comes_back_gets_everything() {
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let mut server = Server::start();
    let options = mapped(&server, |mapping| mapping.batch_items = 7);
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for round in 0..5 {
        emit(&feed, round * 100..round * 100 + 100);
        feed.pump(&mut seqs, &mut otlp);
        let (address, got) = server.kill();
        emit(&feed, 1000 + round * 100..1000 + round * 100 + 100);
        feed.pump(&mut seqs, &mut otlp);
        reports(&mut otlp, "does not answer");
        assert!(otlp.unsettled().is_some());
        server = Server::at(address, got);
    }
    otlp.close(deadline()).unwrap();
    let came = numbers(&server.got.lock().unwrap());
    assert_eq!(came.len(), 1000);
    println!("{} of 1000 arrived twice", came.values().filter(|times| **times > 1).count());
    assert_eq!(otlp.figures().delivered, otlp.figures().taken);
}

#[test]
fn retry_after_is_honoured() {
    let server = Server::start();
    server.reply([Reply::Status(503, "Retry-After: 1\r\n")]);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let mut otlp = open(&server);
    emit(&feed, 0..1);
    feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    let got = server.got.lock().unwrap();
    let waited = got.asked[1].2 - got.asked[0].2;
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
}

#[test]
fn refused_records_are_reported_and_not_sent_again() {
    let server = Server::start();
    server.reply([Reply::Status(400, "")]);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let mut otlp = open(&server);
    emit(&feed, 0..5);
    feed.pump_if(&mut seqs, &mut otlp, |_| true);
    let sent = |otlp: &mut Otlp| {
        otlp.flush().unwrap();
        otlp.unsettled().is_none()
    };
    until("it is answered", || sent(&mut otlp));
    let figures = otlp.figures();
    assert_eq!(figures.delivered + figures.refused, 6); // the resource is one of them
    assert!(figures.refused > 0);
    let trouble = figures.trouble.unwrap();
    assert!(trouble.contains("400") && trouble.contains("refused"), "{trouble}");

    server.reply([Reply::Partial(2)]);
    emit(&feed, 5..10);
    let before = otlp.figures().refused;
    // All in one batch.
    feed.pump(&mut seqs, &mut otlp);
    until("it is answered", || sent(&mut otlp));
    let figures = otlp.figures();
    assert!((1..=2).contains(&(figures.refused - before)), "{figures:?}");
    assert!(figures.trouble.unwrap().contains("too old"));
    assert_eq!(figures.retries, 0);
    otlp.close(deadline()).unwrap();
}

#[test]
fn a_silent_server_makes_it_busy_and_does_not_block() {
    let server = Server::start();
    server.reply(vec![Reply::Silence; 1000]);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options {
        queue_bytes: 10_000,
        timeout: Some(Duration::from_secs(600)),
        ..options(&server)
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    emit(&feed, 0..1);
    let mut taken = 0u64;
    let mut refused = false;
    let mut origin = feed.origin.clone();
    origin.data_size = 1 << 40;
    // The same loss again and again: it needs no ring.
    let loss = Loss::new(8, 1, 16, LossCause::Ring(Cause::Full));
    for seq in seqs.next..seqs.next + 10_000 {
        let event = Event { seq, origin: &origin, what: What::Lost(loss) };
        if otlp.take(&event).unwrap() == Took::Busy {
            refused = true;
            break;
        }
        taken += 1;
    }
    assert!(refused && taken > 0, "{taken} were taken");
    assert_eq!(otlp.unsettled(), Some(seqs.next));
    let error = otlp.close(Instant::now() + Duration::from_millis(50)).unwrap_err().to_string();
    assert!(error.contains("were not delivered in time"), "{error}");
    println!("{taken} were taken before it was busy");
}

#[test]
fn a_missing_receiver_at_close_is_an_error_with_the_number() {
    let server = Server::start();
    let options = options(&server);
    let _ = server.kill();
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..17);
    feed.pump(&mut seqs, &mut otlp);
    let error = otlp.close(Instant::now() + Duration::from_millis(300)).unwrap_err().to_string();
    assert!(error.contains("17 records were not delivered"), "{error}");
    assert!(otlp.unsettled().is_some_and(|seq| seq <= 2));
}

#[test]
fn unsettled_is_the_oldest_event_that_is_not_delivered() {
    let server = Server::start();
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let mut otlp = open(&server);
    emit(&feed, 0..3);
    feed.pump(&mut seqs, &mut otlp);
    delivers(&mut otlp);
    server.got.lock().unwrap().otherwise = Some(Reply::Status(503, ""));
    let before = server.got.lock().unwrap().asked.len();
    let oldest = seqs.next;
    emit(&feed, 3..6);
    feed.pump(&mut seqs, &mut otlp);
    until("a request was received", || {
        otlp.flush().unwrap();
        server.got.lock().unwrap().asked.len() > before
    });
    assert_eq!(otlp.unsettled(), Some(oldest), "none is accepted");
    server.got.lock().unwrap().otherwise = None;
    otlp.close(deadline()).unwrap();
    assert_eq!(numbers(&server.got.lock().unwrap()).len(), 6);
}
