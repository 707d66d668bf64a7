//! Answers that say nothing about the records: they hold the output.

use super::delivery::numbers;
use super::letters::ERRORS;
use super::*;
use perfring_export::Output;
use perfring_testrig::otlp::at_socket;
use std::time::Duration;

#[test]
fn what_an_operator_must_mend_holds_the_output_and_loses_nothing() {
    let server = Server::start();
    let statuses = [401, 403, 404, 500];
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let mut otlp = open(&server);
    server.got.lock().unwrap().otherwise = Some(Reply::Status(statuses[0], ""));
    emit(&feed, 0..10);
    feed.pump(&mut seqs, &mut otlp);
    for status in statuses {
        // Until the trouble is seen: the receiver must not answer the next attempt otherwise before that.
        server.got.lock().unwrap().otherwise = Some(Reply::Status(status, ""));
        until("it says so", || {
            otlp.flush().unwrap();
            let figures = otlp.figures();
            assert_eq!((figures.refused, figures.bytes), (0, 0), "no request has its verdict");
            figures.trouble.is_some_and(|why| {
                why.contains(&format!(" answers {status}"))
                    && why.ends_with("; records are held until it accepts them")
            })
        });
        assert!(otlp.unsettled().is_some());
    }
    server.got.lock().unwrap().otherwise = None;
    assert!(ERRORS.contains("\n## … answers …: …; records are held until it accepts them\n"));
    otlp.close(deadline()).unwrap();
    let figures = otlp.figures();
    assert_eq!((figures.refused, figures.trouble), (0, None));
    assert!(figures.retries >= 4, "one for each status: {}", figures.retries);
    assert_eq!(numbers(&server.got.lock().unwrap()).len(), 10);
}

#[test]
fn a_new_token_is_read_and_ends_the_pause() {
    let server = Server::start();
    server.got.lock().unwrap().token = Some("Bearer new".into());
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "old\n").unwrap();
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options { token_file: Some(token.clone()), ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..10);
    feed.pump(&mut seqs, &mut otlp);
    reports(&mut otlp, "401");
    // The receiver asked for a pause of ten minutes, which is more than a test waits.
    let next = dir.path().join("next");
    std::fs::write(&next, "new\n").unwrap();
    std::fs::rename(next, token).unwrap();
    delivers(&mut otlp);
    assert_eq!(numbers(&server.got.lock().unwrap()).len(), 10);
    assert_eq!(otlp.figures().trouble, None);
    // Without the file records are held, too.
    std::fs::remove_file(options.token_file.unwrap()).unwrap();
    emit(&feed, 10..20);
    feed.pump(&mut seqs, &mut otlp);
    reports(&mut otlp, "token cannot be read");
    assert_eq!(otlp.figures().refused, 0);
}

#[test]
fn a_missing_file_of_secrets_is_an_error_at_the_start() {
    let options = Options { headers_file: Some("/nowhere/at/all".into()), ..Options::default() };
    let error = Otlp::open("otlp", &options).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all cannot be read"), "{error}");
}

#[test]
fn a_unix_socket_is_an_address_and_its_receiver_may_come_late_and_break() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("otel.sock");
    let endpoint = Some(format!("unix://{}:/base", path.display()));
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options {
        endpoint,
        timeout: Some(ANSWER),
        mapping: Mapping {
            batch_items: 10,
            batch_delay: Duration::ZERO,
            metric_interval: Duration::ZERO,
            ..Mapping::default()
        },
        ..Options::default()
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..100);
    feed.pump(&mut seqs, &mut otlp);
    reports(&mut otlp, "otel.sock:/base/v1/logs does not");
    let got = at_socket(&path);
    got.lock().unwrap().replies.extend([
        Reply::Closed,
        Reply::Status(503, ""),
        Reply::TakenThenBroken,
    ]);
    otlp.close(deadline()).unwrap();
    let got = got.lock().unwrap();
    assert_eq!(numbers(&got).len(), 100);
    let (line, headers, _) = &got.asked[0];
    assert_eq!(line, "POST /base/v1/logs HTTP/1.1");
    let is_packed = |line: &String| line.to_lowercase().starts_with("content-encoding");
    assert!(!headers.iter().any(is_packed), "compression gains nothing within a machine");
}

#[test]
fn a_silent_receiver_at_a_unix_socket_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("otel.sock");
    let got = at_socket(&path);
    got.lock().unwrap().replies.push_back(Reply::Silence);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let endpoint = Some(format!("unix://{}", path.display()));
    let options = Options {
        endpoint,
        timeout: Some(Duration::from_millis(50)),
        mapping: Mapping { batch_delay: Duration::ZERO, ..Mapping::default() },
        ..Options::default()
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..10);
    feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    assert_eq!(numbers(&got.lock().unwrap()).len(), 10);
    assert!(otlp.figures().retries > 0);
}
