//! Servers and senders that are killed.

use super::feed::{Feed, options};
use perfring_export::Output;
use perfring_export::nats::Nats;
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{Watchdog, deadline, until};
use perfring_testrig::nats::Server;

const RECORDS: u64 = 60_000;

#[test]
fn a_server_killed_at_random_loses_and_doubles_nothing() {
    let Some(mut server) = Server::start() else { return };
    let mut dice = Rng::from_env();
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(3);
    let mut kills = 0;
    for part in 1..=6 {
        // The server is killed once some more are delivered, with others in flight.
        let end = part * RECORDS / 6;
        let at = nats.figures().delivered + dice.below(RECORDS / 12);
        let dog = Watchdog::default();
        while nats.figures().delivered < at && feed.seq < end {
            dog.check(format_args!("{:?}", nats.figures()));
            if !feed.offer(&mut nats) {
                std::thread::yield_now();
            }
        }
        server.kill();
        kills += 1;
        feed.release(&mut nats);
        if dice.below(2) == 0 {
            // The output notices it, and the window fills.
            until("the trouble is reported", || nats.figures().trouble.is_some());
            while feed.seq < end && feed.offer(&mut nats) {}
        }
        server.up();
        feed.to(end, &mut nats);
    }
    nats.close(deadline()).unwrap();
    let figures = nats.figures();
    println!("{kills} kills, {} sent again or connected again", figures.retries);
    assert_eq!((figures.delivered, figures.refused), (RECORDS, 0));
    assert!(figures.retries >= kills, "no kill was noticed");
    feed.check(&server.stored());
}

#[test]
fn a_sender_killed_and_started_again_doubles_nothing() {
    let Some(mut server) = Server::start() else { return };
    let mut dice = Rng::from_env();
    let mut feed = Feed::new(3);
    let mut redelivered = 0;
    for life in 0..8 {
        let mut nats = Nats::open("engine", &options(&server)).unwrap();
        let at = feed.released + dice.below(RECORDS / 8);
        let dog = Watchdog::default();
        while feed.released < at {
            dog.check(format_args!("{:?}", nats.figures()));
            while feed.seq < at + 2_000 && feed.offer(&mut nats) {}
            nats.flush().unwrap();
            feed.release(&mut nats);
        }
        drop(nats); // whatever is in flight
        if life % 3 == 0 {
            server.kill();
            server.up();
        }
        // The next one starts where the rings still have them.
        redelivered += feed.seq - feed.released;
        feed.seq = feed.released;
    }
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    feed.to(RECORDS, &mut nats);
    nats.close(deadline()).unwrap();
    println!("{redelivered} taken again");
    assert!(redelivered > 0);
    feed.check(&server.stored());
}

/// Delivered records are in the stream, even if the server is killed right then.
#[test]
fn released_records_are_in_the_stream() {
    let Some(mut server) = Server::start() else { return };
    let mut dice = Rng::from_env();
    for _ in 0..5 {
        let mut nats = Nats::open("engine", &options(&server)).unwrap();
        let mut feed = Feed::new(1);
        for origin in &mut feed.origins {
            origin.uuid = dice.below(u64::MAX).to_le_bytes().repeat(2).try_into().unwrap();
        }
        let before = if server.has_stream() { server.stored().len() as u64 } else { 0 };
        let at = 1 + dice.below(5_000);
        until("enough are released", || {
            while feed.seq < 20_000 && feed.offer(&mut nats) {}
            nats.flush().unwrap();
            feed.release(&mut nats);
            feed.released >= at
        });
        server.kill();
        feed.release(&mut nats);
        drop(nats);
        server.up();
        let stored = server.stored();
        let there = stored.len() as u64 - before;
        assert!(there >= feed.released, "{there} present, {} released", feed.released);
        for (number, message) in stored[before as usize..].iter().enumerate() {
            assert_eq!(message.payload, (number as u64).to_le_bytes(), "in order");
        }
    }
}
