//! The rule about byte offsets: they are in `crates/abi`.

use crate::rules::allowed;
use crate::rules::sources::{SOURCES, Source, is_name};
use perfring_abi::FIELDS;
use std::collections::BTreeMap;

/// Offsets that are written elsewhere.
const ELSEWHERE: [(&str, &str); 2] = [
    (
        "benches/compare/src/contest/limits.rs 1032",
        "a bare loop's own page, which has perf's words",
    ),
    ("benches/src/raw.rs 1032", "the floor's own page, which has perf's words"),
];

/// Numbers below occur for other reasons, and so do powers of two.
const LEAST: usize = 1024;

/// A number is an offset if it is the offset of a field of the header page, or if an instruction in assembly adds it to a
/// register. `offset_of!` has the same value, in `asm!` as an operand `NAME = const offset_of!(Header, field)`.
#[test]
fn byte_offsets_are_written_in_crates_abi_only() {
    let (mut numbers, mut found) = (0, BTreeMap::new());
    let is_number = |number: usize| number >= LEAST && !number.is_power_of_two();
    let names: BTreeMap<usize, &str> = FIELDS
        .iter()
        .map(|field| (field.offset, field.name))
        .filter(|(at, _)| is_number(*at))
        .collect();
    for (path, source) in SOURCES.shipped(&["crates/", "tools/", "benches/"]) {
        if path.starts_with("crates/abi/") {
            continue;
        }
        let mut breaks = |at: usize, number: &str, what: &str| {
            let line = source.line(at);
            let sentence = format!(
                "{path}:{line}: {number} is {what}: write offset_of! instead, in asm! as an operand \
                 `NAME = const offset_of!(Header, field)`"
            );
            found.entry(format!("{path} {number}")).or_insert(sentence);
        };
        for (at, number, value) in numbers_in(&source.code) {
            numbers += 1;
            if let Some(name) = names.get(&value) {
                breaks(at, number, &format!("the offset of `{name}`"));
            }
        }
        for (at, number) in displacements(source) {
            breaks(at, number, "an offset in an instruction");
        }
    }
    println!("{numbers} numbers, {} offsets", names.len());
    assert!(numbers > 5_000 && names.len() > 50, "not all were found: {numbers}, {}", names.len());
    allowed::compare(
        "ELSEWHERE in tests/tests/rules/offsets.rs",
        &ELSEWHERE.map(|(name, _)| name),
        &found,
    );
}

/// Returns the decimal numbers of a text, without parts of names or of fractions.
fn numbers_in(text: &str) -> impl Iterator<Item = (usize, &str, usize)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += bytes[at..].iter().take_while(|byte| !is_name(**byte)).count();
            let start = at;
            at += bytes[at..].iter().take_while(|byte| is_name(**byte)).count();
            if start == at {
                return None;
            }
            let word = &text[start..at];
            let digits =
                word.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count();
            let suffix = matches!(&word[digits..], "" | "i64" | "u32" | "u64" | "usize");
            if let Some(Ok(value)) = suffix.then(|| word[..digits].replace('_', "").parse()) {
                return Some((start, word, value));
            }
        }
    })
}

/// Returns the numbers in a file's assembly that are offsets: those after a register in brackets, and all numbers that are
/// too large for a shift.
fn displacements(source: &Source) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    if !source.code.contains("asm!(") {
        return found;
    }
    let mut start = 0;
    for line in source.text.split_inclusive('\n') {
        if let (Some(open), Some(close)) = (line.find('"'), line.rfind('"'))
            && !line.trim_start().starts_with("//")
        {
            let text = &line[open..close];
            for (at, number, value) in numbers_in(text) {
                let before = text[..at]
                    .trim_end_matches('#')
                    .trim_end()
                    .trim_end_matches(['+', ','])
                    .trim_end();
                let base = before.rfind('[').is_some_and(|open| {
                    before[open..].starts_with("[{")
                        && before[open..].find('}') == Some(before.len() - open - 1)
                });
                let scale = text[at + number.len()..].starts_with('*');
                if base && !scale || value >= 64 {
                    found.push((start + open + at, number));
                }
            }
        }
        start += line.len();
    }
    found
}
