//! The rule about names: in the crates around the ring, each type has its own name.

use crate::rules::sources::SOURCES;
use std::collections::BTreeMap;

/// The crates whose types stand side by side in the ring's code. `perfring-tokio` repeats names of the consumer on
/// purpose: its types are the same handles, for a runtime.
const AROUND_THE_RING: [&str; 7] = [
    "crates/abi/src/",
    "crates/consumer/src/",
    "crates/producer/src/",
    "crates/ring/src/",
    "crates/set/src/",
    "crates/shm/src/",
    "crates/types/src/",
];

/// Returns the name that a line of code declares a type by.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split(|letter: char| letter.is_whitespace() || "<({;:=".contains(letter));
    let mut word = words.by_ref().find(|word| !word.is_empty())?;
    // `pub(crate)` has been cut at its bracket.
    while matches!(word, "pub" | "crate)" | "super)" | "unsafe") {
        word = words.by_ref().find(|word| !word.is_empty())?;
    }
    let indented = line.starts_with(' ');
    // An indented `type` is a trait's.
    let declares =
        matches!(word, "struct" | "enum" | "trait" | "union") || word == "type" && !indented;
    if declares { words.find(|word| !word.is_empty()) } else { None }
}

#[test]
fn no_two_types_around_the_ring_have_one_name() {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, source) in SOURCES.shipped(&AROUND_THE_RING) {
        for name in source.code.lines().filter_map(declared) {
            let files = files.entry(name).or_default();
            // Twice in one file are two versions of one type, for two configurations.
            if files.last() != Some(&path) {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 300, "not all types were found: {}", files.len());
    let twice = files.iter().filter(|(_, files)| files.len() > 1);
    let found: Vec<_> = twice
        .map(|(name, files)| format!("{name} is a type in {}", files.join(" and in ")))
        .collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_type_is_found_by_what_declares_it() {
    let names =
        ["pub(crate) struct A<'a>(u8);", "    enum B {", "pub unsafe trait C: D {", "type E = F;"];
    assert_eq!(names.map(declared), [Some("A"), Some("B"), Some("C"), Some("E")]);
    let none = ["    type F;", "let struct_a = 1;", "pub(super) fn trait_of() {}", ""];
    assert_eq!(none.map(declared), [None; 4]);
}
