//! Outages that are longer than the server's memory of ids.

use super::feed::{Feed, options};
use perfring_export::Output;
use perfring_export::nats::{Nats, Options, Stream};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{Watchdog, deadline, until};
use perfring_testrig::nats::Server;
use std::time::{Duration, Instant};

/// The server forgets ids after a tenth of a second here, so all messages in flight are in doubt.
#[test]
fn an_outage_longer_than_the_duplicate_window_doubles_nothing() {
    let Some(mut server) = Server::start() else { return };
    server.make_stream(async_nats::jetstream::stream::Config {
        name: "perfring".into(),
        subjects: vec!["perfring.*.*".into()],
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    });
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
