//! Records of 64 bytes per second to a NATS stream on file, each acknowledged.
//!
//! `cargo run --release -p perfring-export --features nats --example nats_speed -- [raw|json]
//! [all|id] [short] [SERVER]`: `short` is a duplicate window of a second; SERVER is the server's
//! address, otherwise a `nats-server` is started on this machine.

use bytemuck::{Pod, Zeroable};
use perfring_consumer::{Item, Snapshot};
use perfring_export::nats::{Headers, Nats, Options, Payload, Stream};
use perfring_export::{Event, Output, Rec, Shapes, Took, What, later};
use perfring_producer::{Options as Ring, Producer};
use perfring_types::Record;
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A payload of eight words.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
struct Request {
    #[record(unit = "ns")]
    took: u64,
    #[record(unit = "By")]
    sent: u64,
    share: f64,
    status: u32,
    shard: u32,
    peer: [u8; 16],
    account: u64,
    session: u64,
}

const RECORDS: u64 = 100_000;
const RUNS: u32 = 5;

/// Killed with this process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Returns user and system seconds of a process.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks =
        fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|one| one == word);
    let dir = tempfile::tempdir()?;
    let mut server = None;
    let url = match words.iter().find(|word| word.contains(':')) {
        Some(url) => url.clone(),
        None => {
            let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let child = Command::new("nats-server")
                .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
                .arg(dir.path().join("store"))
                .stderr(Stdio::null())
                .spawn()?;
            server = Some(Server(child));
            format!("nats://127.0.0.1:{port}")
        }
    };
    let path = dir.path().join("requests");
    let ring = Ring { size: 16 << 20, time: true, ..Ring::default() };
    let mut producer = Producer::create(&path, &ring)?;
    for n in 0..RECORDS {
        producer.publish_pod(&Request {
            took: 81_000 + n,
            sent: n * n,
            share: n as f64 / 3.0,
            status: 200,
            shard: n as u32 % 7,
            peer: [n as u8; 16],
            account: n << 20,
            session: !n,
        })?;
    }
    let snapshot = Snapshot::take(&path)?;
    let mut shapes = Shapes::of_snapshot(&snapshot, &path.into(), 0);
    let options = Options {
        servers: vec![url],
        payload: if has("raw") { Payload::Raw } else { Payload::Json },
        headers: if has("id") {
            Some(Headers::Id)
        } else if has("all") {
            Some(Headers::All)
        } else {
            None
        },
        stream: Stream {
            duplicate_window: Duration::from_secs(if has("short") { 1 } else { 120 }),
            ..Stream::default()
        },
        ..Options::default()
    };
    let mut nats = Nats::open("speed", &options)?;
    let mut seq = 0;
    for run in 0..RUNS {
        // Another ring's keys.
        let origin = shapes.origin_mut();
        (origin.id, origin.uuid) = (run, [run as u8 + 1; 16]);
        let pids = [Some(std::process::id()), server.as_ref().map(|server| server.0.id())];
        let before = pids.map(|pid| pid.map_or(0.0, cpu));
        let begin = Instant::now();
        let first = seq;
        for item in &snapshot {
            let Item::Record(record) = item? else { continue };
            let what = What::Record(Rec::new(record, shapes.origin()));
            let event = Event { seq, origin: shapes.origin(), what };
            while nats.take(&event)? == Took::Busy {
                std::thread::sleep(Duration::from_micros(100));
            }
            seq += 1;
        }
        nats.flush()?;
        while nats.unsettled().is_some() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let took = begin.elapsed().as_secs_f64();
        let after = pids.map(|pid| pid.map_or(0.0, cpu));
        let count = (seq - first) as f64;
        println!(
            "{:.0} records/s; us of processor a record: {:.1} here, {:.1} in the server",
            count / took,
            (after[0] - before[0]) / count * 1e6,
            (after[1] - before[1]) / count * 1e6,
        );
    }
    if let Some(server) = &server {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id()))?;
        let resident = status.lines().find(|line| line.starts_with("VmRSS"));
        println!("the server: {}", resident.unwrap_or_default());
    }
    let figures = nats.figures();
    nats.close(later(Instant::now(), Duration::from_secs(5)))?;
    println!("{} delivered, {} again, {:?}", figures.delivered, figures.retries, figures.trouble);
    Ok(())
}
