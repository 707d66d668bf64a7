//! What Prometheus itself makes of the page. Debian's `prometheus` has it.

use super::{Feed, Numbers, open, options};
use perfring_export::Output as _;
use perfring_export::prometheus::Prometheus;
use perfring_telemetry::{Gauge, Histogram, Resource, Sum, Value};
use perfring_testkit::wait::until;
use serde_json::Value as Json;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A Prometheus that scrapes an output.
struct Server {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one; `None`, with a message, where there is none.
    fn start(of: &Prometheus) -> Option<Self> {
        if !Command::new("prometheus").arg("--version").output().is_ok_and(|it| it.status.success())
        {
            let why = "there is no prometheus: apt-get install prometheus";
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {why}");
            let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 100ms, scrape_timeout: 100ms }}\nscrape_configs:\n\
             - {{ job_name: perfring, static_configs: [ {{ targets: [ \"{}\" ] }} ] }}\n",
            of.address()
        );
        std::fs::write(&config, text).unwrap();
        // Its port is free now; nothing but this listens on ports that the kernel chooses.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let said = std::fs::File::create(dir.path().join("said")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=native-histograms")
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .unwrap();
        let mut server = Server { child, address, _dir: dir };
        until("Prometheus has scraped", || {
            assert!(server.child.try_wait().unwrap().is_none(), "{}", server.said());
            server.ask("up == 1").is_some_and(|found| found != Json::Array(vec![]))
        });
        Some(server)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self._dir.path().join("said")).unwrap_or_default()
    }

    /// Returns what it answers to a query; `None` if it does not listen yet.
    fn ask(&self, query: &str) -> Option<Json> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let mut stream = TcpStream::connect(self.address).ok()?;
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let answer: Json = serde_json::from_str(body).ok()?;
        assert!(answer["status"] == "success" || answer.is_null(), "{query}: {answer}");
        Some(answer["data"]["result"].clone())
    }

    /// Waits until a query has one value, which is so near to this one.
    fn is_near(&self, query: &str, wanted: f64, within: f64) {
        until(format!("{query} is {wanted} within {within}"), || {
            let found = self.ask(query).unwrap_or_default();
            let value = found[0]["value"][1].as_str().and_then(|it| it.parse::<f64>().ok());
            found.as_array().is_some_and(|all| all.len() == 1)
                && value.is_some_and(|value| (value - wanted).abs() <= within)
        });
    }

    /// Waits until a query has this answer: labels and values, sorted.
    fn expect(&self, query: &str, wanted: &[(&str, f64)]) {
        let mut found = Vec::new();
        until(format!("{query} is {wanted:?}"), || {
            let Some(Json::Array(all)) = self.ask(query) else { return false };
            found = all
                .iter()
                .map(|it| {
                    let value = it["value"][1].as_str().unwrap().parse::<f64>().unwrap();
                    (it["metric"]["service_version"].as_str().unwrap_or("").to_owned(), value)
                })
                .collect();
            found.sort_by(|a, b| a.0.cmp(&b.0));
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-9)
        });
    }
}

/// The guide's join.
const JOIN: &str = "* on (job, instance, ring) group_left (service_version) target_info";

#[test]
fn the_join_of_the_guide_finds_one_line_across_restarts_and_a_dead_gauge_goes_stale() {
    let guide = include_str!("../../../perfring/src/guide/sidecar_reference.md");
    assert!(guide.contains(JOIN), "the guide has {JOIN}");
    let expire = std::time::Duration::ZERO;
    let mut prometheus = open(&perfring_export::prometheus::Options { expire, ..options() });
    let Some(server) = Server::start(&prometheus) else { return };
    let mut seqs = Numbers::default();
    let pid = std::process::id();
    let mut before: Option<Feed> = None;
    for (id, version) in [(1, "1.0"), (2, "2.0"), (3, "3.0")] {
        let resource = Resource::default().with("service.version", version);
        let mut feed = Feed::with(id, "shop", perfring_telemetry::options(), resource);
        feed.origin.uuid = [id as u8; 16];
        let of = &[("path", Value::Str("/"))];
        feed.sink.emit(&Sum { attributes: of, ..Sum::delta("requests", 10u64) }).unwrap();
        feed.sink.emit(&Gauge::new("depth", u64::from(id))).unwrap();
        feed.pump(&mut seqs, &mut prometheus);
        // Both are there for a moment, as in a rolling restart.
        server.expect(
            &format!("requests_total {JOIN}"),
            &[(if before.is_some() { "" } else { version }, f64::from(id) * 10.0)],
        );
        if let Some(before) = &before {
            prometheus
                .producers(&mut [(&before.origin, vec![]), (&feed.origin, vec![pid])].into_iter());
        }
        server.expect(&format!("requests_total {JOIN}"), &[(version, f64::from(id) * 10.0)]);
        server.expect(&format!("depth {JOIN}"), &[(version, f64::from(id))]);
        before = Some(feed);
    }
    let last = before.unwrap();
    prometheus.producers(&mut [(&last.origin, vec![])].into_iter());
    server.expect("depth", &[]);
    server.expect("requests_total", &[("", 30.0)]);
    server.expect("target_info", &[]);
}

#[test]
fn a_quantile_is_that_of_what_was_measured_also_in_a_native_histogram() {
    use perfring_export::signal::Histograms;
    for histograms in [Histograms::Explicit, Histograms::Exponential] {
        let mut prometheus =
            open(&perfring_export::prometheus::Options { histograms, ..options() });
        let mut feed = Feed::new(1, "shop");
        for hundredth in 1..=100u32 {
            let value = f64::from(hundredth) / 1000.0; // 1 to 100 ms
            feed.sink.emit(&Histogram { unit: "s", ..Histogram::one("took", value) }).unwrap();
        }
        for value in [-4.0, 0.0, 4.0] {
            feed.sink.emit(&Histogram::one("change", value)).unwrap();
        }
        feed.pump(&mut Numbers::default(), &mut prometheus);
        let (head, _) = get_bytes(&prometheus, PROTOBUF);
        assert!(head.contains(PROTOBUF), "{head}");
        let Some(server) = Server::start(&prometheus) else { return };
        if histograms == Histograms::Explicit {
            let query = "histogram_quantile(0.99, took_seconds_bucket)";
            server.is_near(query, 0.099, 0.001); // in the bucket up to 0.1
            server.is_near("took_seconds_count", 100.0, 0.0);
        } else {
            // 160 buckets for values from 1 to 100 have the scale 4: a bucket is 4 % wide.
            server.is_near("histogram_quantile(0.99, took_seconds)", 0.099, 0.004);
            server.is_near("histogram_quantile(0.5, took_seconds)", 0.05, 0.002);
            server.is_near("histogram_count(took_seconds)", 100.0, 0.0);
            server.is_near("histogram_sum(took_seconds)", 5.05, 1e-9);
            server.is_near("histogram_fraction(-5, -3, change)", 1.0 / 3.0, 1e-9);
            server.is_near("histogram_fraction(3, 5, change)", 1.0 / 3.0, 1e-9);
        }
    }
}

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Returns the head and the body of the page in a format.
fn get_bytes(of: &Prometheus, accept: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(of.address()).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    (String::from_utf8(all[..end].to_vec()).unwrap(), all[end + 4..].to_vec())
}
