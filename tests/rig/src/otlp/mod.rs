//! A minimal OTLP receiver over HTTP that fails on command.

pub mod metrics;

use flate2::read::GzDecoder;
use metrics::Point;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use perfring_testkit::wait::until;
use prost::Message as _;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// How a request is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// This status, and these header lines.
    Status(u16, &'static str),
    /// Accepted, after this time.
    Delayed(Duration),
    /// Accepted, except this many log records.
    Partial(i64),
    /// Accepted, and the connection is closed within the answer.
    TakenThenBroken,
    /// The connection is closed before the body is read.
    Closed,
    /// No answer.
    Silence,
}

#[derive(Debug, Default)]
pub struct Got {
    pub logs: Vec<ExportLogsServiceRequest>,
    /// When each of these was accepted.
    pub logs_at: Vec<SystemTime>,
    pub metrics: Vec<ExportMetricsServiceRequest>,
    pub traces: Vec<ExportTraceServiceRequest>,
    /// Request lines, header lines and times of all requests.
    pub asked: Vec<(String, Vec<String>, Instant)>,
    /// The next answers.
    pub replies: VecDeque<Reply>,
    /// The answer to all other requests; success if it is `None`.
    pub otherwise: Option<Reply>,
    /// The value of `authorization` without which the answer is 401, with `Retry-After: 600`.
    pub token: Option<String>,
    /// The bytes of a request, without compression, beyond which the answer is 413.
    pub most: Option<usize>,
}

pub struct Server {
    pub address: SocketAddr,
    pub got: Arc<Mutex<Got>>,
    listener: TcpListener,
    /// Its connections; `None` once it ends, after which it takes no other.
    connections: Arc<Mutex<Option<Vec<TcpStream>>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Self {
        Server::at("127.0.0.1:0".parse().unwrap(), Arc::default())
    }

    /// Starts again at this address with the requests received before.
    pub fn at(address: SocketAddr, got: Arc<Mutex<Got>>) -> Self {
        let listener = bind(address);
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Some(Vec::new())));
        let (its, its_got, its_connections) =
            (listener.try_clone().unwrap(), Arc::clone(&got), Arc::clone(&connections));
        let thread = std::thread::spawn(move || {
            while let Ok((stream, _)) = its.accept() {
                match &mut *its_connections.lock().unwrap() {
                    Some(connections) => connections.push(stream.try_clone().unwrap()),
                    None => return,
                }
                let got = Arc::clone(&its_got);
                std::thread::spawn(move || while serve(&stream, &got).is_some() {});
            }
        });
        Server { address, got, listener, connections, thread: Some(thread) }
    }

    /// Ends: all connections break, and the port is closed.
    pub fn kill(mut self) -> (SocketAddr, Arc<Mutex<Got>>) {
        let (address, got) = (self.address, Arc::clone(&self.got));
        // A client that connects again at once is not served any more.
        for stream in self.connections.lock().unwrap().take().into_iter().flatten() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let _ = TcpStream::connect(self.address); // wakes the thread
        self.thread.take().unwrap().join().unwrap();
        drop(self.listener);
        (address, got)
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes the points of all metrics that were received.
    pub fn take_points(&self) -> Vec<Point> {
        let requests = std::mem::take(&mut self.got.lock().unwrap().metrics);
        requests.into_iter().flat_map(metrics::points).collect()
    }

    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.got.lock().unwrap().replies.extend(replies);
    }
}

/// Listens at an address that may have been another connection's for a moment.
fn bind(address: SocketAddr) -> TcpListener {
    let mut bound = TcpListener::bind(address);
    until("the address is free", || {
        let is_taken = bound.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
        if is_taken {
            bound = TcpListener::bind(address);
        }
        !is_taken
    });
    bound.unwrap()
}

/// Starts a receiver at a Unix socket, for as long as the test runs.
pub fn at_socket(path: &Path) -> Arc<Mutex<Got>> {
    let listener = UnixListener::bind(path).unwrap();
    let got: Arc<Mutex<Got>> = Arc::default();
    let its = Arc::clone(&got);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // It has the used functions of a `TcpStream`.
            let (stream, got) = (TcpStream::from(OwnedFd::from(stream)), Arc::clone(&its));
            std::thread::spawn(move || while serve(&stream, &got).is_some() {});
        }
    });
    got
}

/// Serves one request; `None` if the connection is closed.
fn serve(stream: &TcpStream, got: &Mutex<Got>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        lines.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let length: usize = header("content-length").unwrap().parse().unwrap();
    let asked = lines[0].clone();
    let reply = {
        let mut got = got.lock().unwrap();
        got.asked.push((asked.clone(), lines[1..].to_vec(), Instant::now()));
        match &got.token {
            Some(token) if header("authorization").as_ref() != Some(token) => {
                Reply::Status(401, "Retry-After: 600\r\n")
            }
            _ => {
                let next = got.replies.pop_front().or_else(|| got.otherwise.clone());
                next.unwrap_or(Reply::Status(200, ""))
            }
        }
    };
    if matches!(reply, Reply::Closed) {
        let _ = stream.shutdown(std::net::Shutdown::Both);
        return None;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    if header("content-encoding").as_deref() == Some("gzip") {
        let mut plain = Vec::new();
        GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let reply = match got.lock().unwrap().most {
        Some(most) if body.len() > most => Reply::Status(413, ""),
        _ => reply,
    };
    assert_eq!(header("content-type").as_deref(), Some("application/x-protobuf"));
    if let Reply::Delayed(delay) = reply {
        std::thread::sleep(delay); // it is slow
    }
    let taken = !matches!(reply, Reply::Status(300.., _) | Reply::Silence);
    if taken {
        let mut got = got.lock().unwrap();
        match asked.split(' ').nth(1).unwrap().trim_start_matches("/base") {
            "/v1/logs" => {
                got.logs.push(ExportLogsServiceRequest::decode(&*body).unwrap());
                got.logs_at.push(SystemTime::now());
            }
            "/v1/metrics" => got.metrics.push(ExportMetricsServiceRequest::decode(&*body).unwrap()),
            "/v1/traces" => got.traces.push(ExportTraceServiceRequest::decode(&*body).unwrap()),
            other => panic!("{other} was asked for"),
        }
    }
    let (status, headers, answer) = match reply {
        Reply::Status(status, headers) => (status, headers, Vec::new()),
        Reply::Delayed(_) => (200, "", Vec::new()),
        Reply::Partial(rejected_log_records) => {
            let error_message = "too old".to_owned();
            let part = ExportLogsPartialSuccess { rejected_log_records, error_message };
            (200, "", ExportLogsServiceResponse { partial_success: Some(part) }.encode_to_vec())
        }
        Reply::TakenThenBroken => {
            let _ = writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return None;
        }
        Reply::Silence => {
            let _ = reader.read(&mut [0]);
            return None;
        }
        Reply::Closed => return None,
    };
    let head =
        format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{headers}\r\n", answer.len());
    writer.write_all(head.as_bytes()).ok()?;
    writer.write_all(&answer).ok()
}
