//! The bounds of buckets that measurements are sorted into.

use super::measure::{DEFAULT_BOUNDS, Instrument};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// What measurements become.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Histograms {
    /// Histograms with the bounds of [`Bounds`], which every reader understands.
    #[default]
    Explicit,
    /// Exponential histograms: see [`Exponential`](super::Exponential).
    Exponential,
}

/// The bounds between buckets, by an instrument's name or unit. A bucket includes its upper bound.
///
/// In a configuration a list is for all instruments, and a table adds to the default:
///
/// ```
/// use perfring_events::signal::{Bounds, Instrument};
/// let text = r#"
///     names = { "http.server.*" = [0.01, 0.1, 1] }   # the longest pattern counts
///     units = { "{page}" = [1, 10, 100] }
///     others = [1, 2, 4]
/// "#;
/// let bounds: Bounds = toml::from_str(text)?;
/// let of = |name, unit| bounds.of(&Instrument { name, unit, ..Instrument::default() });
/// assert_eq!(of("http.server.request.duration", "s"), [0.01, 0.1, 1.0]);
/// assert_eq!(of("book", "{page}"), [1.0, 10.0, 100.0]);
/// assert_eq!(of("wait", "s")[..2], [0.005, 0.01]); // by default, as OpenTelemetry advises for durations
/// assert_eq!(of("depth", ""), [1.0, 2.0, 4.0]);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// By name, in which `*` is any text; longer patterns first.
    names: Vec<(String, Vec<f64>)>,
    units: BTreeMap<String, Vec<f64>>,
    others: Vec<f64>,
}

/// Bounds for durations in seconds, of OpenTelemetry's conventions.
const SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// The same in smaller units, from a thousandth of the first on: what is measured in them is short.
const MILLISECONDS: [f64; 20] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0,
    1000.0, 2500.0, 5000.0, 10000.0,
];

impl Default for Bounds {
    fn default() -> Self {
        let milliseconds = |factor: f64| MILLISECONDS.map(|bound| bound * factor).to_vec();
        // 16 bytes to 1 GiB.
        let bytes = (2..=15).map(|power| 4f64.powi(power)).collect();
        let units = [
            ("s", SECONDS.to_vec()),
            ("ms", milliseconds(1.0)),
            ("us", milliseconds(1e3)),
            ("ns", milliseconds(1e6)),
            ("By", bytes),
        ];
        Bounds {
            names: Vec::new(),
            units: units.into_iter().map(|(unit, bounds)| (unit.to_owned(), bounds)).collect(),
            others: DEFAULT_BOUNDS.to_vec(),
        }
    }
}

impl Bounds {
    /// Creates bounds for all instruments.
    #[must_use]
    pub fn all(bounds: Vec<f64>) -> Self {
        Bounds { names: Vec::new(), units: BTreeMap::new(), others: bounds }
    }

    /// Returns the bounds for measurements of this instrument.
    #[must_use]
    pub fn of(&self, what: &Instrument<'_>) -> &[f64] {
        let named = self.names.iter().find(|(pattern, _)| fits(pattern, what.name));
        let by_unit = || self.units.get(what.unit);
        named.map(|(_, bounds)| bounds).or_else(by_unit).unwrap_or(&self.others)
    }

    /// Checks that all are finite and rise.
    ///
    /// # Errors
    /// A sentence that says which are not.
    pub fn check(&self) -> Result<(), String> {
        let named =
            self.names.iter().map(|(name, bounds)| (format!(" of the name {name:?}"), bounds));
        let units =
            self.units.iter().map(|(unit, bounds)| (format!(" of the unit {unit:?}"), bounds));
        for (of, bounds) in named.chain(units).chain([(String::new(), &self.others)]) {
            let rises = bounds.windows(2).all(|pair| pair[0] < pair[1]);
            if !rises || !bounds.iter().all(|bound| bound.is_finite()) {
                return Err(format!(
                    "the bounds{of} in `buckets` must be finite numbers that rise"
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether a name fits a pattern, in which each `*` is any text.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// The table of a configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    names: BTreeMap<String, Vec<f64>>,
    units: BTreeMap<String, Vec<f64>>,
    others: Vec<f64>,
}

impl Default for Table {
    fn default() -> Self {
        let (names, units) = Default::default();
        Table { names, units, others: DEFAULT_BOUNDS.to_vec() }
    }
}

impl<'de> Deserialize<'de> for Bounds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ListOrTable;
        impl<'de> Visitor<'de> for ListOrTable {
            type Value = Bounds;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a list of numbers, or a table with `names`, `units` and `others`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, all: A) -> Result<Bounds, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(all)).map(Bounds::all)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Bounds, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(table))?;
                let mut names: Vec<_> = table.names.into_iter().collect();
                names.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
                let mut units = Bounds::default().units;
                units.extend(table.units);
                Ok(Bounds { names, units, others: table.others })
            }
        }
        from.deserialize_any(ListOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name, wanted) in [
            ("http.*", "http.server", true),
            ("http.*", "http", false),
            ("http.*", "https", false),
            ("*", "", true),
            ("*.duration", "http.duration", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "ac", false),
            ("ab*b", "ab", false),
            ("a", "a", true),
            ("a", "ab", false),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn a_name_counts_before_a_unit_and_a_longer_pattern_before_a_shorter_one() {
        let text = "names = { \"http.*\" = [1], \"http.server.*\" = [2], \"*\" = [3] }";
        let bounds: Bounds = toml::from_str(text).unwrap();
        let of = |name| bounds.of(&Instrument { name, unit: "s", description: "" })[0];
        assert_eq!((of("http.client"), of("http.server.x"), of("x")), (1.0, 2.0, 3.0));
        bounds.check().unwrap();
    }

    #[test]
    fn wrong_bounds_are_refused_with_their_place() {
        let check = |text: &str| toml::from_str::<Bounds>(text).unwrap().check().unwrap_err();
        assert_eq!(
            check("units = { s = [1, 1] }"),
            "the bounds of the unit \"s\" in `buckets` must be finite numbers that rise"
        );
        assert!(check("names = { a = [nan] }").contains("of the name \"a\""));
        assert!(check("others = [2, 1]").starts_with("the bounds in `buckets`"));
        let unknown = toml::from_str::<Bounds>("unit = {}").unwrap_err().to_string();
        assert!(unknown.contains("expected one of `names`, `units`, `others`"), "{unknown}");
        #[derive(Deserialize, Debug)]
        struct Options {
            #[allow(dead_code)]
            buckets: Bounds,
        }
        let text = toml::from_str::<Options>("buckets = \"x\"").unwrap_err().to_string();
        assert!(text.contains("a list of numbers, or a table with"), "{text}");
        let list: Options = toml::from_str("buckets = [1, 2]").unwrap();
        assert_eq!(list.buckets, Bounds::all(vec![1.0, 2.0]));
        Bounds::default().check().unwrap();
    }
}
