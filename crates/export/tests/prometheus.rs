//! The pages that Prometheus scrapes.
#![cfg(feature = "prometheus")]

mod page;
mod real;

use self::page::{OPEN, ask, get, read, scrape};
use crate::feed::{ANSWER, Feed, Numbers, counted, emit_wrong_samples};
use perfring_consumer::Cause;
use perfring_export::prometheus::{Options, Prometheus};
use perfring_export::signal::Bounds;
use perfring_export::{Birth, Loss, LossCause, Output};
use perfring_telemetry::{Gauge, Histogram, Resource, Sum, Temporality, Value};
use perfring_testkit::wait::{WATCHDOG, until};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

fn options() -> Options {
    Options { listen: "127.0.0.1:0".into(), timeout: ANSWER, ..Options::default() }
}

fn open(options: &Options) -> Prometheus {
    Prometheus::open("prometheus", options).unwrap()
}

/// Publishes all kinds of signals.
fn fill(prometheus: &mut Prometheus) -> Feed {
    let mut feed = Feed::new(1, "shop");
    let k = &[("http.method", Value::Str("GET"))];
    let sum = Sum {
        unit: "By",
        attributes: k,
        description: "bytes \\ sent\n",
        ..Sum::delta("sent", 5u64)
    };
    feed.sink.emit(&sum).unwrap();
    feed.sink.emit(&sum).unwrap();
    feed.sink.emit(&Sum::cumulative("requests", 17u64)).unwrap();
    feed.sink.emit(&Sum { is_monotonic: false, ..Sum::delta("open", -3i64) }).unwrap();
    feed.sink.emit(&Sum { is_monotonic: false, ..Sum::delta("open", 1i64) }).unwrap();
    feed.sink.emit(&Gauge { unit: "1", ..Gauge::new("cpu.use", 0.5) }).unwrap();
    feed.sink.emit(&Gauge { unit: "1", ..Gauge::new("cpu.use", 0.25) }).unwrap();
    feed.sink.emit(&Histogram { unit: "s", ..Histogram::one("took", 7.0) }).unwrap();
    feed.sink.emit(&Histogram { unit: "s", ..Histogram::one("took", 1e6) }).unwrap();
    let state = Histogram { sum: Some(2.5), ..Histogram::state("size", &[1.0, 2.0], &[1, 0, 2]) };
    feed.sink.emit(&state).unwrap();
    feed.sink.emit(&state).unwrap();
    feed.pump(&mut Numbers::default(), prometheus);
    feed
}

#[test]
fn a_configuration_s_attributes_are_in_target_info() {
    let mut prometheus = open(&options());
    let added = [("k8s.pod.name", "shop-7"), ("service.name", "not this")];
    prometheus.add_resource(&added.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let _feed = fill(&mut prometheus);
    let page = scrape(prometheus.address(), OPEN);
    let mut targets = page.samples.keys().filter(|(name, _)| name == "target_info");
    let (_, labels) = targets.next().unwrap();
    let label = |name: &str| labels.iter().find(|(its, _)| *its == name).map(|(_, value)| &**value);
    assert_eq!((label("k8s_pod_name"), label("service_name")), (Some("shop-7"), Some("shop")));
}

#[test]
fn both_formats_have_the_same_values() {
    let mut prometheus = open(&options());
    let _feed = fill(&mut prometheus);
    let pid = std::process::id().to_string();
    for accept in ["text/plain", OPEN] {
        let page = scrape(prometheus.address(), accept);
        let ring = ("ring", "shop");
        let at = |name: &str| page.value(name, &[ring]);
        assert_eq!(page.value("sent_bytes_total", &[("http_method", "GET"), ring]), Some(10.0));
        assert_eq!(at("requests_total"), Some(17.0));
        assert_eq!(at("open"), Some(-2.0));
        assert_eq!(at("cpu_use_ratio"), Some(0.25));
        assert_eq!(at("took_seconds_count"), Some(2.0));
        assert_eq!(at("took_seconds_sum"), Some(1_000_007.0));
        let bucket = |name: &str, le| page.value(name, &[("le", le), ring]);
        assert_eq!(bucket("took_seconds_bucket", "5.0"), Some(0.0));
        assert_eq!(bucket("took_seconds_bucket", "10.0"), Some(1.0));
        assert_eq!(bucket("took_seconds_bucket", "0.005"), Some(0.0));
        assert_eq!(bucket("took_seconds_bucket", "+Inf"), Some(2.0));
        assert_eq!(bucket("size_bucket", "1.0"), Some(2.0));
        assert_eq!(bucket("size_bucket", "2.0"), Some(2.0));
        assert_eq!(bucket("size_bucket", "+Inf"), Some(6.0));
        assert_eq!(at("size_sum"), Some(5.0));
        let uuid = ("perfring_ring_uuid", "07070707-0707-0707-0707-070707070701");
        let target = [("process_pid", &*pid), uuid, ring, ("service_name", "shop")];
        assert_eq!(page.value("target_info", &target), Some(1.0));
        let counter = if accept == OPEN { "sent_bytes" } else { "sent_bytes_total" };
        assert_eq!(page.kinds[counter], "counter");
        assert_eq!(page.help[counter], "bytes \\\\ sent\\n");
    }
    let figures = prometheus.figures();
    assert_eq!((figures.taken, figures.delivered, figures.refused), (12, 12, 0));
}

/// The parsers of Prometheus's own client for Python read both pages, to the same numbers.
#[test]
fn the_python_client_reads_both_formats() {
    let found = Command::new("python3").args(["-c", "import prometheus_client"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        let why = "python3 has no module prometheus_client: pip install prometheus_client";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {why}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
        return;
    }
    let mut prometheus = open(&options());
    let mut feed = fill(&mut prometheus);
    let hostile = &[("k", Value::Str("a\"b\\c\nd\re{},=#é\u{1f600}")), ("__x__", Value::Str("}"))];
    feed.sink.emit(&Gauge { attributes: hostile, ..Gauge::new("hostile", f64::NAN) }).unwrap();
    feed.pump(&mut Numbers { next: 1000 }, &mut prometheus);
    prometheus.own().counter("own", "of \"its\" own\\", &[("a", "b\nc")], 1e300);
    let script = "
import sys
from prometheus_client.parser import text_string_to_metric_families as text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as opened
parse = opened if sys.argv[1] == 'open' else text
for family in parse(sys.stdin.read()):
    for s in family.samples:
        if not s.name.startswith('perfring_prometheus'):
            print(family.type, s.name, sorted(s.labels.items()), s.value)
";
    let parsed = |kind: &str, accept: &str| {
        let (_, body) = get(prometheus.address(), accept);
        let mut child = Command::new("python3")
            .args(["-c", script, kind])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{body}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (text, open) = (parsed("text", "text/plain"), parsed("open", OPEN));
    assert_eq!(text, open);
    assert!(text.lines().count() == 29 && text.contains("1e+300"), "{text}");
    println!("{} samples", text.lines().count());
}

#[test]
fn hostile_labels_stay_inside_their_quotes() {
    let mut prometheus = open(&options());
    let mut feed = Feed::new(1, "r\"\n}");
    let value = "a\"} 1\nevil{x=\"\\";
    let attributes = &[
        ("le", Value::Str(value)),
        ("ring", Value::Str("mine")),
        ("a.b", Value::Str("1")),
        ("a/b", Value::Str("2")),
        ("cr", Value::Str("x\ry")),
        ("", Value::Str("empty")),
        ("list", Value::U64s(&[1, 2])),
        ("yes", Value::Bool(true)),
    ];
    let name = "x{evil=\"1\"} 2\n# TYPE y";
    feed.sink.emit(&Gauge { attributes, ..Gauge::new(name, 1u64) }).unwrap();
    feed.pump(&mut Numbers::default(), &mut prometheus);
    for accept in ["", OPEN] {
        let page = scrape(prometheus.address(), accept);
        let labels = [
            ("exported_le", value),
            ("exported_ring", "mine"),
            ("ring", "r\"\n}"),
            ("a_b", "1;2"),
            ("_", "empty"),
            ("cr", "x y"),
            ("list", "[1,2]"),
            ("yes", "true"),
        ];
        assert_eq!(page.value("x_evil_1_2_TYPE_y", &labels), Some(1.0), "{page:?}");
    }
}

#[test]
fn counters_do_not_go_back_when_processes_start_again() {
    let mut prometheus = open(&options());
    let mut seqs = Numbers::default();
    let address = prometheus.address();
    let total = || scrape(address, "").value("n_total", &[("ring", "shop")]);
    let count = || scrape(address, "").value("h_count", &[("ring", "shop")]);
    let state = |start, count| Histogram {
        temporality: Temporality::Cumulative,
        start_time_unix_nano: Some(start),
        ..Histogram::state("h", &[1.0], if count == 3 { &[1, 2] } else { &[1, 0] })
    };
    let mut one = Feed::new(1, "shop");
    for value in [5u64, 9, 8] {
        one.sink.emit(&Sum::cumulative("n", value)).unwrap(); // the last one is from a slower thread
    }
    one.sink.emit(&state(10, 3)).unwrap();
    one.pump(&mut seqs, &mut prometheus);
    assert_eq!((total(), count()), (Some(9.0), Some(3.0)));
    // The same process starts again: another start time.
    let again = Sum { start_time_unix_nano: Some(u64::MAX - 1), ..Sum::cumulative("n", 2u64) };
    one.sink.emit(&again).unwrap();
    one.sink.emit(&state(11, 1)).unwrap();
    one.pump(&mut seqs, &mut prometheus);
    assert_eq!((total(), count()), (Some(11.0), Some(4.0)));
    // A late sample from before.
    one.sink.emit(&Sum { start_time_unix_nano: Some(7), ..Sum::cumulative("n", 9u64) }).unwrap();
    one.pump(&mut seqs, &mut prometheus);
    assert_eq!(total(), Some(11.0));
    // A new ring of the same name, as of a restarted program.
    let mut two = Feed::new(2, "shop");
    two.sink.emit(&Sum::cumulative("n", 1u64)).unwrap();
    two.pump(&mut seqs, &mut prometheus);
    assert_eq!(total(), Some(12.0));
    one.end(&mut seqs, &mut prometheus);
    assert_eq!(total(), Some(12.0));
}

#[test]
fn series_of_removed_rings_expire() {
    let mut prometheus = open(&Options { expire: Duration::ZERO, ..options() });
    let address = prometheus.address();
    let mut seqs = Numbers::default();
    let (mut one, mut two, mut three) =
        (Feed::new(1, "shop"), Feed::new(2, "shop"), Feed::new(3, "other"));
    for feed in [&mut one, &mut two, &mut three] {
        feed.sink.emit(&Sum::cumulative("n", 3u64)).unwrap();
        feed.pump(&mut seqs, &mut prometheus);
    }
    let value = |ring| scrape(address, "").value("n_total", &[("ring", ring)]);
    assert_eq!((value("shop"), value("other")), (Some(6.0), Some(3.0)));
    one.end(&mut seqs, &mut prometheus);
    three.end(&mut seqs, &mut prometheus);
    // The other ring of that name continues, and its counter does not go back.
    assert_eq!((value("shop"), value("other")), (Some(6.0), None));
    two.end(&mut seqs, &mut prometheus);
    let page = scrape(address, "");
    assert_eq!(page.value("n_total", &[("ring", "shop")]), None);
    assert_eq!(page.value("perfring_prometheus_series", &[]), Some(0.0));
    assert!(!page.kinds.contains_key("target_info"));
    // And its name can be of another kind then.
    let mut four = Feed::new(4, "four");
    four.sink.emit(&Gauge::new("n", 1u64)).unwrap();
    four.pump(&mut seqs, &mut prometheus);
    assert_eq!(scrape(address, OPEN).value("n", &[("ring", "four")]), Some(1.0));
}

#[test]
fn what_a_dead_process_has_counted_stays_and_its_gauges_and_attributes_end() {
    let mut prometheus = open(&Options { expire: Duration::ZERO, ..options() });
    let (address, mut seqs) = (prometheus.address(), Numbers::default());
    let mut feed = Feed::new(1, "shop");
    let pid = std::process::id();
    let emit = |feed: &Feed| {
        let not = |sum| Sum { is_monotonic: false, ..sum };
        feed.sink.emit(&Gauge::new("depth", 5u64)).unwrap();
        feed.sink.emit(&not(Sum::delta("open", 2u64))).unwrap();
        feed.sink.emit(&not(Sum::cumulative("used", 7u64))).unwrap();
        feed.sink.emit(&Sum::delta("n", 3u64)).unwrap();
        feed.sink.emit(&Sum::cumulative("m", 4u64)).unwrap();
        feed.sink.emit(&Histogram::state("h", &[1.0], &[1, 2])).unwrap();
    };
    let values = |names: &[&str]| {
        let page = scrape(address, "");
        let of = |name: &&str| page.value(name, &[("ring", "shop")]);
        let targets = page.samples.keys().filter(|(name, _)| name == "target_info").count();
        (names.iter().map(of).collect::<Vec<_>>(), targets)
    };
    let (gauges, counters) = (["depth", "open", "used"], ["n_total", "m_total", "h_count"]);
    emit(&feed);
    feed.pump(&mut seqs, &mut prometheus);
    let counted = vec![Some(3.0), Some(4.0), Some(3.0)];
    for alive in [vec![pid], vec![pid, 1]] {
        prometheus.producers(&mut [(&feed.origin, alive)].into_iter());
        assert_eq!(values(&gauges), (vec![Some(5.0), Some(2.0), Some(7.0)], 1));
        assert_eq!(values(&counters).0, counted);
    }
    prometheus.producers(&mut [(&feed.origin, vec![1])].into_iter());
    assert_eq!(values(&gauges), (vec![None; 3], 0));
    assert_eq!(values(&counters).0, counted);
    // Another process has the pid.
    emit(&feed);
    feed.pump(&mut seqs, &mut prometheus);
    prometheus.producers(&mut [(&feed.origin, vec![pid])].into_iter());
    assert_eq!(values(&gauges).0, [Some(5.0), Some(2.0), Some(7.0)]);
    assert_eq!(values(&counters).0, [Some(6.0), Some(4.0), Some(6.0)]);
    drop(prometheus);
    // It is served for as long as the option says.
    let mut prometheus = open(&Options { expire: WATCHDOG, ..options() });
    feed.again(&mut seqs, &mut prometheus);
    prometheus.producers(&mut [(&feed.origin, vec![])].into_iter());
    let page = scrape(prometheus.address(), "");
    assert_eq!(page.value("depth", &[("ring", "shop")]), Some(5.0));
}

#[test]
fn a_ring_has_one_line_of_attributes_whatever_processes_it_has() {
    let mut prometheus = open(&options());
    let (address, mut seqs) = (prometheus.address(), Numbers::default());
    let with = |id, version: &'static str| {
        let resource = Resource::default().with("service.name", "shop");
        let resource = resource.with("service.version", version);
        let mut feed = Feed::with(id, "shop", perfring_telemetry::options(), resource);
        feed.sink.emit(&Sum::delta("n", 1u64)).unwrap();
        feed.origin.uuid = [id as u8; 16];
        feed
    };
    let version = || {
        let page = scrape(address, "");
        let targets = page.samples.keys().filter(|(name, _)| name == "target_info");
        let targets: Vec<_> = targets.map(|(_, labels)| labels.clone()).collect();
        assert_eq!(targets.len(), 1, "{targets:?}");
        assert_eq!((&*targets[0]["ring"], &*targets[0]["service_name"]), ("shop", "shop"));
        targets[0].get("service_version").cloned()
    };
    let pid = std::process::id();
    let [mut one, mut two] = [with(1, "1.0"), with(2, "2.0")];
    one.pump(&mut seqs, &mut prometheus);
    assert_eq!(version().as_deref(), Some("1.0"));
    prometheus.producers(&mut [(&one.origin, vec![])].into_iter());
    assert_eq!(version().as_deref(), Some("1.0"), "the last one, for a while");
    two.pump(&mut seqs, &mut prometheus);
    assert_eq!(version().as_deref(), Some("2.0"), "the one that is alive");
    prometheus.producers(&mut [(&one.origin, vec![pid]), (&two.origin, vec![pid])].into_iter());
    assert_eq!(version(), None, "two versions: they agree in the other attributes");
    prometheus.producers(&mut [(&two.origin, vec![])].into_iter());
    assert_eq!(version().as_deref(), Some("1.0"));
}

#[test]
fn too_many_series_are_left_out_and_counted() {
    let mut prometheus = open(&Options { series: 10, ..options() });
    let mut feed = Feed::new(1, "shop");
    for user in 0..25u64 {
        let attributes = &[("user", Value::U64(user))];
        feed.sink.emit(&Sum { attributes, ..Sum::delta("n", 1u64) }).unwrap();
    }
    feed.sink
        .emit(&Sum { attributes: &[("user", Value::U64(3))], ..Sum::delta("n", 1u64) })
        .unwrap();
    feed.pump(&mut Numbers::default(), &mut prometheus);
    let page = scrape(prometheus.address(), "");
    let left_out = "perfring_prometheus_left_out_samples_total";
    assert_eq!(page.value(left_out, &[("reason", "too_many")]), Some(15.0));
    assert_eq!(page.value("perfring_prometheus_series", &[]), Some(10.0));
    assert_eq!(page.value("n_total", &[("ring", "shop"), ("user", "3")]), Some(2.0));
    let figures = prometheus.figures();
    assert_eq!((figures.taken, figures.delivered, figures.refused), (27, 12, 15));
    assert!(figures.trouble.unwrap().contains("there are 10 series already"));
}

#[test]
fn samples_whose_name_is_taken_are_left_out_and_reported() {
    let mut prometheus = open(&options());
    let mut feed = Feed::new(1, "shop");
    feed.sink.emit(&Histogram::state("h", &[1.0], &[1, 2])).unwrap();
    feed.sink.emit(&Gauge::new("h.count", 1u64)).unwrap(); // h_count is the histogram's
    feed.sink.emit(&Histogram::state("h", &[2.0], &[1, 2])).unwrap(); // other bounds
    feed.sink.emit(&Sum::delta("n", 1u64)).unwrap();
    feed.sink.emit(&Gauge::new("n", 1u64)).unwrap(); // OpenMetrics has no two families n
    feed.sink.emit(&Gauge::new("mine", 1u64)).unwrap();
    // Two instruments of one kind, which are one name for Prometheus.
    feed.sink.emit(&Gauge::new("queue.length", 1u64)).unwrap();
    feed.sink.emit(&Gauge::new("queue_length", 2u64)).unwrap();
    feed.sink.emit(&Sum { unit: "By", ..Sum::delta("sent", 1u64) }).unwrap();
    feed.sink.emit(&Sum::delta("sent_bytes", 2u64)).unwrap();
    feed.sink.emit(&Gauge::new("queue.length", 3u64)).unwrap();
    feed.pump(&mut Numbers::default(), &mut prometheus);
    prometheus.own().gauge("mine", "", &[], 2.0); // the program's own figure is served
    for accept in ["", OPEN] {
        let page = scrape(prometheus.address(), accept);
        let left_out = "perfring_prometheus_left_out_samples_total";
        assert_eq!(page.value(left_out, &[("reason", "other_kind")]), Some(4.0));
        assert_eq!(page.value(left_out, &[("reason", "other_bounds")]), Some(1.0));
        let ring = &[("ring", "shop")];
        assert_eq!(page.value("queue_length", ring), Some(3.0));
        assert_eq!(page.value("sent_bytes_total", ring), Some(1.0));
        assert_eq!(page.value("h_count", &[("ring", "shop")]), Some(3.0));
        assert_eq!(page.value("mine", &[]), Some(2.0));
        assert_eq!(page.value("mine", &[("ring", "shop")]), None);
    }
    let figures = prometheus.figures();
    assert_eq!(figures.refused, 5);
    let trouble = figures.trouble.unwrap();
    assert!(trouble.contains("sent_bytes_total is left out: another instrument"), "{trouble}");
}

#[test]
fn a_sample_with_which_something_is_wrong_is_left_out_and_counted_by_cause() {
    let mut prometheus = open(&options());
    let feed = &mut Feed::new(1, "shop");
    let causes = emit_wrong_samples(feed);
    feed.sink.emit(&Histogram::state("fine", &[1.0], &[1, 2])).unwrap();
    feed.pump(&mut Numbers::default(), &mut prometheus);
    let page = scrape(prometheus.address(), "");
    for (cause, count) in counted(&causes) {
        let left_out = "perfring_prometheus_left_out_samples_total";
        assert_eq!(page.value(left_out, &[("reason", cause)]), Some(count as f64), "{cause}");
        let names = ["", "_total", "_count"].map(|suffix| format!("{cause}{suffix}"));
        let served = names.iter().any(|name| page.value(name, &[("ring", "shop")]).is_some());
        assert!(!served, "{cause}");
    }
    assert_eq!(page.value("fine_count", &[("ring", "shop")]), Some(3.0));
    let figures = prometheus.figures();
    assert_eq!(figures.refused, causes.len() as u64);
    assert_eq!(figures.refused_by.into_iter().collect::<BTreeMap<_, _>>(), counted(&causes));
    let trouble = figures.trouble.unwrap();
    assert_eq!(trouble, "a sample is left out: no_number: a gauge without a number");
    assert_eq!(figures.delivered, 2, "the good one, and the resource");
}

#[test]
fn measurements_are_sorted_by_bounds_of_their_name_or_unit() {
    let text = "buckets = { names = { \"http.*\" = [1, 2] }, units = { By = [10] }, others = [7] }";
    let configured: Options = toml::from_str(text).unwrap();
    let listed: Options = toml::from_str("buckets = [3]").unwrap();
    let bounds = |buckets| {
        let mut prometheus = open(&Options { buckets, ..options() });
        let mut feed = Feed::new(1, "shop");
        for (name, unit) in [("http.took", "s"), ("took", "s"), ("size", "By"), ("n", "")] {
            feed.sink.emit(&Histogram { unit, ..Histogram::one(name, 0.099) }).unwrap();
        }
        // What a program has sorted keeps its bounds.
        let sorted = Histogram { unit: "s", ..Histogram::state("sorted", &[5.0], &[1, 0]) };
        feed.sink.emit(&sorted).unwrap();
        feed.pump(&mut Numbers::default(), &mut prometheus);
        let page = scrape(prometheus.address(), "");
        let names = ["http_took_seconds", "took_seconds", "size_bytes", "n", "sorted_seconds"];
        names.map(|name| {
            let name = format!("{name}_bucket");
            let of = page.samples.keys().filter(|(its, _)| *its == name);
            let mut all: Vec<f64> = of.filter_map(|(_, it)| it["le"].parse().ok()).collect();
            all.sort_by(f64::total_cmp);
            assert_eq!(all.pop(), Some(f64::INFINITY));
            all
        })
    };
    let [http, took, size, n, sorted] = bounds(Options::default().buckets);
    assert_eq!((http.len(), took.len(), size.len(), n.len()), (14, 14, 14, 15));
    assert_eq!((took[0], took[13], size[0], size[13]), (0.005, 10.0, 16.0, f64::from(1 << 30)));
    assert_eq!((n[0], n[14], sorted), (0.0, 10_000.0, vec![5.0]));
    let [http, took, size, n, sorted] = bounds(configured.buckets);
    assert_eq!((http, size, n, sorted), (vec![1.0, 2.0], vec![10.0], vec![7.0], vec![5.0]));
    assert_eq!(took.len(), 14, "units that are not named keep their own");
    let [http, took, .., sorted] = bounds(listed.buckets);
    assert_eq!((http, took, sorted), (vec![3.0], vec![3.0], vec![5.0]));
}

#[test]
fn losses_are_counted_by_cause() {
    let mut prometheus = open(&options());
    let mut feed = Feed::new(1, "shop");
    let mut seqs = Numbers::default();
    for cause in [Cause::Full, Cause::Full, Cause::Lapped] {
        let cause = LossCause::Ring(cause);
        let loss = Loss::new(8, 3, 100, cause);
        feed.lose(&mut seqs, &mut prometheus, loss);
    }
    let page = scrape(prometheus.address(), "");
    let of = |name, cause| page.value(name, &[("cause", cause), ("ring", "shop")]);
    assert_eq!(of("perfring_ring_lost_records_total", "full"), Some(6.0));
    assert_eq!(of("perfring_ring_lost_records_total", "lapped"), Some(3.0));
    assert_eq!(of("perfring_ring_lost_bytes_total", "full"), Some(200.0));
}

#[test]
fn own_figures_are_served_until_they_are_forgotten() {
    let prometheus = open(&options());
    let own = prometheus.own();
    own.counter("sidecar.records", "records", &[("ring", "a")], 1.0);
    own.counter("sidecar.records", "records", &[("ring", "a")], 2.0);
    own.counter("sidecar.records", "records", &[("ring", "b")], 3.0);
    own.gauge("sidecar.memory", "bytes", &[], 4.0);
    let page = scrape(prometheus.address(), OPEN);
    let of = |ring| page.value("sidecar_records_total", &[("ring", ring)]);
    assert_eq!((of("a"), of("b")), (Some(2.0), Some(3.0)));
    own.forget(&[("ring", "a")]);
    let page = scrape(prometheus.address(), OPEN);
    let of = |ring| page.value("sidecar_records_total", &[("ring", ring)]);
    assert_eq!((of("a"), of("b")), (None, Some(3.0)));
    assert_eq!(page.value("sidecar_memory", &[]), Some(4.0));
}

#[test]
fn processes_are_distinguished_or_added_up_as_configured() {
    for (ring_label, pid_label) in [(false, false), (true, true)] {
        let mut prometheus = open(&Options { ring_label, pid_label, ..options() });
        let mut seqs = Numbers::default();
        for id in 1..=3 {
            let resource = Resource::default();
            let name = format!("ring-{id}");
            let mut feed = Feed::with(id, &name, perfring_telemetry::options(), resource);
            feed.sink.emit(&Sum::cumulative("n", 2u64)).unwrap();
            feed.pump(&mut seqs, &mut prometheus);
        }
        let page = scrape(prometheus.address(), "");
        let pid = std::process::id().to_string();
        let apart = page.value("n_total", &[("ring", "ring-1"), ("process_pid", &pid)]);
        let added = page.value("n_total", &[]);
        let expected = if ring_label { (Some(2.0), None) } else { (None, Some(6.0)) };
        assert_eq!((apart, added), expected);
    }
}

#[test]
fn two_processes_of_one_pid_are_not_added_up() {
    let mut prometheus = open(&Options { ring_label: false, pid_label: true, ..options() });
    let mut feeds =
        [1, 2].map(|id| Feed::with(id, "ring", perfring_telemetry::options(), Resource::default()));
    let mut seqs = Numbers::default();
    for (feed, namespace) in feeds.iter_mut().zip(1..) {
        feed.sink.emit(&Gauge::new("free", namespace)).unwrap();
        feed.origin.birth = Some(Birth { namespace, started_ns: 1 });
        feed.pump(&mut seqs, &mut prometheus);
    }
    let page = scrape(prometheus.address(), "");
    let pid = std::process::id().to_string();
    for (pid, value, feed) in [(&*pid, 1.0, &feeds[0]), ("4194304", 2.0, &feeds[1])] {
        assert_eq!(page.value("free", &[("process_pid", pid)]), Some(value));
        // Their resources have the same numbers.
        let uuid = feed.origin.uuid_text();
        let mut targets = page.samples.keys().filter(|(name, _)| name == "target_info");
        let is = |labels: &page::Labels| {
            labels["perfring_ring_uuid"] == uuid && labels["process_pid"] == pid
        };
        assert!(targets.any(|(_, labels)| is(labels)), "{pid}");
    }
}

#[test]
fn slow_or_many_clients_do_not_block() {
    let mut prometheus = open(&Options { timeout: Duration::from_secs(3600), ..options() });
    let _feed = fill(&mut prometheus);
    let address = prometheus.address();
    // More than the limit, and none of them finishes its request.
    let mut slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
            stream
        })
        .collect();
    let scrapers: Vec<_> = (0..16)
        .map(|_| {
            std::thread::spawn(move || {
                (0..20).map(|_| scrape(address, OPEN).samples.len()).min().unwrap()
            })
        })
        .collect();
    for scraper in scrapers {
        assert!(scraper.join().unwrap() > 30);
    }
    // The oldest slow connection was closed.
    until("the oldest connection is closed", || {
        slow[0].set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        !matches!(slow[0].read(&mut [0]), Err(bad) if bad.kind() == ErrorKind::WouldBlock)
    });
}

#[test]
fn a_slow_client_is_sent_away_in_time() {
    // The connection to a server with another limit is older, and stays: hyper's own limit ends neither.
    let [patient, hasty] = [Duration::from_secs(3600), Duration::from_millis(50)]
        .map(|timeout| open(&Options { timeout, ..options() }));
    let [mut other, mut stream] = [&patient, &hasty].map(|server| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET /met").unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream
    });
    let mut rest = String::new();
    // It ends, as the other side closes, perhaps with a reset.
    let ended = stream.read_to_string(&mut rest).map_err(|bad| bad.kind());
    assert_ne!(ended, Err(ErrorKind::WouldBlock), "it was not closed");
    assert!(!rest.contains("200 OK"), "{rest}");
    other.set_nonblocking(true).unwrap();
    let open = other.read(&mut [0]).map_err(|bad| bad.kind());
    assert_eq!(open, Err(ErrorKind::WouldBlock), "it was closed without a reason");
}

#[test]
fn other_requests_are_answered_with_a_message() {
    let prometheus = open(&options());
    let address = prometheus.address();
    let (head, body) = ask(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404") && body.contains("/metrics"), "{head}");
    let (head, _) = ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    let (head, body) = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}");
    let (head, _) = ask(address, "\u{0}\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    scrape(address, "");
}

#[test]
fn a_port_in_use_has_a_message_and_is_free_after_close() {
    let mut first = open(&options());
    let listen = first.address().to_string();
    let second = Options { listen: listen.clone(), ..options() };
    let error = Prometheus::open("prometheus", &second).unwrap_err().to_string();
    assert!(error.contains("another process listens on it: set another port"), "{error}");
    first.close(Instant::now()).unwrap();
    for _ in 0..20 {
        drop(Prometheus::open("prometheus", &second).unwrap()); // free once it returns
    }
    for bad in [
        Options { listen: "nowhere".into(), ..options() },
        Options { path: "metrics".into(), ..options() },
        Options { buckets: Bounds::all(vec![2.0, 1.0]), ..options() },
    ] {
        println!("{}", Prometheus::open("prometheus", &bad).unwrap_err());
    }
}

#[test]
fn the_reader_of_pages_is_strict() {
    let fails = |page: &'static str| std::panic::catch_unwind(|| read(page, false)).is_err();
    assert!(!fails("# TYPE a gauge\na{x=\"\\\"\\n\\\\\"} 1\n"));
    for bad in [
        "a 1\n",
        "# TYPE a gauge\na{x=\"1\"y=\"2\"} 1\n",
        "# TYPE a gauge\na{x=\"\\q\"} 1\n",
        "# TYPE a gauge\na 1\na 1\n",
        "# TYPE a gauge\na x\n",
        "# TYPE a gauge\na{0=\"1\"} 1\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# HELP a x\n",
        "# TYPE a counter\na -1\n",
        "# TYPE a gauge\na 1",
    ] {
        assert!(fails(bad), "{bad:?}");
    }
}
