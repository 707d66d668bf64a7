//! Log records per second to an OTLP receiver in this process, which are verified after each run, or
//! to a NATS stream on file, which acknowledges them.
//!
//! `cargo run --release -p perfring-export --features nats,otlp --example otlp_speed --
//! [unix|tcp|tcp-gzip|nats]...`: all of them in turn, five times, if none is named. For `nats` a
//! `nats-server` is started.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use perfring_consumer::{Item, Snapshot};
use perfring_export::nats::{self, Nats};
use perfring_export::otlp::{Compression, Options, Otlp};
use perfring_export::{Event, Output, Rec, Shapes, Took, What, later};
use perfring_telemetry::{Log, Resource, Severity, Sink};
use prost::Message as _;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const RECORDS: u64 = 200_000;
const RUNS: usize = 5;
const ALL: [&str; 4] = ["unix", "tcp", "tcp-gzip", "nats"];

/// Killed with this process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Answers each request with success, and passes its body on.
fn receive(stream: impl Read + Write, bodies: &Sender<Vec<u8>>) -> Option<()> {
    let mut stream = BufReader::with_capacity(1 << 18, stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                if line.trim_end().is_empty() { break } else { continue }
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        bodies.send(body).ok()?;
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
    }
}

/// Starts a receiver; returns its address.
fn receiver(how: &str, dir: &Path, to: Sender<Vec<u8>>) -> Result<String, Box<dyn Error>> {
    if how == "unix" {
        let path = dir.join("otel.sock");
        let listener = UnixListener::bind(&path)?;
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let to = to.clone();
                std::thread::spawn(move || receive(stream, &to));
            }
        });
        return Ok(format!("unix://{}", path.display()));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let to = to.clone();
            std::thread::spawn(move || receive(stream, &to));
        }
    });
    Ok(address)
}

/// Checks that the bodies have every record once, in order.
fn verify(bodies: &Receiver<Vec<u8>>) -> Result<(), Box<dyn Error>> {
    let mut next = 0;
    for mut body in bodies.try_iter() {
        if body.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain)?;
            body = plain;
        }
        let request = ExportLogsServiceRequest::decode(&*body)?;
        for of in request.resource_logs.into_iter().flat_map(|of| of.scope_logs) {
            for record in of.log_records {
                let number = record.attributes.iter().find(|pair| pair.key == "number");
                let number = number.and_then(|pair| pair.value.as_ref()?.value.as_ref());
                assert_eq!(number, Some(&Any::IntValue(next)));
                next += 1;
            }
        }
    }
    assert_eq!(next as u64, RECORDS);
    Ok(())
}

fn run(how: &str, snapshot: &Snapshot, shapes: &Shapes) -> Result<f64, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (to, bodies) = channel();
    let mut server = None;
    let mut output: Box<dyn Output> = if how == "nats" {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
            .arg(dir.path().join("store"))
            .stderr(Stdio::null())
            .spawn()?;
        server = Some(Server(child));
        let servers = vec![format!("nats://127.0.0.1:{port}")];
        let nats = Nats::open("speed", &nats::Options { servers, ..Default::default() })?;
        while nats.figures().trouble.is_some() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Box::new(nats)
    } else {
        let endpoint = Some(receiver(how, dir.path(), to)?);
        let compression = (how == "tcp").then_some(Compression::None);
        Box::new(Otlp::open("speed", &Options { endpoint, compression, ..Default::default() })?)
    };
    let begin = Instant::now();
    for (item, seq) in snapshot.into_iter().zip(0..) {
        let Item::Record(record) = item? else { continue };
        let what = What::Record(Rec::new(record, shapes.origin()));
        let event = Event { seq, origin: shapes.origin(), what };
        while output.take(&event)? == Took::Busy {
            output.flush()?;
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    output.hurry();
    output.flush()?;
    while output.unsettled().is_some() {
        std::thread::sleep(Duration::from_micros(50));
    }
    let took = begin.elapsed().as_secs_f64();
    let figures = output.figures();
    assert_eq!((figures.taken, figures.refused), (figures.delivered, 0), "{figures:?}");
    output.close(later(Instant::now(), Duration::from_secs(5)))?;
    if server.is_none() {
        verify(&bodies)?;
    }
    Ok(RECORDS as f64 / took)
}

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("logs");
    let ring =
        perfring_telemetry::producer::Options { size: 128 << 20, ..perfring_telemetry::options() };
    let sink = Sink::create(&path, &ring, Resource::default().with("service.name", "speed"))?;
    for number in 0..RECORDS {
        let attributes = [("number", number.into()), ("http.request.method", "GET".into())];
        let severity = Some(Severity::Info);
        let body = "a request was served".into();
        sink.emit(&Log { severity, body, attributes: &attributes, ..Log::default() })?;
    }
    let snapshot = Snapshot::take(&path)?;
    let shapes = Shapes::of_snapshot(&snapshot, &path.into(), 0);
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ALL.len()];
    for _ in 0..RUNS {
        for (how, rates) in ALL.iter().zip(&mut rates) {
            if named.is_empty() || named.iter().any(|named| named == how) {
                rates.push(run(how, &snapshot, &shapes)?);
            }
        }
    }
    for (how, mut rates) in ALL.iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        if let [least, .., most] = rates.as_slice() {
            let median = rates[rates.len() / 2];
            println!("{how}: {median:.0} records/s ({least:.0} to {most:.0})");
        }
    }
    Ok(())
}
