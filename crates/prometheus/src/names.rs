//! Converts OpenTelemetry's names to those that Prometheus allows, by its rules.

/// Returns a metric's name: characters that are not allowed become `_`, units are appended as
/// words, and a counter ends with `_total`.
pub(super) fn metric(name: &str, unit: &str, is_counter: bool, is_gauge: bool) -> String {
    let mut out = mangled(name, true);
    for word in unit_words(unit, is_gauge) {
        if !word.is_empty() && !out.split('_').any(|its| its == word) {
            let counted = out.strip_suffix("_total").filter(|_| is_counter).map(str::to_owned);
            out = format!("{}_{word}", counted.as_deref().unwrap_or(&out));
        }
    }
    if is_counter && !out.ends_with("_total") {
        out.push_str("_total");
    }
    out
}

/// The name of a label.
pub(super) fn label(name: &str) -> String {
    let out = mangled(name, false);
    // Names that start with two underscores are reserved.
    if out.starts_with("__") { format!("key{out}") } else { out }
}

fn mangled(name: &str, colons: bool) -> String {
    let mut out = String::with_capacity(name.len() + 1);
    for c in name.chars() {
        let fine = c.is_ascii_alphanumeric() || c == '_' || colons && c == ':';
        let c = if fine { c } else { '_' };
        // Several in a row become one, by OpenTelemetry's rules.
        if fine || !out.ends_with('_') {
            out.push(c);
        }
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Returns the words of a unit: `By/s` is `bytes_per_second`; braces enclose a note, which is no
/// unit.
fn unit_words(unit: &str, is_gauge: bool) -> Vec<String> {
    let noted = unit.contains('{');
    if unit == "1" {
        return if is_gauge { vec!["ratio".into()] } else { Vec::new() };
    }
    let (what, per) = unit.split_once('/').unwrap_or((unit, ""));
    let mut words = Vec::new();
    let mut add = |part: &str, table: &[(&str, &str)], before: &str| {
        let part = part.trim();
        if part.is_empty() || part.contains('{') {
            return;
        }
        let word = table.iter().find(|(its, _)| *its == part).map(|(_, word)| (*word).to_owned());
        let word = word.unwrap_or_else(|| mangled(part, false).trim_matches('_').to_owned());
        if !word.is_empty() {
            words.push(format!("{before}{word}"));
        }
    };
    add(what, UNITS, "");
    if !(noted && what.contains('{') && per.is_empty()) {
        add(per, PER, "per_");
    }
    words
}

const UNITS: &[(&str, &str)] = &[
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("bit", "bits"),
    ("Kbit", "kilobits"),
    ("kbit", "kilobits"),
    ("Mbit", "megabits"),
    ("Gbit", "gigabits"),
    ("Tbit", "terabits"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("1", ""),
    ("%", "percent"),
];

const PER: &[(&str, &str)] = &[
    ("s", "second"),
    ("m", "minute"),
    ("min", "minute"),
    ("h", "hour"),
    ("d", "day"),
    ("w", "week"),
    ("mo", "month"),
    ("y", "year"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_as_opentelemetry_says() {
        let counter = |name, unit| metric(name, unit, true, false);
        assert_eq!(counter("http.server.requests", "{request}"), "http_server_requests_total");
        assert_eq!(counter("sent", "By"), "sent_bytes_total");
        assert_eq!(counter("sent_total", "By"), "sent_bytes_total");
        assert_eq!(counter("sent_bytes_total", "By"), "sent_bytes_total");
        assert_eq!(counter("n", "1"), "n_total");
        let gauge = |name, unit| metric(name, unit, false, true);
        assert_eq!(gauge("cpu.use", "1"), "cpu_use_ratio");
        assert_eq!(gauge("rate", "By/s"), "rate_bytes_per_second");
        assert_eq!(gauge("rate", "{packet}/s"), "rate_per_second");
        assert_eq!(gauge("2x  y", ""), "_2x_y");
        assert_eq!(gauge("ns:x", "furlong"), "ns:x_furlong");
        assert_eq!(metric("took", "s", false, false), "took_seconds");
        assert_eq!(gauge("", ""), "_");
        assert_eq!(gauge("größe", "%"), "gr_e_percent");
    }

    #[test]
    fn labels_are_named_as_prometheus_allows() {
        assert_eq!(label("http.method"), "http_method");
        assert_eq!(label("__name__"), "key__name__");
        assert_eq!(label("0"), "_0");
        assert_eq!(label("a:b"), "a_b");
    }
}
