//! The two text formats.

use perfring_events::signal::Buckets;
use std::fmt::Write as _;

/// What a client must say of the protobuf that it accepts.
const PROTOBUF: [&str; 2] = ["proto=io.prometheus.client.MetricFamily", "encoding=delimited"];

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus's own, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0.
    Open,
    /// Prometheus's own in protobuf, for native histograms.
    Protobuf,
}

impl Format {
    /// Chooses a format by the header `Accept`: the first of protobuf, OpenMetrics and text with the greatest quality. A
    /// client that wants native histograms puts protobuf first.
    pub(super) fn of(accept: &str) -> Self {
        let quality = |wanted: &str, needs: &[&str]| -> f64 {
            let mut best = 0.0f64;
            for range in accept.split(',') {
                let mut parts = range.split(';').map(str::trim);
                let name = parts.next().unwrap_or_default().to_ascii_lowercase();
                let has = |need: &&str| parts.clone().any(|part| part == *need);
                if name == wanted && needs.iter().all(has) {
                    let q = parts.find_map(|part| part.strip_prefix("q="));
                    best = best.max(q.map_or(1.0, |q| q.parse().unwrap_or(0.0)));
                }
            }
            best
        };
        let protobuf = quality("application/vnd.google.protobuf", &PROTOBUF);
        let (open, text) =
            (quality("application/openmetrics-text", &[]), quality("text/plain", &[]));
        match () {
            () if protobuf > 0.0 && protobuf >= open.max(text) => Format::Protobuf,
            () if open > 0.0 && open >= text => Format::Open,
            () => Format::Text,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sort {
    Counter,
    Gauge,
    Histogram,
}

/// Names and values of labels, sorted by name, each name once.
pub(super) type Labels = Vec<(String, String)>;

/// Formats a label's value: some readers take a carriage return for a line end.
pub(super) fn value(text: &str) -> String {
    text.replace('\r', " ")
}

/// A page that is being written.
pub(super) struct Page {
    format: Format,
    out: String,
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        Page { format, out: String::new() }
    }

    /// Starts a family: all its samples follow. `name` is that of a counter's samples, with
    /// `_total`.
    pub(super) fn family(&mut self, name: &str, sort: Sort, help: &str) {
        let counter = sort == Sort::Counter && self.format == Format::Open;
        let name = if counter { name.strip_suffix("_total").unwrap_or(name) } else { name };
        if !help.is_empty() {
            let _ = write!(self.out, "# HELP {name} ");
            self.escaped(&value(help), self.format == Format::Open);
            self.out.push('\n');
        }
        let sort = match sort {
            Sort::Counter => "counter",
            Sort::Gauge => "gauge",
            Sort::Histogram => "histogram",
        };
        let _ = writeln!(self.out, "# TYPE {name} {sort}");
    }

    /// Writes one line. `le` is a bucket's upper bound.
    pub(super) fn sample(&mut self, name: &str, labels: &Labels, le: Option<f64>, value: f64) {
        self.out.push_str(name);
        if !labels.is_empty() || le.is_some() {
            self.out.push('{');
            for (at, (name, value)) in labels.iter().enumerate() {
                if at > 0 {
                    self.out.push(',');
                }
                let _ = write!(self.out, "{name}=\"");
                self.escaped(value, true);
                self.out.push('"');
            }
            if let Some(le) = le {
                let comma = if labels.is_empty() { "" } else { "," };
                let _ = write!(self.out, "{comma}le=\"");
                // A bucket has one name in both formats; otherwise it would be two series.
                self.number(le, true);
                self.out.push('"');
            }
            self.out.push('}');
        }
        self.out.push(' ');
        self.number(value, false);
        self.out.push('\n');
    }

    /// Writes the lines of a histogram.
    pub(super) fn histogram(&mut self, name: &str, labels: &Labels, buckets: &Buckets) {
        let bucket = format!("{name}_bucket");
        let mut count = 0u64;
        for (le, its) in buckets.bounds.iter().zip(&buckets.buckets) {
            count = count.saturating_add(*its);
            self.sample(&bucket, labels, Some(*le), count as f64);
        }
        self.sample(&bucket, labels, Some(f64::INFINITY), buckets.count as f64);
        if let Some(sum) = buckets.sum {
            self.sample(&format!("{name}_sum"), labels, None, sum);
        }
        self.sample(&format!("{name}_count"), labels, None, buckets.count as f64);
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::Open {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn escaped(&mut self, text: &str, quotes: bool) {
        for c in text.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '"' if quotes => self.out.push_str("\\\""),
                c => self.out.push(c),
            }
        }
    }

    fn number(&mut self, value: f64, point: bool) {
        if value.is_nan() {
            self.out.push_str("NaN");
        } else if value.is_infinite() {
            self.out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
        } else if !point && value.fract() == 0.0 && value.abs() < 1e15 {
            let _ = write!(self.out, "{value}");
        } else {
            let _ = write!(self.out, "{value:?}"); // 0.5, 1e300
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_has_the_best_quality() {
        let of = |accept: &str| Format::of(accept);
        assert_eq!(of(""), Format::Text);
        assert_eq!(of("*/*"), Format::Text);
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(of(prometheus), Format::Open);
        assert_eq!(of("text/plain;q=0.9,application/openmetrics-text;q=0.2"), Format::Text);
        assert_eq!(of("application/openmetrics-text;q=0"), Format::Text);
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let native =
            format!("{protobuf},application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1");
        assert_eq!(of(&native), Format::Protobuf);
        assert_eq!(of(&format!("{protobuf};q=0.1,text/plain")), Format::Text);
        assert_eq!(of("application/vnd.google.protobuf;encoding=text"), Format::Text);
    }
}
