//! The rules about code that belongs to a few places: unsafe code, output to a terminal, and the wording of errors.

use crate::rules::allowed;
use crate::rules::sources::{SOURCES, words};
use std::collections::BTreeMap;

/// Where unsafe code is, beside tests and measurements.
const UNSAFE: [&str; 3] =
    ["crates/shm/src/", "tools/python/src/memory", "crates/sidecar/src/config/input.rs"];

#[test]
fn unsafe_code_is_in_few_places() {
    let (mut found, mut places) = (Vec::new(), BTreeMap::new());
    for (path, source) in SOURCES.shipped(&["crates/", "tools/"]) {
        for at in words(&source.code, "unsafe") {
            match UNSAFE.iter().find(|place| path.starts_with(**place)) {
                Some(place) => *places.entry(place).or_insert(0) += 1,
                None => found.push(format!(
                    "{path}:{}: unsafe code is in {} only: write a safe function there, and call it",
                    source.line(at),
                    UNSAFE.join(", ")
                )),
            }
        }
    }
    println!("{places:?}");
    let gone = UNSAFE.iter().filter(|place| !places.contains_key(place));
    found.extend(gone.map(|place| allowed::mended("UNSAFE in tests/tests/rules/places.rs", place)));
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The most words of a heading.
const WORDS: usize = 6;

/// Returns whether a heading has the text after it on its line.
fn is_joined(heading: &str) -> bool {
    let text = heading.split_once(' ').filter(|(first, text)| {
        let is_whole = ["Errors", "Panics", "Safety", "Examples"].contains(first);
        is_whole && !text.starts_with(char::is_lowercase)
    });
    text.is_some() || heading.split(' ').count() > WORDS
}

/// A reflow of comments joins a heading with the text after it.
#[test]
fn a_heading_of_a_doc_comment_stands_alone() {
    assert!(is_joined("Errors See [`ReadError`]."), "a heading and a sentence");
    let (mut headings, mut found) = (0, Vec::new());
    for (path, source) in &SOURCES.rust {
        let mut is_example = false;
        for (nth, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let Some(text) = line.strip_prefix("///").or(line.strip_prefix("//!")) else {
                is_example = false;
                continue;
            };
            is_example ^= text.trim_start().starts_with("```");
            if let (Some(heading), false) = (text.strip_prefix(" # "), is_example) {
                headings += 1;
                if is_joined(heading) {
                    found.push(format!(
                        "{path}:{}: a heading has at most {WORDS} words, and `Errors` and the like one: begin a line after it",
                        nth + 1
                    ));
                }
            }
        }
    }
    println!("{headings} headings");
    assert!(headings > 400, "not all headings were found: {headings}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn libraries_print_nothing() {
    let (mut files, mut found) = (0, Vec::new());
    for (path, source) in SOURCES.shipped(&["crates/", "tools/python/src/"]) {
        if path.contains("/examples/") {
            continue;
        }
        files += 1;
        for name in ["print", "println", "eprint", "eprintln"] {
            for at in words(&source.code, name)
                .filter(|at| source.code[at + name.len()..].starts_with('!'))
            {
                found.push(format!(
                    "{path}:{}: a library prints nothing: return a value or an error, and print in tools/perfring",
                    source.line(at)
                ));
            }
        }
    }
    println!("{files} files");
    assert!(files > 200, "not all files were found: {files}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Std's own writers fail where the descriptor has `O_NONBLOCK`.
#[test]
fn standard_streams_have_one_writer() {
    let (mut asked, mut found) = (0, Vec::new());
    for (path, source) in SOURCES.shipped(&["crates/", "tools/perfring/src/"]) {
        if path.contains("/examples/") {
            continue;
        }
        for (at, stream) in ["io::stdout()", "io::stderr()", "println!", "eprintln!", "print!"]
            .iter()
            .flat_map(|stream| source.code.match_indices(stream))
        {
            let (before, after) = (&source.code[..at], &source.code[at + stream.len()..]);
            let asks = after.starts_with(".is_terminal()") || before.ends_with("terminal_size_of(");
            if asks || path == "crates/events/src/delivery/stream.rs" {
                asked += 1;
                continue;
            }
            if stream.ends_with('!') && before.ends_with(|before: char| before.is_alphanumeric()) {
                continue; // the end of another name
            }
            found.push(format!(
                "{path}:{}: write with perfring_events::Stream, which waits",
                source.line(at)
            ));
        }
    }
    assert!(asked > 4, "not all files were found: {asked}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn an_error_is_in_lower_case_and_has_no_full_stop() {
    let (mut errors, mut found) = (0, Vec::new());
    for (path, source) in SOURCES.shipped(&["crates/", "tools/"]) {
        for (at, _) in source.code.match_indices("#[error(") {
            let text = source.text[at + "#[error(".len()..].trim_start();
            let Some(text) = text.strip_prefix('"') else { continue };
            // The code has the same quotes, and nothing between them.
            let quote = source.text.len() - text.len();
            let Some(len) = source.code[quote..].find('"') else { continue };
            let text = &source.text[quote..quote + len];
            errors += 1;
            if text.starts_with(char::is_uppercase) || text.trim_end().ends_with('.') {
                found.push(format!(
                    "{path}:{}: an error begins in lower case and ends without a full stop: \"{text}\"",
                    source.line(at)
                ));
            }
        }
    }
    println!("{errors} errors");
    assert!(errors > 50, "not all errors were found: {errors}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Cargo builds no unit tests of a target with `test = false`: a test there would never run.
#[test]
fn a_target_that_cargo_does_not_test_has_no_tests() {
    let (mut targets, mut found) = (0, Vec::new());
    for (path, manifest) in &SOURCES.manifests {
        let package = path.trim_end_matches("Cargo.toml");
        for target in manifest.split("\n[").filter(|target| target.contains("\ntest = false")) {
            let value = |key: &str| {
                let line = target.lines().find_map(|line| line.strip_prefix(key))?;
                Some(line.trim_matches('"'))
            };
            let source = match value("path = ") {
                Some(file) => format!("{package}{file}"),
                None if target.starts_with("[bin]]") => {
                    format!("{package}src/bin/{}.rs", value("name = ").unwrap())
                }
                None => format!("{package}src/"),
            };
            targets += 1;
            let programs = [format!("{package}src/bin/"), format!("{package}src/main.rs")];
            for (file, code) in SOURCES.rust.iter().filter(|(file, _)| file.starts_with(&source)) {
                let other = source.ends_with('/')
                    && programs.iter().any(|program| file.starts_with(program.as_str()));
                if !other && code.bare.contains("#[test]") {
                    found.push(format!(
                        "{file} has tests, and {path} says `test = false`: remove that line"
                    ));
                }
            }
        }
    }
    println!("{targets} targets");
    assert!(targets > 20, "not all targets were found: {targets}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
