//! What the receiver calls malformed is kept with its reason.

use super::delivery::numbers;
use super::spans::{end, start};
use super::*;
use base64::Engine as _;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use perfring_export::{DeadLetterFile, Output};
use prost::Message as _;
use std::path::Path;
use std::time::Duration;

/// The guide's page of messages.
pub(super) const ERRORS: &str = include_str!("../../../perfring/src/guide/errors.md");

/// Returns the cause, the numbers of items and refused items, and the request of each letter.
fn letters(path: &Path) -> Vec<(String, u64, u64, Got)> {
    let text = std::fs::read_to_string(path).unwrap();
    let letter = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["output"], &line["signal"]), (&"otlp".into(), &"logs".into()));
        assert!(!line["reason"].as_str().unwrap().is_empty() || line["cause"] == "too large");
        let request = line["request"].as_str().unwrap();
        let request = base64::engine::general_purpose::STANDARD.decode(request).unwrap();
        let request = ExportLogsServiceRequest::decode(&*request).unwrap();
        let got = Got { logs: vec![request], ..Got::default() };
        let number = |key: &str| line[key].as_u64().unwrap();
        (line["cause"].as_str().unwrap().to_owned(), number("items"), number("refused"), got)
    };
    text.lines().map(letter).collect()
}

#[test]
fn malformed_requests_are_kept_with_their_reason_and_counted_by_cause() {
    let server = Server::start();
    server.reply([Reply::Status(400, ""), Reply::Status(422, ""), Reply::Partial(2)]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.jsonl");
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options {
        dead_letters: DeadLetterFile::At(path.clone()),
        ..mapped(&server, |mapping| {
            mapping.batch_items = 10;
            mapping.batch_delay = Duration::from_secs(3600);
        })
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..40);
    feed.pump(&mut seqs, &mut otlp);
    delivers(&mut otlp);
    let figures = otlp.figures();
    assert_eq!(figures.refused_by, [("400", 10), ("422", 10), ("partial success", 2)]);
    assert_eq!((figures.refused, figures.delivered), (22, figures.taken - 22));
    let why = figures.trouble.unwrap();
    assert!(why.contains(" items were refused (partial success): too old"), "{why}");
    assert!(ERRORS.contains("\n## … items were refused (…): …\n"));
    assert!(why.contains("too old") && why.contains(path.to_str().unwrap()), "{why}");
    let letters = letters(&path);
    let causes: Vec<_> = letters.iter().map(|(cause, of, out, _)| (&**cause, *of, *out)).collect();
    assert_eq!(causes, [("400", 10, 10), ("422", 10, 10), ("partial success", 10, 2)]);
    // Each record is at the receiver or in a letter; those of a partial success are in both.
    for (at, (_, _, _, request)) in letters.iter().enumerate() {
        let first = at as i64 * 10;
        assert!(numbers(request).into_keys().eq(first..first + 10));
    }
    assert!(numbers(&server.got.lock().unwrap()).into_keys().eq(20..40));
    otlp.close(deadline()).unwrap();
}

#[test]
fn requests_that_are_too_large_are_halved_until_they_fit() {
    let server = Server::start();
    server.got.lock().unwrap().most = Some(2000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.jsonl");
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options {
        dead_letters: DeadLetterFile::At(path.clone()),
        ..mapped(&server, |mapping| {
            mapping.batch_items = 100;
            mapping.batch_delay = Duration::from_secs(3600);
        })
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..50);
    let large = "x".repeat(3000);
    let log = perfring_telemetry::Log {
        body: 50u64.into(),
        attributes: &[("large", (&large).into())],
        ..Default::default()
    };
    feed.sink.emit(&log).unwrap();
    emit(&feed, 51..100);
    feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    let got = server.got.lock().unwrap();
    assert!(numbers(&got).into_iter().eq((0..100).filter(|at| *at != 50).map(|at| (at, 1))));
    let figures = otlp.figures();
    assert_eq!(figures.refused_by, [("too large", 1)]);
    let letters = letters(&path);
    assert_eq!(letters.len(), 1);
    assert!(numbers(&letters[0].3).into_keys().eq([50]));
    // Once it knows the limit, it does not try what is beyond it.
    assert!(got.asked.len() < 2 * got.logs.len(), "{} for {}", got.asked.len(), got.logs.len());
}

#[test]
fn a_request_that_cannot_be_divided_is_sent_also_if_a_smaller_one_was_too_large() {
    let server = Server::start();
    server.got.lock().unwrap().most = Some(1000);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let batched = |mapping: &mut Mapping| {
        mapping.batch_items = 20;
        mapping.batch_delay = Duration::from_secs(3600);
    };
    let mut otlp = Otlp::open("otlp", &mapped(&server, batched)).unwrap();
    emit(&feed, 0..20);
    feed.pump(&mut seqs, &mut otlp);
    delivers(&mut otlp);
    // The receiver's limit is raised, and this output cannot know.
    server.got.lock().unwrap().most = None;
    let large = "x".repeat(3000);
    let attributes = [("large", (&large).into())];
    let log = perfring_telemetry::Log {
        body: 20u64.into(),
        attributes: &attributes,
        ..Default::default()
    };
    feed.sink.emit(&log).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    let figures = otlp.figures();
    assert_eq!((figures.refused, figures.delivered), (0, figures.taken), "{figures:?}");
    let got = server.got.lock().unwrap();
    assert!(numbers(&got).into_iter().eq((0..21).map(|at| (at, 1))));
    let (sent, taken) = (got.asked.len(), got.logs.len());
    assert!(sent > taken, "none of {sent} requests was too large");
}

#[test]
fn a_letter_that_cannot_be_written_holds_the_output() {
    let server = Server::start();
    server.reply([Reply::Status(400, "")]);
    let dir = tempfile::tempdir().unwrap();
    let (folder, away) = (dir.path().join("folder"), dir.path().join("away"));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("dead.jsonl");
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options { dead_letters: DeadLetterFile::At(path.clone()), ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    std::fs::rename(&folder, &away).unwrap();
    emit(&feed, 0..1);
    feed.pump(&mut seqs, &mut otlp);
    reports(&mut otlp, "a dead letter cannot be written");
    assert!(otlp.unsettled().is_some());
    assert_eq!(otlp.figures().refused, 0);
    std::fs::rename(&away, &folder).unwrap();
    otlp.close(deadline()).unwrap();
    assert_eq!(letters(&path).len(), 1);
    assert_eq!(otlp.figures().refused_by, [("400", 1)]);
}

#[test]
fn while_requests_are_refused_as_a_whole_it_says_so_until_a_later_one_is_accepted() {
    let server = Server::start();
    let (mut feed, mut seqs, mut spans) =
        (Feed::new(1, "ring"), Numbers::default(), Numbers::default());
    let options = mapped(&server, |mapping| {
        mapping.batch_items = 10;
        mapping.batch_delay = Duration::from_secs(3600);
    });
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    let mut sent = 0;
    let mut send = |feed: &mut Feed, otlp: &mut Otlp, reply: Option<Reply>| {
        server.reply(reply);
        emit(feed, sent..sent + 10);
        sent += 10;
        feed.pump(&mut seqs, otlp);
        delivers(otlp);
        otlp.figures()
    };
    for reply in [Reply::Status(400, ""), Reply::Status(422, ""), Reply::Partial(10)] {
        for _ in 0..2 {
            let figures = send(&mut feed, &mut otlp, Some(reply.clone()));
            let why = figures.refusing.unwrap();
            assert!(why.starts_with("10 of 10 items were refused ("), "{why}");
            assert!(why.ends_with("; not kept: `dead_letters` names no file"), "{why}");
            assert_eq!(figures.trouble, Some(why));
        }
        // Accepted in part is accepted. The complaint is still shown.
        for reply in [Some(Reply::Partial(2)), None] {
            let figures = send(&mut feed, &mut otlp, reply);
            assert_eq!(figures.refusing, None);
            assert!(figures.trouble.unwrap().starts_with("2 of 10 items were refused ("));
        }
    }
    // Another signal is not accepted with this one.
    assert!(send(&mut feed, &mut otlp, Some(Reply::Status(400, ""))).refusing.is_some());
    feed.sink.emit(&start()).unwrap();
    feed.sink.emit(&end()).unwrap();
    spans.next = 1000;
    feed.pump(&mut spans, &mut otlp);
    otlp.hurry();
    delivers(&mut otlp);
    assert!(!server.got.lock().unwrap().traces.is_empty());
    assert!(otlp.figures().refusing.is_some());
    // Each item of a request is too large.
    server.got.lock().unwrap().most = Some(10);
    assert!(send(&mut feed, &mut otlp, None).refusing.unwrap().contains("(too large)"));
    server.got.lock().unwrap().most = None;
    assert_eq!(send(&mut feed, &mut otlp, None).refusing, None);
}
