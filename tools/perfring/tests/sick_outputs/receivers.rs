//! The receivers of outputs, and how they are sick.

use super::lag::ns_of;
use crate::faults::arrived::{self, Arrived, Key};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use perfring_abi::{Lead, record_size};
use perfring_testkit::rng::Rng;
use perfring_testrig::nats;
use perfring_testrig::otlp::{Got, Reply, Server};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The ends of rings, by their names.
pub(crate) type Heads = HashMap<String, u64>;
/// When each record was written, as far as the receiver knows, and when it came first: ns since 1970.
pub(crate) type Times = HashMap<Key, (u64, u64)>;

const NATS: &str = "jetstream { store_dir: STORE }";
/// What a slow receiver takes to answer.
const SLOW: Duration = Duration::from_millis(300);

/// How a receiver is sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sickness {
    /// Nothing listens.
    Dead,
    /// It refuses.
    Refusing,
    /// It does not answer.
    Silent,
    /// It answers late.
    Slow,
}

impl Sickness {
    pub(crate) const ALL: [Sickness; 4] =
        [Sickness::Dead, Sickness::Refusing, Sickness::Silent, Sickness::Slow];
}

pub(crate) enum Receiver {
    Nats(Nats),
    Otlp(Otlp),
}

impl Receiver {
    pub(crate) fn sicken(&mut self, how: Sickness, rng: &mut Rng) {
        match self {
            Receiver::Nats(nats) => nats.sicken(how),
            Receiver::Otlp(otlp) => otlp.sicken(how, rng),
        }
    }

    pub(crate) fn cure(&mut self, how: Sickness) {
        match self {
            Receiver::Nats(nats) => nats.cure(how),
            Receiver::Otlp(otlp) => otlp.cure(),
        }
    }

    /// To be called often, also while it is sick.
    pub(crate) fn poll(&mut self, sick: Option<Sickness>) {
        match self {
            Receiver::Nats(nats) if sick == Some(Sickness::Slow) => nats.stutter(),
            Receiver::Nats(_) => {}
            Receiver::Otlp(otlp) => otlp.collect(),
        }
    }

    /// Returns whether everything before these ends of all rings came. The newest record is enough: each output keeps the
    /// order of a ring. (Not "something after them": while every writer pauses, nothing is written.)
    pub(crate) fn has(&self, heads: &Heads) -> bool {
        match self {
            Receiver::Nats(nats) => nats.has(heads),
            Receiver::Otlp(otlp) => {
                heads.iter().all(|(ring, head)| otlp.newest.get(ring).is_some_and(|at| at >= head))
            }
        }
    }

    /// Returns whether so many records came; true if it does not count them.
    pub(crate) fn has_records(&self, count: u64) -> bool {
        match self {
            Receiver::Nats(_) => true,
            Receiver::Otlp(otlp) => otlp.times.len() as u64 >= count,
        }
    }

    /// Returns a number that rises as long as more comes.
    pub(crate) fn progress(&self) -> u64 {
        match self {
            Receiver::Nats(nats) => nats.newest.get(),
            Receiver::Otlp(otlp) => otlp.times.len() as u64,
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Receiver::Nats(nats) => nats.server.pid(),
            Receiver::Otlp(_) => None,
        }
    }

    /// Returns all that came.
    pub(crate) fn arrived(&self) -> (Arrived, Times) {
        match self {
            Receiver::Nats(nats) => nats.arrived(),
            Receiver::Otlp(otlp) => (otlp.arrived.clone(), otlp.times.clone()),
        }
    }
}

/// A NATS server.
pub(crate) struct Nats {
    server: nats::Server,
    rings: Vec<String>,
    /// Whether it is stopped, and since when it is or is not.
    stutter: (bool, Instant),
    /// The sum of the last records' ends of all rings, when it was last asked for them.
    newest: Cell<u64>,
}

impl Nats {
    pub(crate) fn start(rings: &[&str]) -> Option<Self> {
        let server = nats::Server::with(NATS)?;
        let rings = rings.iter().map(|ring| (*ring).to_owned()).collect();
        let (stutter, newest) = ((false, Instant::now()), Cell::new(0));
        Some(Nats { server, rings, stutter, newest })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    fn sicken(&mut self, how: Sickness) {
        match how {
            Sickness::Dead => self.server.kill(),
            Sickness::Refusing => {
                self.server.kill();
                let wants = "authorization { user: somebody, password: else }";
                self.server.configure(&format!("{NATS}\n{wants}"));
                self.server.up();
            }
            Sickness::Silent | Sickness::Slow => {
                self.server.freeze();
                self.stutter = (true, Instant::now());
            }
        }
    }

    fn cure(&mut self, how: Sickness) {
        match how {
            Sickness::Dead => self.server.up(),
            Sickness::Refusing => {
                self.server.kill();
                self.server.configure(NATS);
                self.server.up();
            }
            Sickness::Silent | Sickness::Slow => self.server.thaw(),
        }
    }

    /// Stands still most of the time.
    fn stutter(&mut self) {
        let (stands, since) = self.stutter;
        let (still, goes) = (SLOW, SLOW / 10);
        if since.elapsed() < if stands { still } else { goes } {
            return;
        }
        if stands {
            self.server.thaw()
        } else {
            self.server.freeze()
        }
        self.stutter = (!stands, Instant::now());
    }

    fn has(&self, heads: &Heads) -> bool {
        let subjects: Vec<String> =
            self.rings.iter().map(|ring| format!("perfring.{ring}.bytes")).collect();
        let last = self.server.last_of(&subjects).into_iter().map(|message| {
            let end = message.and_then(|(headers, len)| {
                Some(end_of(headers.get("Perfring-Pos")?.as_str().parse().ok()?, len))
            });
            end.unwrap_or(0)
        });
        let last: Vec<u64> = last.collect();
        self.newest.set(last.iter().sum());
        self.rings.iter().zip(last).all(|(ring, end)| end >= heads[ring])
    }

    fn arrived(&self) -> (Arrived, Times) {
        let stored = self.server.stored();
        let mut times = Times::new();
        for message in stored.iter().filter(|message| message.header("Perfring-Cause").is_none()) {
            let header = |name: &str| message.header(name).unwrap();
            let uuid = header("Perfring-Uuid").replace('-', "");
            let key =
                (header("Perfring-Ring").to_owned(), uuid, header("Perfring-Pos").parse().unwrap());
            times.entry(key).or_insert((0, message.at as u64));
        }
        (arrived::in_stream(&stored), times)
    }
}

/// An OTLP receiver, and what it has received.
pub(crate) struct Otlp {
    address: SocketAddr,
    /// `None` while nothing listens.
    server: Option<Server>,
    got: Arc<Mutex<Got>>,
    arrived: Arrived,
    times: Times,
    /// The end of the newest record of each ring.
    newest: Heads,
}

impl Otlp {
    pub(crate) fn start() -> Self {
        let server = Server::start();
        Otlp {
            address: server.address,
            got: Arc::clone(&server.got),
            server: Some(server),
            arrived: Arrived::default(),
            times: Times::new(),
            newest: Heads::new(),
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn sicken(&mut self, how: Sickness, rng: &mut Rng) {
        let status = [401, 500, 503][rng.index(3)];
        let after = ["", "Retry-After: 0\r\n"][rng.index(2)];
        let reply = match how {
            Sickness::Dead => {
                drop(self.server.take().map(Server::kill));
                return;
            }
            Sickness::Refusing => Reply::Status(status, after),
            Sickness::Silent => Reply::Silence,
            Sickness::Slow => Reply::Delayed(SLOW),
        };
        self.got.lock().unwrap().otherwise = Some(reply);
    }

    fn cure(&mut self) {
        self.got.lock().unwrap().otherwise = None;
        if self.server.is_none() {
            self.server = Some(Server::at(self.address, Arc::clone(&self.got)));
        }
    }

    /// Notes what was received since the last call.
    fn collect(&mut self) {
        let (logs, at) = {
            let mut got = self.got.lock().unwrap();
            got.asked.clear();
            (std::mem::take(&mut got.logs), std::mem::take(&mut got.logs_at))
        };
        for (request, came) in logs.into_iter().zip(at) {
            for of in request.resource_logs {
                let resource = of.resource.unwrap_or_default().attributes;
                for record in of.scope_logs.into_iter().flat_map(|of| of.log_records) {
                    let ring = text_of(&resource, "perfring.ring.name").to_owned();
                    let key = text_of(&record.attributes, "perfring.key");
                    let (uuid, pos) = key.split_once('-').unwrap();
                    let Ok(pos) = pos.parse::<u64>() else {
                        panic!("a loss of a ring that is never full: {key}")
                    };
                    let text = body(record.body);
                    let newest = self.newest.entry(ring.clone()).or_default();
                    *newest = end_of(pos, text.len()).max(*newest);
                    let key: Key = (ring, uuid.to_owned(), pos);
                    let times = (record.time_unix_nano, ns_of(came));
                    self.times.entry(key.clone()).or_insert(times);
                    self.arrived.record(key, text);
                }
            }
        }
    }
}

/// Returns where a record ends in its ring.
fn end_of(pos: u64, len: usize) -> u64 {
    pos + record_size(len + Lead::Time.len())
}

fn text_of<'a>(attributes: &'a [KeyValue], name: &str) -> &'a str {
    let found = attributes.iter().find(|pair| pair.key == name);
    let value = found.and_then(|pair| pair.value.as_ref()?.value.as_ref());
    let Some(Any::StringValue(text)) = value else { panic!("no {name} in {attributes:?}") };
    text
}

fn body(body: Option<AnyValue>) -> String {
    match body.and_then(|body| body.value) {
        Some(Any::StringValue(text)) => text,
        Some(Any::BytesValue(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("no text: {other:?}"),
    }
}
