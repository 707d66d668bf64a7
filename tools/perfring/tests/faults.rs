//! The promise of `perfring sidecar` as a whole: whichever process is killed, every committed
//! record arrives, except those that the rings themselves report as lost; and duplicates have the
//! same key.
//!
//! Real processes on all sides: writers, the sidecar, `nats-server`. `PERFRING_SEED` repeats a run.
#![cfg(feature = "nats")]

pub(crate) mod arrived;
pub(crate) mod writer;

use self::arrived::Arrived;
use self::writer::Writer;
use crate::command::{Live, perfring};
use nix::sys::signal::Signal;
use perfring_consumer::stat::Stat;
use perfring_producer::Options;
use perfring_set::{RingSet, SetOptions};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::until;
use perfring_testrig::nats::Server;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;
use tempfile::TempDir;

const RINGS: [&str; 4] = ["one", "two", "three", "four"];
/// How often the sidecar and the server are killed.
const KILLS: usize = 10;
/// How often a writer is killed.
const WRITERS: usize = 4;
/// How often the server is stopped, and continued with what is left in its sockets.
const FREEZES: usize = 3;

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Sidecar,
    Server,
    Writer,
    /// Not killed: the server is stopped for some time.
    Freeze,
}

/// The state of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Up,
    Frozen,
    Dead,
}

/// All kills, in some order.
fn kills(rng: &mut Rng) -> Vec<Kill> {
    let mut kills = vec![Kill::Sidecar; KILLS];
    kills.extend([Kill::Server; KILLS]);
    kills.extend([Kill::Writer; WRITERS]);
    kills.extend([Kill::Freeze; FREEZES]);
    for at in (1..kills.len()).rev() {
        kills.swap(at, rng.index(at + 1));
    }
    kills
}

/// Not a test of its own: the process that [`Writer`] starts from this very file.
#[test]
fn a_writer_until_its_stdin_ends() {
    writer::write();
}

/// Rings, the sidecar that reads them, and its outputs.
struct Stage {
    place: TempDir,
    server: Server,
    server_is: Is,
    sidecar: Option<Live>,
    writers: Vec<Writer>,
}

/// The sums of all rings' totals.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Committed or refused.
    tried: u64,
    refused: u64,
    /// Bytes that the sidecar has released.
    released: u64,
}

impl Stage {
    fn new() -> Option<Stage> {
        let server = Server::start()?;
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let config = format!(
            "delay = \"5ms\"\n\
             [[input]]\ndir = {:?}\n\
             [[output]]\ntype = \"json\"\npath = {:?}\nmax_bytes = 1_000_000\nkeep = 0\n\
             [[output]]\ntype = \"nats\"\nservers = [{:?}]\npayload = \"raw\"\n\
             ack_timeout = \"1s\"\nmax_backoff = \"50ms\"\n\
             # A sidecar is dead, and a server stopped, for as long as this machine needs.\n\
             stream = {{ duplicate_window = \"1h\" }}\n",
            path("rings"),
            path("out.jsonl"),
            server.url(),
        );
        fs::write(path("sidecar.toml"), config).unwrap();
        let rings = path("rings");
        let mut options = SetOptions::default();
        // Full after some hundred records, and so within an outage.
        options.ring = Options { size: 32 << 10, ..options.ring };
        let set = RingSet::open_with(&rings, &options).unwrap();
        RINGS.iter().for_each(|name| drop(set.producer(name).unwrap()));
        let writers =
            RINGS.iter().map(|name| Writer::start(&rings.join(name), 1, u64::MAX)).collect();
        Some(Stage { place, server, server_is: Is::Up, sidecar: None, writers })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn ring(&self, name: &str) -> PathBuf {
        self.path("rings").join(name)
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for name in RINGS {
            let totals = Stat::read(self.ring(name)).unwrap().totals.unwrap();
            let refused = totals.producer.refused.total().records;
            sums.tried += totals.producer.written.records + refused;
            sums.refused += refused;
            sums.released += totals.tail;
        }
        sums
    }

    fn start_sidecar(&mut self) {
        if self.sidecar.is_some() {
            return;
        }
        let said = File::options().append(true).create(true).open(self.path("said")).unwrap();
        let config = self.path("sidecar.toml");
        let mut command = perfring(&["sidecar", "--config", config.to_str().unwrap()]);
        command.stderr(Stdio::from(said));
        self.sidecar = Some(Live::of(command));
    }

    fn start_server(&mut self) {
        match self.server_is {
            Is::Up => {}
            Is::Frozen => self.server.thaw(),
            Is::Dead => self.server.up(),
        }
        self.server_is = Is::Up;
    }

    fn kill(&mut self, kill: Kill, rng: &mut Rng) {
        match kill {
            Kill::Sidecar => {
                let mut live = self.sidecar.take().unwrap();
                let ended = live.child.try_wait().unwrap();
                assert!(ended.is_none(), "it ended by itself: {}", self.said());
                live.child.kill().unwrap();
                live.child.wait().unwrap();
            }
            Kill::Server => {
                self.server.kill();
                self.server_is = Is::Dead;
            }
            Kill::Freeze => {
                self.server.freeze();
                self.server_is = Is::Frozen;
            }
            Kill::Writer => {
                let at = rng.below(RINGS.len() as u64) as usize;
                let life = self.writers[at].kill() + 1;
                self.writers[at] = Writer::start(&self.ring(RINGS[at]), life, u64::MAX);
            }
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// Kills processes at random moments, also during outages of the others.
    fn storm(&mut self, rng: &mut Rng) {
        for (at, kill) in kills(rng).into_iter().enumerate() {
            // The process to be killed is running; the others may not be.
            if matches!(kill, Kill::Server | Kill::Freeze) || rng.below(3) > 0 {
                self.start_server();
            }
            if kill == Kill::Sidecar || rng.below(3) > 0 {
                self.start_sidecar();
            }
            if self.server_is == Is::Up && self.sidecar.is_some() && rng.below(4) > 0 {
                let (before, more) = (self.sums().released, rng.below(100_000));
                until("some is released", || self.sums().released > before + more);
            }
            self.kill(kill, rng);
            let is_out = self.server_is != Is::Up || self.sidecar.is_none();
            let before = self.sums();
            if is_out && (at == 0 || rng.below(3) > 0) {
                // The sidecar may or may not reconnect to a stopped server.
                let more = rng.below(if kill == Kill::Freeze { 15_000 } else { 500 });
                until("rings are full", || self.sums().refused > before.refused + more);
            } else {
                let more = rng.below(1000);
                until("more is written", || self.sums().tried > before.tried + more);
            }
        }
        self.start_server();
        self.start_sidecar();
    }

    /// Waits until all is delivered. Returns how many records the last life of each writer
    /// committed.
    fn end(&mut self) -> Vec<(u64, u64)> {
        let ended: Vec<(u64, u64)> = self.writers.drain(..).map(Writer::end).collect();
        let is_drained = |name: &str| {
            let totals = Stat::read(self.ring(name)).unwrap().totals.unwrap();
            totals.tail == totals.head
        };
        until("all is released", || RINGS.iter().all(|name| is_drained(name)));
        let mut live = self.sidecar.take().unwrap();
        live.signal(Signal::SIGTERM);
        assert_eq!(live.child.wait().unwrap().code(), Some(0), "{}", self.said());
        ended
    }
}

#[test]
fn whatever_is_killed_all_committed_records_arrive_except_reported_losses() {
    let Some(mut stage) = Stage::new() else { return };
    let mut rng = Rng::from_env();
    let began = Instant::now();
    stage.storm(&mut rng);
    let ended = stage.end();
    println!(
        "{KILLS} kills of each, {WRITERS} of writers, {FREEZES} stops, in {:?}",
        began.elapsed()
    );

    let stream = arrived::in_stream(&stage.server.stored());
    let lines = arrived::in_files(stage.place.path());
    assert_eq!(stream.doubles, 0, "the server removes doubles by their id");
    println!("{} lines came twice", lines.doubles);
    let (mut committed, mut refused) = (0, 0);
    for (name, (life, count)) in RINGS.iter().zip(ended) {
        let stat = Stat::read(stage.ring(name)).unwrap();
        let totals = stat.totals.unwrap();
        let (wrote, lost) = (totals.producer.written.records, totals.producer.refused.total());
        assert_eq!(
            totals.unreported().records,
            0,
            "{name}: the last record reports all earlier losses"
        );
        for (place, arrived) in [("stream", &stream), ("lines", &lines)] {
            let of = format!("{name} in the {place}");
            let lives = arrived.lives(name);
            println!("{of}: {lives:?}, reported as lost {}", arrived.lost(name));
            assert_eq!(lives.values().sum::<u64>(), wrote, "{of}: records arrived, committed");
            assert_eq!(lives.get(&life), Some(&count), "{of}: of the last writer");
            assert_eq!(arrived.lost(name), lost.records, "{of}: reported as lost, refused");
        }
        committed += wrote;
        refused += lost.records;
    }
    same(&stream, &lines);
    println!("{committed} records committed, {refused} refused");
    assert!(refused > 0, "no outage was felt");
    assert!(!has_left_overs(stage.place.path()), "half a line was left");
}

/// Checks that both have the same records under the same keys.
fn same(stream: &Arrived, lines: &Arrived) {
    let only = |one: &Arrived, other: &Arrived| {
        one.records
            .iter()
            .find(|(key, text)| other.records.get(*key) != Some(text))
            .map(|(k, _)| k.clone())
    };
    assert_eq!(only(stream, lines), None, "in the stream, and not in the lines");
    assert_eq!(only(lines, stream), None, "in the lines, and not in the stream");
    assert_eq!(stream.losses, lines.losses);
}

fn has_left_overs(dir: &Path) -> bool {
    arrived::files(dir).iter().any(|file| !fs::read(file).unwrap().ends_with(b"\n"))
}
