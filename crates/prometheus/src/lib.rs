//! An endpoint for metrics that Prometheus scrapes.
//!
//! | of a ring | becomes |
//! |---|---|
//! | a sum that only grows | a counter: over all processes of a ring name, including ended ones. It never goes back when a process restarts |
//! | a gauge | a gauge: the newest sample. It is served until its process is dead for [`Options::expire`] |
//! | a histogram | a histogram: counts and measurements of all processes; measurements are sorted into [`Options::buckets`]. With [`Options::histograms`] it is a native one, too, for a scraper that prefers protobuf |
//! | a loss | counts in `perfring_ring_lost_records_total` and `perfring_ring_lost_bytes_total` by `ring` and `cause`, unless the program sets these itself |
//! | a sample that cannot be one, as a histogram whose bounds do not rise | a count in `perfring_prometheus_left_out_samples_total` by `reason`, and in [`Figures::refused_by`](perfring_events::Figures::refused_by) |
//! | a resource | `target_info` with its attributes: see below |
//!
//! Attributes are labels, the scope is `otel_scope_name`, the ring's name is `ring`. Names are
//! mangled, and units added, by OpenTelemetry's rules; an attribute whose name is taken gets the
//! prefix `exported_`, and the values of two attributes with one label are joined by `;`. Of two
//! instruments with one name, as `a.b` and `a_b`, the first is served, and the other is left out,
//! counted and reported.
//!
//! `target_info` has one line for each set of the labels `ring` and `process_pid` that samples have, so `* on (ring) group_left`
//! finds one line, also after a restart. Of several live processes, the line has the attributes in which they agree. A process that
//! is dead has no part in it while another one lives, and none after [`Options::expire`]. OpenTelemetry's labels `job` and
//! `instance` would distinguish all processes of a counter, and a scrape replaces them.
//!
//! Delivery is not promised: what is not scraped between two changes is not seen, and counters
//! start at zero with this process.
//!
//! ```
//! use perfring_events::Output;
//! use perfring_prometheus::{Options, Prometheus};
//! # use std::io::{Read, Write};
//! let listen = "127.0.0.1:0".to_owned(); // any free port
//! let prometheus = Prometheus::open("metrics", &Options { listen, ..Options::default() })?;
//! prometheus.own().gauge("perfring.memory", "bytes in use", &[], 4096.0);
//! # let mut page = String::new();
//! # let mut stream = std::net::TcpStream::connect(prometheus.address())?;
//! # stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
//! # stream.read_to_string(&mut page)?;
//! // curl http://127.0.0.1:PORT/metrics
//! assert!(page.contains("\nperfring_memory 4096\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod figures;
mod labels;
mod lives;
mod names;
mod page;
mod proto;
mod series;
mod state;
mod text;

pub use figures::OwnFigures;
use perfring_events::{
    Event, Figures, Loss, Origin, Output, OutputError, Own, Took, What, check_address,
    delivery::{checks::more_than_zero, left_out::LeftOut as LeftOutRecords},
    figures::{LOST_BYTES, LOST_RECORDS},
    read_duration, read_size,
    signal::{
        Bounds, Buckets, Common, Exponential, Histogram, HistogramData, Histograms, Instrument,
        Plain, Signal, Temporality,
    },
};
use perfring_http::{Answer, Asked, Listener, Server};
use perfring_types::read::Value;
use serde::Deserialize;
use series::{Amount, Counts, How, LeftOut, Limits, ProcessId, Sample};
use state::{Shared, Told};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use text::{Labels, Sort};

/// Options of [`Prometheus`].
///
/// ```
/// use perfring_prometheus::Options;
/// let options: Options = toml::from_str(r#"listen = "0.0.0.0:9464""#)?;
/// assert_eq!(options.path, "/metrics");
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Address and port. Everyone process can connect to it sees all metrics.
    pub listen: String,
    /// The path of the page.
    pub path: String,
    /// The limit from a connection to the end of its answer.
    #[serde(deserialize_with = "read_duration")]
    pub timeout: Duration,
    /// The limit of series: samples of more are left out, and counted.
    pub series: usize,
    /// The approximate limit of bytes of their names, labels and buckets.
    #[serde(deserialize_with = "read_size")]
    pub bytes: usize,
    /// How long the values of a removed ring, and the gauges and the attributes of a dead process, are served. What
    /// a dead process has counted stays in the counters.
    #[serde(deserialize_with = "read_duration")]
    pub expire: Duration,
    /// Whether the ring's name is a label. Without it, processes of all rings are added up.
    pub ring_label: bool,
    /// Whether the process id is a label, which distinguishes processes of one ring: each new
    /// process creates new series. A second process of one pid, as in another container, has a number from 4194304 up.
    pub pid_label: bool,
    /// Whether resources are served, as `target_info`: one line for each ring, and each process with `pid_label`.
    pub target_info: bool,
    /// The bounds of the buckets for measurements. A histogram that a program has sorted keeps its own.
    pub buckets: Bounds,
    /// Whether measurements are counted in exponential buckets, too, for a scraper that asks for native histograms. By
    /// default they are not: such a scraper takes them instead of the buckets that queries for `_bucket` need.
    pub histograms: Histograms,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: "127.0.0.1:9464".into(),
            path: "/metrics".into(),
            timeout: Duration::from_secs(10),
            series: 10_000,
            bytes: 64 << 20,
            expire: Duration::from_secs(300),
            ring_label: true,
            pid_label: false,
            target_info: true,
            buckets: Bounds::default(),
            histograms: Histograms::default(),
        }
    }
}

/// Serves metrics to Prometheus. See the [module](self).
#[derive(Debug)]
pub struct Prometheus {
    name: String,
    options: Options,
    shared: Arc<Shared>,
    address: SocketAddr,
    server: Option<Server>,
    taken: u64,
    bytes: u64,
    left_out: LeftOutRecords,
}

impl Prometheus {
    /// Checks the address, the page and its limits.
    ///
    /// # Errors
    /// What [`Prometheus::open`] would refuse, but for an address that another process has.
    pub fn check(name: &str, options: &Options) -> Result<(), OutputError> {
        let fault = |sentence: String| OutputError::new(name, sentence);
        check_address(&options.listen)
            .map_err(|why| fault(format!("cannot listen, as `listen` = {why}")))?;
        if !options.path.starts_with('/') {
            return Err(fault(format!("the path {:?} must begin with /", options.path)));
        }
        options.buckets.check().map_err(fault)?;
        more_than_zero(name, &[("series", options.series as u64), ("bytes", options.bytes as u64)])
    }

    /// Starts to listen and serve.
    ///
    /// # Errors
    /// It cannot listen on that address, or the options are invalid.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        let fault = |sentence: String| OutputError::new(name, sentence);
        Self::check(name, options)?;
        let listen = &options.listen;
        let listener = TcpListener::bind(listen).map_err(|bad| {
            let advice = match bad.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another process listens on it: set another port in `listen`"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "ports below 1024 need privileges: set another in `listen`"
                }
                _ => "set `listen` to an address of this machine and a port, like 127.0.0.1:9464",
            };
            fault(format!("cannot listen on {listen:?}: {bad}; {advice}"))
        })?;
        let path = options.path.clone();
        let limits =
            Limits { series: options.series, bytes: options.bytes, expire: options.expire };
        let told = Told { ring: options.ring_label, pid: options.pid_label };
        let shared = Arc::new(Shared::new(limits, options.target_info.then_some(told)));
        let failed = |bad: std::io::Error| fault(format!("cannot serve on {listen:?}: {bad}"));
        let address = listener.local_addr().map_err(failed)?;
        let timeout = options.timeout.max(Duration::from_millis(1));
        let page = Arc::clone(&shared);
        let answers = Arc::new(move |asked: &Asked| match asked.path == path {
            true => page.answer(&asked.accept),
            false => Answer::plain(404, format!("metrics are at {path}\n")),
        });
        let server = Server::start("prometheus", Listener::Tcp(listener), timeout, answers)
            .map_err(failed)?;
        Ok(Prometheus {
            name: name.to_owned(),
            options: options.clone(),
            shared,
            address,
            server: Some(server),
            taken: 0,
            bytes: 0,
            left_out: LeftOutRecords::default(),
        })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle to serve the program's own figures beside those of rings.
    #[must_use]
    pub fn own(&self) -> OwnFigures {
        self.shared.own.clone()
    }

    /// Returns the page as it is served: for `tests/fuzz`.
    #[cfg(feature = "fuzz")]
    #[doc(hidden)]
    #[must_use]
    pub fn page(&self, open_metrics: bool) -> String {
        let format = if open_metrics { text::Format::Open } else { text::Format::Text };
        String::from_utf8_lossy(&self.shared.page(format)).into_owned()
    }

    fn sample(
        &self,
        event: &Event<'_>,
        common: &Common<'_>,
        what: Instrument<'_>,
        kind: (Sort, How),
        amount: Amount,
    ) -> Result<(), (LeftOut, String)> {
        let (sort, how) = kind;
        let (is_counter, is_gauge) = (sort == Sort::Counter, sort == Sort::Gauge);
        let name = names::metric(what.name, what.unit, is_counter, is_gauge);
        let labels = self.labels(event, common);
        let process: ProcessId = (event.origin.id, common.pid.unwrap_or_default());
        let mut state = self.shared.lock();
        state.seen(process);
        // What it counts from may stand in the resource.
        let how = match how {
            How::Replace { start: 0, grows } => {
                let reported =
                    state.resources.get(process.0, process.1).and_then(|reported| reported.start);
                How::Replace { start: reported.unwrap_or_default(), grows }
            }
            how => how,
        };
        let (instrument, help) = ((what.name, what.unit), what.description);
        let reported = name.clone();
        let sample = Sample { name, sort, instrument, help, labels, process, how, amount };
        let added = state.series.add(sample, Instant::now());
        added.inspect_err(|why| state.leave_out(why.reason())).map_err(|why| (why, reported))
    }

    fn labels(&self, event: &Event<'_>, common: &Common<'_>) -> Labels {
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        if self.options.ring_label {
            labels.insert("ring".into(), text::value(&event.origin.name));
        }
        if self.options.pid_label
            && let Some(pid) = common.pid
        {
            labels.insert("process_pid".into(), self.shared.lock().pid_label(event.origin, pid));
        }
        if !common.scope.is_empty() {
            labels.insert("otel_scope_name".into(), text::value(common.scope));
        }
        labels::add(&mut labels, common.attributes.iter().map(|(name, value)| (*name, *value)));
        labels.into_iter().collect()
    }

    fn record(&mut self, event: &Event<'_>, signal: &Signal<'_>) {
        let done = match signal {
            Signal::Resource(resource) => {
                self.shared.lock().learn(event.origin, resource);
                return;
            }
            Signal::Gauge(gauge) => {
                let amount = Amount::Number(gauge.value.as_f64());
                self.sample(event, &gauge.common, gauge.what, (Sort::Gauge, How::Set), amount)
            }
            Signal::Sum(sum) => {
                let how = How::of(sum.temporality, sum.start, sum.monotonic);
                let sort = if sum.monotonic { Sort::Counter } else { Sort::Gauge };
                let amount = Amount::Number(sum.value.as_f64());
                self.sample(event, &sum.common, sum.what, (sort, how), amount)
            }
            Signal::Histogram(histogram) => {
                let Histogram { common, what, temporality, start, data } = histogram;
                let buckets = match data {
                    HistogramData::One(value) => {
                        Buckets::one(*value, self.options.buckets.of(what))
                    }
                    HistogramData::State(buckets) => buckets.clone(),
                    HistogramData::Exponential(of) => of.to_buckets(self.options.buckets.of(what)),
                };
                let native = match (data, self.options.histograms) {
                    (HistogramData::One(value), Histograms::Exponential) => {
                        Some(Box::new(Exponential::one(*value)))
                    }
                    (HistogramData::Exponential(of), Histograms::Exponential) => Some(of.clone()),
                    _ => None,
                };
                let how = How::of(*temporality, *start, true);
                let kind = (Sort::Histogram, how);
                self.sample(
                    event,
                    common,
                    *what,
                    kind,
                    Amount::Counts(Counts { explicit: buckets, native }),
                )
            }
            Signal::Plain(Plain { fault: Some(fault), common, name, .. })
                if fault.is_of_metric() =>
            {
                self.shared.lock().leave_out(fault.cause);
                let why = fault.message(&common.attributes, name);
                return self.left_out.count(fault.cause, format!("a sample is left out: {why}"));
            }
            _ => return,
        };
        if let Err((why, name)) = done {
            let reason = why.reason();
            let why = match why {
                LeftOut::TooMany => format!(
                    "there are {} series already; keep what differs for each request out of \
                     attributes, or make `series` or `bytes` greater",
                    self.shared.lock().series.figures.series
                ),
                LeftOut::NameTaken => "another instrument has that name here, of another kind, or \
                    with a name or unit that Prometheus cannot tell from it: rename one of them"
                    .into(),
                LeftOut::OtherBounds => "its buckets have other bounds than before".into(),
            };
            self.left_out.count(reason, format!("a sample of {name} is left out: {why}"));
        }
    }

    fn lost(&self, event: &Event<'_>, loss: &Loss) {
        let cause = Value::Str(loss.cause.name().into());
        let ring = Value::Str(event.origin.name.clone());
        let mut attributes = vec![("cause", &cause)];
        if !self.options.ring_label {
            attributes.push(("ring", &ring));
        }
        let common = Common { attributes, ..Common::default() };
        let how = How::of(Temporality::Delta, None, true);
        for ((name, unit, description), value) in
            [(LOST_RECORDS, loss.records), (LOST_BYTES, loss.bytes)]
        {
            let what = Instrument { name, unit, description };
            let amount = Amount::Number(value as f64);
            // Without room for it, it is counted as left out.
            let _ = self.sample(event, &common, what, (Sort::Counter, how), amount);
        }
    }
}

impl Output for Prometheus {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.shared.lock().resources.add(attributes);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        match &event.what {
            What::Began => {
                self.shared.lock().ring_began(event.origin);
            }
            What::Record(record) => {
                self.taken += 1;
                self.bytes += record.bytes.len() as u64;
                self.record(event, &Signal::of(record));
            }
            What::Lost(loss) => self.lost(event, loss),
            What::Ended => {
                self.shared.lock().ring_ended(event.origin);
            }
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.shared.lock().expire(Instant::now());
        let ended = self.server.as_ref().and_then(Server::ended);
        ended.map_or(Ok(()), |why| Err(OutputError::new(&self.name, why.to_owned())))
    }

    fn producers(&mut self, all: &mut dyn Iterator<Item = (&Origin, Vec<u32>)>) {
        for (origin, alive) in all {
            self.shared.lock().producers(origin, &alive, Instant::now());
        }
    }

    fn unsettled(&mut self) -> Option<u64> {
        None
    }

    fn close(&mut self, _deadline: Instant) -> Result<(), OutputError> {
        self.server = None;
        Ok(())
    }

    fn figures(&self) -> Figures {
        let delivered = self.taken.saturating_sub(self.left_out.records());
        let (taken, bytes) = (self.taken, self.bytes);
        let mut figures = Figures { taken, delivered, bytes, ..Figures::default() };
        self.left_out.add_to(&mut figures);
        figures
    }

    fn own(&self) -> Option<Box<dyn Own>> {
        Some(Box::new(self.own()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_events::delivery::thread::is_an_error_of;

    #[test]
    fn a_thread_that_has_panicked_is_an_error_that_names_it() {
        let options = Options { listen: "127.0.0.1:0".into(), ..Options::default() };
        let mut output = Prometheus::open("out", &options).unwrap();
        let ended = output.server.as_ref().unwrap().ends().clone();
        is_an_error_of(&mut output, &ended);
    }
}
