//! Servers that are missing, that refuse, or that lack something.

use super::feed::{Feed, options, origin, record};
use async_nats::jetstream::stream;
use perfring_export::nats::{Discard, Nats, Options, Storage, Stream};
use perfring_export::{Event, Output};
use perfring_testkit::wait::{Watchdog, deadline, until};
use perfring_testrig::nats::{Server, Stored, stored};
use std::time::{Duration, Instant};

/// Waits for a message with this word.
fn reported(nats: &Nats, word: &str) -> String {
    let mut sentence = String::new();
    until(word, || {
        sentence = nats.figures().trouble.unwrap_or_default();
        sentence.contains(word)
    });
    println!("{sentence}");
    sentence
}

#[test]
fn a_missing_server_at_the_start_is_waited_for_and_reported() {
    let Some(mut server) = Server::prepare("jetstream { store_dir: STORE }") else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(1);
    feed.to(100, &mut nats);
    reported(&nats, "no NATS server at nats://127.0.0.1");
    assert_eq!(nats.unsettled(), Some(0));
    server.up();
    nats.close(deadline()).unwrap();
    assert_eq!(nats.figures().trouble, None);
    feed.check(&server.stored());
}

#[test]
fn closing_without_a_server_ends_at_the_deadline_and_reports_the_rest() {
    let Some(server) = Server::prepare("") else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(1);
    feed.to(100, &mut nats);
    reported(&nats, "no NATS server");
    let error = nats.close(Instant::now() + Duration::from_millis(50)).unwrap_err();
    println!("{error}");
    assert!(error.to_string().starts_with("engine: 100 of 100 were not acknowledged"), "{error}");
    assert_eq!(nats.unsettled(), Some(0));
    // Nothing taken, nothing left.
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    nats.close(deadline()).unwrap();
}

#[test]
fn a_stopped_server_fills_the_window_and_blocks_nothing() {
    let Some(server) = Server::start() else { return };
    let options =
        Options { window: 1000, ack_timeout: Duration::from_millis(500), ..options(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    let mut feed = Feed::new(1);
    feed.to(2_000, &mut nats);
    until("all are acknowledged", || nats.unsettled().is_none());
    server.freeze();
    while feed.offer(&mut nats) {}
    assert_eq!(feed.seq, 3_000, "just the window");
    assert!(!feed.offer(&mut nats));
    assert_eq!(nats.unsettled(), Some(2_000));
    reported(&nats, "no acknowledgement for 500 ms");
    assert!(!feed.offer(&mut nats));
    server.thaw();
    feed.to(5_000, &mut nats);
    nats.close(deadline()).unwrap();
    feed.check(&server.stored());
}

#[test]
fn the_window_is_bounded_in_bytes_too() {
    let Some(server) = Server::prepare("") else { return };
    let options = Options { window_bytes: 100_000, ..options(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    let ring = origin(0, "a");
    let bytes = vec![1; 30_000];
    let mut took = Vec::new();
    for seq in 0..5 {
        let event = Event { seq, origin: &ring, what: record(seq * 8, &bytes, &ring) };
        took.push(nats.take(&event).unwrap() == perfring_export::Took::Yes);
    }
    assert_eq!(took, [true, true, true, false, false]);
    // A message larger than the window is sent alone.
    let options = Options { window_bytes: 1000, ..options };
    let mut nats = Nats::open("engine", &options).unwrap();
    for (seq, took) in [(0, true), (1, false)] {
        let event = Event { seq, origin: &ring, what: record(seq * 8, &bytes, &ring) };
        assert_eq!(nats.take(&event).unwrap() == perfring_export::Took::Yes, took);
    }
}

#[test]
fn a_full_stream_is_waited_for_and_reported() {
    let Some(server) = Server::start() else { return };
    server.make_stream(stream::Config {
        name: "perfring".into(),
        subjects: vec!["perfring.*.*".into()],
        max_messages: 300,
        discard: stream::DiscardPolicy::New,
        retention: stream::RetentionPolicy::WorkQueue,
        ..stream::Config::default()
    });
    let options = Options { window: 500, ..options(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    let mut feed = Feed::new(1);
    let mut there = Vec::new();
    let dog = Watchdog::default();
    // The stream is purged; three times.
    for count in [1_000, 2_000, 3_000] {
        while feed.seq < count {
            dog.check(format_args!("{:?}", nats.figures()));
            while feed.seq < count && feed.offer(&mut nats) {}
            nats.flush().unwrap();
            let trouble = nats.figures().trouble.unwrap_or_default();
            if feed.seq < count && trouble.contains("maximum messages exceeded") {
                server.drain(&mut there);
            }
        }
    }
    let closing = std::thread::spawn(move || {
        let closed = nats.close(deadline());
        (closed, nats)
    });
    until("all are there", || {
        server.drain(&mut there);
        there.len() as u64 >= feed.seq
    });
    let (closed, nats) = closing.join().unwrap();
    closed.unwrap();
    assert_eq!(nats.figures().refused, 0, "nothing is refused for good");
    assert!(nats.figures().retries > 0);
    // A refused message follows later ones that found room: by a window at most.
    let numbers: Vec<u64> = there.iter().map(Stored::number).collect();
    let once: std::collections::BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!((numbers.len() as u64, once.len() as u64), (feed.seq, feed.seq));
    let mut latest = 0;
    for number in numbers {
        latest = latest.max(number);
        assert!(number + 500 > latest, "{number} after {latest}");
    }
}

#[test]
fn a_message_too_large_for_the_server_is_refused_for_good_and_counted() {
    let Some(server) = Server::with("jetstream { store_dir: STORE }\nmax_payload: 20000") else {
        return;
    };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let ring = origin(0, "a");
    for (seq, len) in [(0, 10), (1, 30_000), (2, 20), (3, 30_000), (4, 30)] {
        let bytes = vec![b'x'; len];
        let event = Event { seq, origin: &ring, what: record(seq * 8, &bytes, &ring) };
        nats.take(&event).unwrap();
    }
    nats.close(deadline()).unwrap();
    let figures = nats.figures();
    assert_eq!((figures.taken, figures.delivered, figures.refused), (5, 3, 2));
    let trouble = figures.trouble.unwrap();
    println!("{trouble}");
    assert!(
        trouble.starts_with("2 refused for good, the last: ") && trouble.contains("-24 of 30000")
    );
    let lens: Vec<_> = server.stored().iter().map(|one| one.payload.len()).collect();
    assert_eq!(lens, [10, 20, 30]);
}

#[test]
fn while_messages_are_refused_it_says_so_until_a_later_one_is_accepted() {
    let Some(server) = Server::with("jetstream { store_dir: STORE }\nmax_payload: 20000") else {
        return;
    };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let ring = origin(0, "a");
    for (seq, len) in (0..).zip([30_000, 10, 30_000]) {
        let bytes = vec![b'x'; len];
        let event = Event { seq, origin: &ring, what: record(seq * 8, &bytes, &ring) };
        nats.take(&event).unwrap();
        until("it is answered", || {
            nats.flush().unwrap();
            nats.unsettled().is_none()
        });
        let figures = nats.figures();
        assert_eq!(figures.refusing.is_some(), len > 20_000, "{figures:?}");
        let why = figures.trouble.unwrap();
        assert!(why.ends_with("; not kept: `dead_letters` names no file"), "{why}");
    }
    nats.close(deadline()).unwrap();
}

#[test]
fn a_message_too_large_for_the_stream_is_refused_for_good_too() {
    let Some(server) = Server::start() else { return };
    server.make_stream(stream::Config {
        name: "perfring".into(),
        subjects: vec!["perfring.*.*".into()],
        max_message_size: 1000,
        ..stream::Config::default()
    });
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let ring = origin(0, "a");
    for (seq, len) in [(0, 10), (1, 3_000), (2, 20)] {
        let bytes = vec![b'x'; len];
        let event = Event { seq, origin: &ring, what: record(seq * 8, &bytes, &ring) };
        nats.take(&event).unwrap();
    }
    nats.close(deadline()).unwrap();
    let figures = nats.figures();
    assert_eq!((figures.delivered, figures.refused), (2, 1), "{:?}", figures.trouble);
}

#[test]
fn wrong_credentials_are_reported_and_right_ones_continue() {
    let config = "jetstream { store_dir: STORE }\nauthorization { user: ring, password: secret }";
    let Some(server) = Server::with(config) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    let user = Some("ring".into());
    let options = Options { user, password_file: Some(file.clone()), ..options(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    let mut feed = Feed::new(1);
    feed.to(10, &mut nats);
    let sentence = reported(&nats, "refuses access");
    assert!(sentence.contains("check `credentials_file`"));
    std::fs::write(&file, "secret\n").unwrap();
    nats.close(deadline()).unwrap();
    let login = async_nats::ConnectOptions::with_user_and_password("ring".into(), "secret".into());
    feed.check(&server.ask_as(login, async |context| stored(&context, "perfring").await));
}

#[test]
fn a_server_without_jetstream_is_reported() {
    let Some(mut server) = Server::with("") else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(1);
    feed.to(10, &mut nats);
    reported(&nats, "start it with -js");
    server.kill();
    server.configure("jetstream { store_dir: STORE }");
    server.up();
    nats.close(deadline()).unwrap();
    feed.check(&server.stored());
}

#[test]
fn a_stream_is_created_as_configured() {
    let Some(server) = Server::start() else { return };
    let stream = Stream {
        name: "own".into(),
        storage: Storage::Memory,
        max_bytes: 1 << 20,
        max_messages: 1000,
        max_age: Duration::from_secs(60),
        discard: Discard::Old,
        ..Stream::default()
    };
    let subject = "host.{ring}-of.{type}".into();
    let mut nats = Nats::open("engine", &Options { stream, subject, ..options(&server) }).unwrap();
    let mut feed = Feed::new(1);
    feed.to(1, &mut nats);
    nats.close(deadline()).unwrap();
    let config = server
        .ask(async |context| context.get_stream("own").await.unwrap().cached_info().config.clone());
    assert_eq!(config.subjects, ["host.*.*"]);
    assert_eq!(config.storage, stream::StorageType::Memory);
    assert_eq!((config.max_bytes, config.max_messages), (1 << 20, 1000));
    assert_eq!(config.discard, stream::DiscardPolicy::Old);
    let seconds = Duration::from_secs;
    assert_eq!((config.max_age, config.duplicate_window), (seconds(60), seconds(60)));
}

#[test]
fn a_removed_stream_is_created_again() {
    let Some(server) = Server::start() else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(1);
    feed.to(1_000, &mut nats);
    until("all are acknowledged", || nats.unsettled().is_none());
    server.ask(async |context| context.delete_stream("perfring").await.unwrap());
    feed.to(2_000, &mut nats);
    nats.close(deadline()).unwrap();
    let numbers: Vec<u64> = server.stored().iter().map(Stored::number).collect();
    assert!(numbers.into_iter().eq(1_000..2_000));
}

#[test]
fn a_stream_that_may_not_be_created_is_reported() {
    let Some(server) = Server::start() else { return };
    let stream = Stream { create: false, ..Stream::default() };
    let mut nats = Nats::open("engine", &Options { stream, ..options(&server) }).unwrap();
    let mut feed = Feed::new(1);
    feed.to(10, &mut nats);
    reported(&nats, "there is no stream \"perfring\"");
    // A stream without our subjects.
    server.make_stream(stream::Config {
        name: "perfring".into(),
        subjects: vec!["other.>".into()],
        ..stream::Config::default()
    });
    reported(&nats, "no stream takes the subject perfring.ring-0.bytes");
    // Another stream has our subjects.
    server.make_stream(stream::Config {
        name: "elsewhere".into(),
        subjects: vec!["perfring.>".into()],
        ..stream::Config::default()
    });
    reported(&nats, "belongs to the stream \"elsewhere\"");
    server.ask(async |context| {
        context.delete_stream("elsewhere").await.unwrap();
        let subjects = vec!["perfring.>".into()];
        let config = stream::Config { name: "perfring".into(), subjects, ..Default::default() };
        context.update_stream(config).await.unwrap();
    });
    nats.close(deadline()).unwrap();
    feed.check(&server.stored());
}

#[test]
fn invalid_options_are_refused_with_a_message() {
    let base = Options::default;
    let none = || Some("x".to_owned());
    for (options, word) in [
        (Options { servers: vec![], ..base() }, "`servers` is empty"),
        (Options { servers: vec!["nats://a b".into()], ..base() }, "is not an address"),
        (Options { subject: "a.{type}.".into(), ..base() }, "empty word"),
        (Options { user: none(), ..base() }, "`user` needs `password`"),
        (Options { password: none(), ..base() }, "these need `user`"),
        (Options { token: none(), nkey_file: Some("x".into()), ..base() }, "more than one of"),
        (
            Options { token_file: Some("/nowhere/at/all".into()), ..base() },
            "/nowhere/at/all: No such",
        ),
        (Options { ca_file: Some("/nowhere/at/all".into()), ..base() }, "/nowhere/at/all: No such"),
        (Options { cert_file: Some("/dev/null".into()), ..base() }, "go together"),
        (Options { window: 0, ..base() }, "more than 0"),
        (Options { window: 1 << 20, ..base() }, "at most 65536"),
        (
            Options { stream: Stream { name: "a.b".into(), ..Stream::default() }, ..base() },
            "cannot be a stream's name",
        ),
        (
            Options { stream: Stream { replicas: 6, ..Stream::default() }, ..base() },
            "`replicas` must be 1 to 5",
        ),
    ] {
        let error = Nats::open("engine", &options).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(toml::from_str::<Options>("window_byte = 1").is_err());
}
