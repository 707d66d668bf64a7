//! The rules about orderings of memory: the crates that order accesses, and the letters.

use crate::rules::allowed;
use crate::rules::sources::{SOURCES, Source, is_name, words};
use std::collections::BTreeMap;

const ORDERS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// The calls that access an atomic, with an ordering.
const CALLS: [&str; 13] = [
    "load",
    "store",
    "swap",
    "compare_exchange",
    "compare_exchange_weak",
    "fetch_add",
    "fetch_and",
    "fetch_max",
    "fetch_min",
    "fetch_nand",
    "fetch_or",
    "fetch_sub",
    "fetch_update",
];

/// Names of atomics that their files do not declare, by file, and the meaning of each. The first three are words of rings.
const ELSEWHERE: [(&str, &str); 18] = [
    ("crates/shm/src/map/cpu_window.rs newest_timestamp", "a word of the ring"),
    ("crates/shm/src/map/inspect.rs stuck_pos", "a word of the ring"),
    ("crates/shm/src/map/inspect.rs stuck_since_ns", "a word of the ring"),
    ("crates/producer/src/threads_clock.rs word", "a word of `copies`"),
    ("crates/shm/src/map/cpu_window.rs bytes", "a word of `uncounted`"),
    ("crates/shm/src/map/cpu_window.rs count", "a word of `uncounted`"),
    ("crates/shm/src/map/cpu_window.rs records", "a word of `uncounted`"),
    ("crates/shm/src/sys/ofd_lock.rs word", "a word of `held`"),
    ("crates/shm/src/sys/process_context.rs address", "a word of OpenTelemetry's page"),
    ("crates/shm/src/sys/process_context.rs length", "a word of OpenTelemetry's page"),
    ("crates/shm/src/sys/process_context.rs signature", "a word of OpenTelemetry's page"),
    ("crates/shm/src/sys/process_context.rs time", "a word of OpenTelemetry's page"),
    ("crates/shm/src/sys/process_context.rs version", "a word of OpenTelemetry's page"),
    (
        "crates/shm/src/sys/thread_context.rs ?",
        "a pointer in another library's thread-local storage",
    ),
    ("crates/tracing/src/spans.rs entry", "takes a span, and orders nothing"),
    ("crates/tracing/src/spans.rs word", "a word of `trace`"),
    ("tools/perfring/src/any_producer.rs counter", "one of two fields"),
    ("tools/python/src/log/signals.rs SPANS", "of `record.rs` in the same folder"),
];

/// Outside `crates/ring`, an atomic is ordered in the file that declares it. A word of a ring is declared in
/// `crates/abi`, which orders none, so `crates/ring` alone may order it. `benches` can reach no word of a ring of ours.
#[test]
fn words_of_a_ring_are_ordered_in_crates_ring_only() {
    let (mut sites, mut found) = (0, BTreeMap::new());
    for (path, source) in SOURCES.shipped(&["crates/", "tools/"]) {
        if path.starts_with("crates/ring/") || path.starts_with("crates/abi/") || !orders(source) {
            continue;
        }
        for (at, name) in accesses(&source.code) {
            sites += 1;
            let statement = source.code[..at].rsplit([';', '{', '}']).next().unwrap_or("");
            if statement.contains("header()") || !declares(&source.code, &name) {
                let sentence = format!(
                    "{path}:{}: `{name}` is ordered here, and this file does not declare it as an atomic. A word of a \
                     ring is ordered in crates/ring: call a function there. An atomic of this process is ordered in its \
                     own file, or is named in ELSEWHERE in tests/tests/rules/orderings.rs",
                    source.line(at)
                );
                found.entry(format!("{path} {name}")).or_insert(sentence);
            }
        }
    }
    println!("{sites} sites");
    assert!(sites > 100, "not all sites were found: {sites}");
    allowed::compare(
        "ELSEWHERE in tests/tests/rules/orderings.rs",
        &ELSEWHERE.map(|(name, _)| name),
        &found,
    );
}

fn orders(source: &Source) -> bool {
    ORDERS.iter().any(|order| source.code.contains(&format!("Ordering::{order}")))
}

/// Returns where atomics are accessed, and the last name of each before the call: `c` of `a.b().c[d].load(e)`.
fn accesses(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for call in CALLS {
        for at in words(code, call) {
            let before = code[..at].trim_end();
            let arguments = code[at + call.len()..].strip_prefix('(').unwrap_or(")").trim_start();
            if let Some(receiver) = before.strip_suffix('.')
                && !arguments.starts_with(')')
            {
                found.push((at, last_name(receiver)));
            }
        }
    }
    found
}

fn last_name(receiver: &str) -> String {
    let mut rest = receiver.trim_end();
    while rest.ends_with([')', ']']) {
        let mut depth = 0;
        let open = rest.rfind(|character| {
            match character {
                ')' | ']' => depth += 1,
                '(' | '[' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        rest = rest[..open.unwrap_or(0)].trim_end();
    }
    let name = rest.bytes().rev().take_while(|byte| is_name(*byte)).count();
    let name = &rest[rest.len() - name..];
    if name.is_empty() { "?".to_owned() } else { name.to_owned() }
}

/// Returns whether a file declares an atomic of a name: a field, a static, or a variable. A reference is no declaration,
/// because it may lead anywhere.
fn declares(code: &str, name: &str) -> bool {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        // A field of a tuple.
        return code.match_indices("struct ").any(|(at, _)| {
            let item = code[at..].split([';', '{']).next().unwrap_or("");
            item.contains('(') && item.contains("Atomic")
        });
    }
    words(code, name).any(|at| {
        let rest = code[at + name.len()..].trim_start();
        let typed = rest.strip_prefix(':').filter(|rest| !rest.starts_with(':'));
        let made = rest.strip_prefix('=').filter(|_| code[..at].trim_end().ends_with("let"));
        typed.or(made).is_some_and(|rest| {
            let end = rest.find([',', ';', '{', '}', '&', '=']).unwrap_or(rest.len());
            rest[..end].contains("Atomic")
        })
    })
}

/// Sites without a letter, by file.
const WITHOUT: [(&str, usize); 8] = [
    ("crates/ring/src/consumer/passed.rs", 3),
    ("crates/ring/src/consumer/release.rs", 1),
    ("crates/ring/src/producer/ranges.rs", 2),
    ("crates/ring/src/shared/cpu.rs", 6),
    ("crates/ring/src/shared/owner.rs", 1),
    ("crates/ring/src/time.rs", 1),
    ("crates/ring/src/view.rs", 1),
    ("crates/ring/src/wait.rs", 15),
];

/// The lines above a site that its comment may be in.
const NEAR: usize = 4;

/// A letter begins a comment on the line of a site, or near it, or stands in it as `(A)` or `A, pairs with B`.
#[test]
fn an_ordering_other_than_relaxed_carries_its_letter() {
    let list = "WITHOUT in tests/tests/rules/orderings.rs";
    let table = &SOURCES.rust["crates/ring/src/lib.rs"].text;
    let row = |letter: u8| table.contains(&format!("//! | {} |", char::from(letter)));
    let letters: Vec<u8> = (b'A'..=b'Z').filter(|letter| row(*letter)).collect();
    let (mut sites, mut found) = (0, Vec::new());
    let mut without: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (path, source) in SOURCES.shipped(&["crates/ring/src/"]) {
        let text: Vec<&str> = source.text.lines().collect();
        for (line, code) in source.code.lines().enumerate() {
            if ORDERS[1..].iter().any(|order| code.contains(&format!("Ordering::{order}"))) {
                sites += 1;
                let near = &text[line.saturating_sub(NEAR)..text.len().min(line + 2)];
                if !near.iter().any(|line| has_letter(line, &letters)) {
                    without.entry(path).or_default().push(line + 1);
                }
            }
        }
    }
    let may =
        |path: &str| WITHOUT.iter().find(|(entry, _)| *entry == path).map_or(0, |entry| entry.1);
    for (path, lines) in &without {
        let (most, number) = (may(path), lines.len());
        if number > most {
            found.push(format!(
                "{path}: {number} orderings have no letter of the table in crates/ring/src/lib.rs, and {list} has {most}. \
                 Give the new one its letter. Without are those in lines {lines:?}"
            ));
        } else if number < most {
            found.push(format!("{path}: {number} orderings have no letter, and {list} has {most}: write {number} there"));
        }
    }
    let mended = WITHOUT.iter().filter(|(path, _)| !without.contains_key(path));
    found.extend(mended.map(|(path, _)| allowed::mended(list, path)));
    println!("{sites} sites, {} letters", letters.len());
    assert!(sites > 100 && letters.len() > 15, "not all were found: {sites}, {}", letters.len());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

fn has_letter(line: &str, letters: &[u8]) -> bool {
    let Some((_, comment)) = line.split_once("//") else { return false };
    let comment = comment.trim_start_matches(['/', '!']).trim();
    let is = |letter: Option<&u8>| letter.is_some_and(|letter| letters.contains(letter));
    let bytes = comment.as_bytes();
    let first = is(bytes.first()) && matches!(bytes.get(1), None | Some(b',' | b';' | b':'));
    let word =
        |end: &str| comment.match_indices(end).any(|(at, _)| is(bytes.get(at.wrapping_sub(1))));
    first || word(")") || word(", pairs with ") || word(" publishes it")
}
