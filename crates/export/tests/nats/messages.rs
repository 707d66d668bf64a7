//! The content of messages.

use super::feed::{Feed, counted, loss, options, origin, record};
use perfring_consumer::Cause;
use perfring_export::nats::{Nats, Options, Payload};
use perfring_export::{Event, Output, Took, What};
use perfring_testkit::wait::{deadline, until};
use perfring_testrig::nats::Server;

#[test]
fn all_records_arrive_in_each_rings_order() {
    let Some(server) = Server::start() else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(3);
    feed.to(30_000, &mut nats);
    nats.close(deadline()).unwrap();
    assert_eq!(nats.unsettled(), None);
    let figures = nats.figures();
    assert_eq!((figures.taken, figures.delivered), (30_000, 30_000));
    assert_eq!((figures.refused, figures.retries, figures.trouble), (0, 0, None));
    assert_eq!(figures.bytes, 8 * 30_000);
    feed.check(&server.stored());
}

#[test]
fn a_message_has_its_headers_and_a_loss_is_one_too() {
    let Some(server) = Server::start() else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let ring = origin(0, "a shop.№1\r\nX: y");
    let events = [
        What::Began,
        record(64, b"\0\xffbytes", &ring),
        loss(128, 7, Cause::Full),
        loss(128, 3, Cause::TooLarge), // another loss at the same position
        record(128, b"more", &ring),
        // At the end of a stream one comes after the other, and the server must not take them for one.
        counted(192, 5, 12),
        counted(192, 5, 17),
        What::Ended,
    ];
    for (seq, what) in (0..).zip(events) {
        assert_eq!(nats.take(&Event { seq, origin: &ring, what }).unwrap(), Took::Yes);
    }
    nats.flush().unwrap();
    until("all are acknowledged", || nats.unsettled().is_none());
    let stored = server.stored();
    let subjects: Vec<_> = stored.iter().map(|one| one.subject.as_str()).collect();
    let (name, record, lost) = ("a_shop__1__X__y", "bytes", "lost");
    let wanted =
        [record, lost, lost, record, lost, lost].map(|kind| format!("perfring.{name}.{kind}"));
    assert_eq!(subjects, wanted);
    let id = "01".repeat(16);
    let ids: Vec<_> = stored.iter().map(|one| one.header("Nats-Msg-Id").unwrap()).collect();
    let full = ["192-lost-full-12", "192-lost-full-17"];
    let wanted = ["64", "128-lost-full", "128-lost-too_large", "128", full[0], full[1]];
    assert_eq!(ids, wanted.map(|end| format!("{id}-{end}")));
    let first = &stored[0];
    assert_eq!(first.payload, b"\0\xffbytes");
    assert_eq!(first.header("Perfring-Ring"), Some("a shop._1__X: y"));
    assert_eq!(first.header("Perfring-Uuid"), Some("01010101-0101-0101-0101-010101010101"));
    assert_eq!(first.header("Perfring-Pos"), Some("64"));
    assert_eq!(first.header("Perfring-Epoch"), Some("3"));
    assert_eq!(first.header("Perfring-Type"), Some("bytes"));
    assert_eq!(first.header("Perfring-Kind"), Some("4096"));
    assert_eq!(first.header("X"), None);
    assert_eq!(stored[2].header("Perfring-Cause"), Some("too_large"));
    let reported: serde_json::Value = serde_json::from_slice(&stored[1].payload).unwrap();
    assert_eq!(reported["lost"]["records"], 7);
    assert_eq!(reported["lost"]["cause"], "full");
    let reported: serde_json::Value = serde_json::from_slice(&stored[5].payload).unwrap();
    assert_eq!(reported["lost"]["sum"], 17);
    let figures = nats.figures();
    assert_eq!((figures.taken, figures.delivered), (2, 2), "losses are no records");
}

#[test]
fn json_is_the_line_of_the_json_output() {
    let Some(server) = Server::start() else { return };
    let options = Options { payload: Payload::Json, ..options(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    let ring = origin(0, "shop");
    let event = Event { seq: 0, origin: &ring, what: record(64, b"an order", &ring) };
    nats.take(&event).unwrap();
    nats.close(deadline()).unwrap();
    let stored = server.stored();
    let mut line = Vec::new();
    perfring_export::json::encode(&event, Default::default(), &Default::default(), &mut line);
    assert_eq!(stored[0].payload, line);
    assert_eq!(stored[0].headers.len(), 1);
}

#[test]
fn json_has_the_attributes_that_the_configuration_adds_to_resources() {
    let Some(server) = Server::start() else { return };
    let options = Options { payload: Payload::Json, ..options(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    nats.add_resource(&[("k8s.pod.name".to_owned(), "shop-7".to_owned())]);
    let mut feed = crate::feed::Feed::new(1, "shop");
    feed.pump(&mut crate::feed::Numbers::default(), &mut nats);
    nats.close(deadline()).unwrap();
    let resource: serde_json::Value = serde_json::from_slice(&server.stored()[0].payload).unwrap();
    assert_eq!(resource["fields"]["k8s.pod.name"], "shop-7");
}

#[test]
fn the_same_events_again_are_recognised() {
    let Some(server) = Server::start() else { return };
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    let mut feed = Feed::new(2);
    feed.to(5_000, &mut nats);
    nats.close(deadline()).unwrap();
    // Another process, which has no saved position.
    let mut nats = Nats::open("engine", &options(&server)).unwrap();
    (feed.seq, feed.released) = (0, 0);
    feed.to(6_000, &mut nats);
    nats.close(deadline()).unwrap();
    assert_eq!(nats.figures().delivered, 6_000);
    feed.check(&server.stored());
}
