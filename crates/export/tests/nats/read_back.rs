//! Outages that are longer than the server's memory of ids.

use super::feed::{Feed, options};
use perfring_export::Output;
use perfring_export::nats::{Nats, Options, Stream};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{Watchdog, deadline, until};
use perfring_testrig::nats::{Server, stored};
use std::time::{Duration, Instant};

fn stream_that_forgets_ids() -> async_nats::jetstream::stream::Config {
    async_nats::jetstream::stream::Config {
        name: "perfring".into(),
        subjects: vec!["perfring.*.*".into()],
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    }
}

/// The server forgets ids after a tenth of a second here, so all messages in flight are in doubt.
#[test]
fn an_outage_longer_than_the_duplicate_window_doubles_nothing() {
    let Some(mut server) = Server::start() else { return };
    server.make_stream(stream_that_forgets_ids());
    let mut dice = Rng::from_env();
    let stream = Stream { create: false, ..Stream::default() };
    let mut nats = Nats::open("engine", &Options { stream, ..options(&server) }).unwrap();
    let mut feed = Feed::new(3);
    for part in 1..=5u64 {
        let end = part * 10_000;
        let at = nats.figures().delivered + 1 + dice.below(4_000);
        let dog = Watchdog::default();
        while nats.figures().delivered < at && feed.seq < end {
            dog.check(format_args!("{:?}", nats.figures()));
            if !feed.offer(&mut nats) {
                std::thread::yield_now();
            }
        }
        server.kill();
        until("it is noticed", || nats.figures().trouble.is_some());
        let killed = Instant::now();
        until("the ids are forgotten", || killed.elapsed() > Duration::from_millis(200));
        server.up();
        feed.to(end, &mut nats);
    }
    nats.close(deadline()).unwrap();
    feed.check(&server.stored());
}

/// A request for messages has no end if its consumer is gone, or the connection: the server says nothing about it. Here it
/// refuses the request itself.
#[test]
fn a_read_back_without_an_answer_is_begun_again() {
    let config = |denied: &str| {
        let user = "user: ring, password: secret";
        let permissions = format!("permissions: {{ publish: {{ deny: [{denied}] }} }}");
        format!(
            "jetstream {{ store_dir: STORE }}\nauthorization {{ users: [{{ {user}, {permissions} }}] }}"
        )
    };
    let Some(mut server) = Server::with(&config("\"$JS.API.CONSUMER.MSG.NEXT.>\"")) else { return };
    let login =
        || async_nats::ConnectOptions::with_user_and_password("ring".into(), "secret".into());
    server.ask_as(login(), async |context| {
        context.create_stream(stream_that_forgets_ids()).await.unwrap();
    });
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let options = Options {
        stream: Stream { create: false, ..Stream::default() },
        user: Some("ring".into()),
        password_file: Some(password),
        ack_timeout: Duration::from_millis(300),
        ..options(&server)
    };
    let mut nats = Nats::open("engine", &options).unwrap();
    let mut feed = Feed::new(1);
    feed.to(100, &mut nats);
    until("all are acknowledged", || nats.unsettled().is_none());
    server.freeze();
    feed.to(200, &mut nats); // in doubt: sent to a server that answers nothing
    until("it is noticed", || nats.figures().trouble.is_some());
    server.thaw();
    let sentence = |nats: &Nats| nats.figures().trouble.unwrap_or_default();
    until("the read-back has no answer", || sentence(&nats).contains("back: no answer for 300 ms"));
    server.kill();
    server.configure(&config(""));
    server.up();
    nats.close(deadline()).unwrap();
    feed.check(&server.ask_as(login(), async |context| stored(&context, "perfring").await));
}
