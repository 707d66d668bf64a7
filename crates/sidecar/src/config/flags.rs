//! Outputs on the command line.

use super::kinds::OutputConfig;
use super::table::{ConfigError, Table};
use std::collections::HashSet;

/// What stands behind the colon.
const FIRST: &[(&str, &str)] = &[
    ("json", "path"),
    ("otlp", "endpoint"),
    ("nats", "servers"),
    ("prometheus", "listen"),
    ("recording", "path"),
    ("perfetto", "path"),
    ("ctf", "path"),
    ("perf-data", "path"),
    ("parquet", "path"),
];

pub(super) fn output(flag: &str, taken: &HashSet<String>) -> Result<OutputConfig, ConfigError> {
    let name = format!("--output {flag}");
    let (kind, value) = match flag.split_once(':') {
        Some((kind, value)) => (kind, Some(value)),
        None => (flag, None),
    };
    let mut pairs = vec![("type", kind)];
    if let Some(value) = value {
        match FIRST.iter().find(|(known, _)| *known == kind) {
            Some((_, key)) => pairs.push((key, value)),
            None if kind == "null" => {
                return Err(ConfigError(format!("{name}: null has no options")));
            }
            None => {}
        }
    }
    OutputConfig::read(Table::of(&name, &pairs), taken)
}
