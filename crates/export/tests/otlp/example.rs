//! The example of a configuration has every key, and no other.

use perfring_export::otlp::Options;

const EXAMPLE: &str = include_str!("../../../../tools/sidecar.toml");
/// Keys of all outputs, which the sidecar takes out.
const COMMON: [&str; 6] = ["type", "name", "delivery", "types", "where", "min_severity"];

/// Returns the table of an output, as if nothing in it was commented out but sentences.
fn table(kind: &str) -> toml::Table {
    let begin = EXAMPLE.find("Remove the first `# `").unwrap();
    let end = EXAMPLE[begin..].find("\n# Records that outputs are not given").unwrap();
    let text: String =
        EXAMPLE[begin..begin + end].lines().skip(1).fold(String::new(), |all, line| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let is_key = bare
                .split_once(" = ")
                .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
            all + if is_key { bare } else { line } + "\n"
        });
    let all: toml::Table = toml::from_str(&text).unwrap_or_else(|bad| panic!("{bad}\n{text}"));
    let outputs = all["output"].as_array().unwrap();
    let mut table = outputs
        .iter()
        .map(|output| output.as_table().unwrap().clone())
        .find(|output| output["type"].as_str() == Some(kind))
        .unwrap();
    table.retain(|key, _| !COMMON.contains(&key));
    table
}

/// Counts the keys of options by the lines that `Debug` has for them.
fn count(options: &impl std::fmt::Debug) -> usize {
    let is_key = |line: &&str| line.starts_with("    ") && !line.starts_with("     ");
    format!("{options:#?}").lines().filter(is_key).filter(|line| line.contains(": ")).count()
}

#[test]
fn every_key_of_an_otlp_output_is_in_the_example_with_its_default() {
    let table = table("otlp");
    let options: Options = table.clone().try_into().unwrap();
    let default = Options::default();
    assert_eq!(options.mapping.batch_bytes, default.mapping.batch_bytes);
    assert_eq!(options.dead_letters_max_bytes, default.dead_letters_max_bytes);
    assert_eq!(
        (options.queue_bytes, options.mapping.held_bytes),
        (default.queue_bytes, default.mapping.held_bytes)
    );
    assert_eq!(options.mapping.signals, default.mapping.signals);
    // Three addresses are named in a sentence; `mapping` and `terms` are no keys.
    let keys = count(&default) - 2 + count(&default.mapping);
    assert_eq!(table.len() + 3, keys, "{table:?}");
}

#[cfg(feature = "nats")]
#[test]
fn the_keys_of_a_nats_output_in_the_example_are_right() {
    let table = table("nats");
    let options: perfring_export::nats::Options = table.try_into().unwrap();
    let default = perfring_export::nats::Options::default();
    assert_eq!((options.payload, options.window), (default.payload, default.window));
    assert_eq!(options.subject, default.subject);
    assert_eq!(options.logs_subject, default.logs_subject);
    assert_eq!(options.stream.duplicate_window, default.stream.duplicate_window);
}
