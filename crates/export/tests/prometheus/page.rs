//! A scrape over a plain connection, and a strict parser of its page.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

pub(crate) const OPEN: &str = "application/openmetrics-text; version=1.0.0";

/// Names and values of labels.
pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) kinds: BTreeMap<String, String>,
    pub(crate) help: BTreeMap<String, String>,
    pub(crate) samples: BTreeMap<(String, Labels), f64>,
}

/// Returns status line and headers, and the body.
pub(crate) fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.to_owned(), body.to_owned())
}

pub(crate) fn get(address: SocketAddr, accept: &str) -> (String, String) {
    ask(address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"))
}

/// Scrapes and parses a page in this format.
pub(crate) fn scrape(address: SocketAddr, accept: &str) -> Page {
    let (head, body) = get(address, accept);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let open = accept == OPEN;
    let kind = if open { "openmetrics-text; version=1.0.0" } else { "text/plain; version=0.0.4" };
    assert!(head.contains(kind), "{head}");
    read(&body, open)
}

/// Parses a page; fails at anything that the formats do not allow.
pub(crate) fn read(body: &str, open: bool) -> Page {
    let mut page = Page::default();
    let mut family = String::new();
    let mut done = BTreeSet::new();
    assert!(body.ends_with('\n'));
    let mut lines: Vec<&str> = body.split('\n').collect();
    assert_eq!(lines.pop(), Some(""));
    if open {
        assert_eq!(lines.pop(), Some("# EOF"));
    }
    for line in lines {
        assert!(!line.is_empty() && !line.contains('\r'), "{line:?}");
        if let Some(meta) = line.strip_prefix("# ") {
            let (word, rest) = meta.split_once(' ').unwrap();
            let (name, text) = rest.split_once(' ').unwrap();
            name_is_fine(name, true);
            if family != name {
                assert!(done.insert(name.to_owned()), "{name} comes in two places");
                name.clone_into(&mut family);
            }
            let of = match word {
                "TYPE" => &mut page.kinds,
                "HELP" => &mut page.help,
                other => panic!("{other}"),
            };
            assert_eq!(of.insert(name.to_owned(), text.to_owned()), None);
            continue;
        }
        let (name, labels, value) = sample(line);
        let kind = &*page.kinds[&family];
        let suffixes: &[&str] = match (kind, open) {
            ("counter", true) => &["_total"],
            ("counter" | "gauge", _) => &[""],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            other => panic!("{other:?}"),
        };
        let suffix = name.strip_prefix(&*family).unwrap_or_else(|| panic!("{name} in {family}"));
        assert!(suffixes.contains(&suffix), "{line}");
        assert_eq!(kind == "histogram" && suffix == "_bucket", labels.contains_key("le"));
        if kind == "counter" {
            assert!(value >= 0.0 && (open || name.ends_with("_total")), "{line}");
        }
        assert_eq!(page.samples.insert((name, labels), value), None, "twice: {line}");
    }
    page
}

fn name_is_fine(name: &str, colons: bool) {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || colons && c == ':';
    assert!(name.chars().all(fine) && !name.starts_with(|c: char| c.is_ascii_digit()), "{name:?}");
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    name_is_fine(name, true);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            name_is_fine(label, false);
            let mut text = String::new();
            let mut chars = value.char_indices();
            let at = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at + 1,
                    (_, '\\') => text.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        other => panic!("\\{other}"),
                    }),
                    (_, c) => text.push(c),
                }
            };
            assert_eq!(labels.insert(label.to_owned(), text), None, "{line}");
            rest = &value[at..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').unwrap();
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        other => other.parse().unwrap(),
    };
    (name.to_owned(), labels, value)
}

impl Page {
    /// Returns the value of the series with these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.samples.get(&(name.to_owned(), labels.collect())).copied()
    }
}
