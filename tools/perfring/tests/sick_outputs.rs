//! The promise of `perfring sidecar` about outputs whose receivers are sick: dead, refusing, silent or slow. One of them
//! holds up no other, and gets everything once it is well, whichever process is killed meanwhile.
//!
//! The sidecar, its writers and `nats-server` are real processes; the OTLP receivers are in this one. `PERFRING_SEED`
//! repeats a run, `PERFRING_STORM_SECONDS` makes it longer.
#![cfg(all(feature = "nats", feature = "otlp"))]

mod lag;
mod receivers;

use crate::command::{Live, perfring};
use crate::faults::writer::Writer;
use lag::{Lags, Span, Starved, now};
use nix::sys::signal::Signal;
use perfring_abi::Lead;
use perfring_consumer::stat::Stat;
use perfring_producer::Options;
use perfring_set::{RingSet, SetOptions};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::{cases, from_env};
use perfring_testkit::wait::{Watchdog, until};
use receivers::{Heads, Nats, Otlp, Receiver, Sickness};
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RINGS: [&str; 3] = ["one", "two", "three"];
/// The rings hold everything that is written while an output is sick.
const RING: u64 = 16 << 20;
/// With so much in its ring a writer pauses.
const HELD: u64 = RING / 8;
/// How an output is.
enum State {
    Well,
    Sick(Sickness),
    /// Its receiver is well again, and it gets what was committed until then.
    Returning(Heads),
}

struct Output {
    name: &'static str,
    receiver: Receiver,
    /// Whether it has a buffer on disk.
    is_buffered: bool,
    state: State,
    /// Since when it is not well, or when it was not.
    since: u64,
    unwell: Vec<Span>,
}

impl Output {
    fn new(name: &'static str, receiver: Receiver, is_buffered: bool) -> Self {
        Output { name, receiver, is_buffered, state: State::Well, since: 0, unwell: Vec::new() }
    }

    fn is_well(&self) -> bool {
        matches!(self.state, State::Well)
    }

    fn sicken(&mut self, how: Sickness, rng: &mut Rng) {
        (self.state, self.since) = (State::Sick(how), now());
        self.receiver.sicken(how, rng);
    }

    fn cure(&mut self, heads: Heads) {
        if let State::Sick(how) = self.state {
            self.receiver.cure(how);
            self.state = State::Returning(heads);
        }
    }

    fn poll(&mut self) {
        if let State::Sick(how) = self.state {
            self.receiver.poll(Some(how));
            return;
        }
        self.receiver.poll(None);
        if let State::Returning(heads) = &self.state
            && self.receiver.has(heads)
        {
            self.state = State::Well;
            self.unwell.push(Span { from: self.since, to: now() });
        }
    }
}

/// Rings, the sidecar that reads them, and its outputs.
struct Stage {
    place: TempDir,
    outputs: Vec<Output>,
    sidecar: Option<Live>,
    /// Where it says that it is ready, another one for each of its lives.
    ready: Option<UnixDatagram>,
    lives: usize,
    /// Since when it does not read rings, and when it did not.
    down: Option<u64>,
    downs: Vec<Span>,
    writers: Vec<Writer>,
    starved: Starved,
    /// The most bytes that a ring held for an output that was sick.
    held: u64,
}

impl Stage {
    fn new() -> Option<Stage> {
        let nats = Nats::start(&RINGS)?;
        let (one, two) = (Otlp::start(), Otlp::start());
        let place = tempfile::tempdir_in("/dev/shm").unwrap(); // not on a disk that others write to
        let path = |name: &str| place.path().join(name);
        let otlp = |name: &str, otlp: &Otlp| {
            format!(
                "[[output]]\ntype = \"otlp\"\nname = {name:?}\nendpoint = {:?}\ncompression = \"none\"\n\
                 batch_delay = \"10ms\"\nqueue_bytes = 20_000\ntimeout = \"1s\"\n",
                otlp.endpoint()
            )
        };
        let config = format!(
            "delay = \"5ms\"\n[[input]]\ndir = {:?}\n\
             [[output]]\ntype = \"nats\"\nservers = [{:?}]\npayload = \"raw\"\nwindow = 256\n\
             ack_timeout = \"1s\"\nmax_backoff = \"100ms\"\n\
             # A sidecar is dead, and a server stopped, for as long as this machine needs.\n\
             stream = {{ duplicate_window = \"1h\" }}\n{}{}buffer = {{ path = {:?} }}\n",
            path("rings"),
            nats.url(),
            otlp("one", &one),
            otlp("two", &two),
            path("buffer"),
        );
        fs::write(path("sidecar.toml"), config).unwrap();
        let rings = path("rings");
        let mut options = SetOptions::default();
        options.ring = Options { size: RING, ..options.ring };
        let set = RingSet::open_with(&rings, &options).unwrap();
        for name in RINGS {
            let producer = set.producer(name).unwrap();
            assert_eq!(producer.layout().lead(), Lead::Time, "as `end_of` counts");
        }
        let writer = |name: &&str| Writer::start(&rings.join(name), 1, HELD);
        let writers = RINGS.iter().map(writer).collect();
        let outputs = vec![
            Output::new("nats", Receiver::Nats(nats), false),
            Output::new("one", Receiver::Otlp(one), false),
            Output::new("two", Receiver::Otlp(two), true),
        ];
        Some(Stage {
            place,
            outputs,
            sidecar: None,
            ready: None,
            lives: 0,
            down: Some(0),
            downs: Vec::new(),
            writers,
            starved: Starved::default(),
            held: 0,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    fn totals(&self, ring: &str) -> perfring_consumer::stat::RingTotals {
        let mut totals = None;
        // Of a ring whose figures change as they are read, none may come.
        until("its figures are whole", || {
            totals = Stat::read(self.path("rings").join(ring)).unwrap().totals;
            totals.is_some()
        });
        totals.unwrap()
    }

    /// Returns up to where each ring has records.
    fn heads(&self) -> Heads {
        RINGS.iter().map(|ring| ((*ring).to_owned(), self.totals(ring).head)).collect()
    }

    fn written(&self) -> u64 {
        self.heads().values().sum()
    }

    fn start(&mut self) {
        self.lives += 1;
        let notify = self.path(&format!("notify-{}", self.lives));
        let ready = UnixDatagram::bind(&notify).unwrap();
        ready.set_nonblocking(true).unwrap();
        self.ready = Some(ready);
        let said = File::options().append(true).create(true).open(self.path("said")).unwrap();
        let config = self.path("sidecar.toml");
        let mut command = perfring(&["sidecar", "--config", config.to_str().unwrap()]);
        command.env("NOTIFY_SOCKET", notify).stderr(Stdio::from(said));
        self.sidecar = Some(Live::of(command));
    }

    fn kill(&mut self) {
        let mut live = self.sidecar.take().unwrap();
        assert!(live.child.try_wait().unwrap().is_none(), "it ended by itself: {}", self.said());
        live.child.kill().unwrap();
        live.child.wait().unwrap();
        self.down.get_or_insert_with(now);
    }

    /// Looks at everything once.
    fn poll(&mut self) {
        self.outputs.iter_mut().for_each(Output::poll);
        let mut text = [0; 256];
        while let Some(Ok(count)) = self.ready.as_ref().map(|ready| ready.recv(&mut text)) {
            if text[..count].starts_with(b"READY=1")
                && let Some(from) = self.down.take()
            {
                self.downs.push(Span { from, to: now() });
            }
        }
        let sidecar = self.sidecar.as_ref().map(|live| live.child.id());
        let servers = self.outputs.iter().filter_map(|output| output.receiver.pid());
        self.starved.sample(servers.chain(sidecar).chain([std::process::id()]));
    }

    /// Waits for a condition, for as long as more comes: a busy machine takes minutes for what is to come.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let (mut dog, mut before) = (Watchdog::default(), 0);
        loop {
            self.poll();
            if is_so(self) {
                return;
            }
            let now = self.outputs.iter().map(|output| output.receiver.progress()).sum();
            if now > before {
                (dog, before) = (Watchdog::default(), now);
            }
            dog.pause(format_args!("{what}\n{}", self.said()));
        }
    }

    /// Waits until so many more bytes are committed, or every writer pauses, which also leaves something to deliver.
    fn more(&mut self, bytes: u64) {
        let before = self.written();
        let pauses = |this: &Self, ring| {
            let totals = this.totals(ring);
            totals.head - totals.tail >= HELD
        };
        self.until("more is written", |this| {
            this.written() > before + bytes || RINGS.iter().all(|ring| pauses(this, ring))
        });
    }

    /// One output is sick; those that are well get everything meanwhile: it is cured only after that.
    fn round(&mut self, at: usize, how: Sickness, rng: &mut Rng) {
        let name = self.outputs[at].name;
        self.until("the one that is to be sick is well", |this| this.outputs[at].is_well());
        self.outputs[at].sicken(how, rng);
        self.more(20_000 + rng.below(40_000));
        if rng.below(2) == 0 {
            self.kill();
            self.more(rng.below(20_000));
            self.start();
        }
        let heads = self.heads();
        let well: Vec<usize> =
            (0..self.outputs.len()).filter(|at| self.outputs[*at].is_well()).collect();
        let what = format!("outputs that are well have what is committed, while {name} is {how:?}");
        self.until(&what, |this| well.iter().all(|at| this.outputs[*at].receiver.has(&heads)));
        let tails = RINGS.map(|ring| (ring, self.totals(ring).tail));
        let held = tails.iter().map(|(ring, tail)| heads[*ring].saturating_sub(*tail)).max();
        self.held = self.held.max(held.unwrap_or(0));
        // One that gets nothing at all holds its records.
        if how != Sickness::Slow && !self.outputs[at].is_buffered {
            assert!(held > Some(0), "{name} is {how:?}, and all is released: {tails:?}, {heads:?}");
        }
        if rng.below(4) == 0 {
            self.kill();
            self.start();
        }
        let heads = self.heads();
        self.outputs[at].cure(heads);
        // Or the next one is sick while this one returns.
        if rng.below(3) > 0 {
            self.until("it is well again", |this| this.outputs[at].is_well());
        }
    }

    /// Waits until all is delivered. Returns how many records each writer committed.
    fn end(&mut self) -> Vec<u64> {
        self.until("all are well", |this| this.outputs.iter().all(Output::is_well));
        let counts: Vec<u64> = self.writers.drain(..).map(|writer| writer.end().1).collect();
        let all = counts.iter().sum();
        self.until("all is delivered", |this| {
            let is_drained =
                |totals: perfring_consumer::stat::RingTotals| totals.tail == totals.head;
            RINGS.iter().all(|ring| is_drained(this.totals(ring)))
                && this.outputs.iter().all(|output| output.receiver.has_records(all))
        });
        let mut live = self.sidecar.take().unwrap();
        live.signal(Signal::SIGTERM);
        assert_eq!(live.child.wait().unwrap().code(), Some(0), "{}", self.said());
        counts
    }
}

#[test]
fn a_sick_output_holds_up_no_other_and_gets_everything_when_it_is_well() {
    let Some(mut stage) = Stage::new() else { return };
    let mut rng = Rng::from_env();
    let time = Duration::from_secs(from_env("PERFRING_STORM_SECONDS", cases(0, 60)));
    let began = Instant::now();
    stage.start();
    stage.until("it is ready", |stage| stage.down.is_none());
    let mut rounds: Vec<(usize, Sickness)> = Vec::new();
    let mut count = 0;
    // Each output has each sickness, in some order.
    while count == 0 || !rounds.is_empty() || began.elapsed() < time {
        if rounds.is_empty() {
            let all = (0..stage.outputs.len()).flat_map(|at| Sickness::ALL.map(|how| (at, how)));
            rounds = all.collect();
        }
        let (at, how) = rounds.swap_remove(rng.index(rounds.len()));
        stage.round(at, how, &mut rng);
        count += 1;
    }
    let counts = stage.end();
    println!(
        "{count} times one was sick, {} lives of the sidecar, at most {} bytes held in a ring, in {:?}",
        stage.lives,
        stage.held,
        began.elapsed()
    );

    let names = stage.outputs.iter().map(|output| output.name);
    let arrived: Vec<_> = stage.outputs.iter().map(|output| output.receiver.arrived()).collect();
    let first = &arrived[0].0.records;
    for (name, (arrived, _)) in names.clone().zip(&arrived) {
        for (ring, count) in RINGS.iter().zip(&counts) {
            assert_eq!(stage.totals(ring).producer.refused.total().records, 0, "{ring}");
            let lives = arrived.lives(ring);
            assert_eq!(lives.into_iter().collect::<Vec<_>>(), [(1, *count)], "{ring} in {name}");
        }
        // By ring and position.
        assert!(arrived.records == *first, "{name} has other records than nats");
        println!("{name}: {} records, {} came twice", arrived.records.len(), arrived.doubles);
    }
    // NATS does not say when its records were written.
    let written = &arrived[1].1;
    for (output, (_, times)) in stage.outputs.iter().zip(&arrived) {
        let spans = stage.downs.iter().chain(&output.unwell).copied().collect();
        let mut lags = Lags::new(spans, &stage.starved);
        for (key, (_, came)) in times {
            lags.add(written[key].0, *came);
        }
        lags.report(output.name);
    }
}
