//! The verification book names tests; they must be there.
#![allow(clippy::unwrap_used, clippy::panic)]

use perfring_tests::workspace;
use std::collections::BTreeMap;
use std::fs;

/// In each cell of a table, a name in backticks that stands after the path of a file in backticks is a
/// function of that file, and a path is a file.
#[test]
fn every_test_of_the_book_exists() {
    let totals = fs::read_to_string(workspace().join("proto/VERIFICATION.md")).unwrap();
    let (mut sources, mut named) = (BTreeMap::new(), 0);
    for line in totals.lines() {
        let mut file: Option<String> = None;
        for (nth, word) in line.split('`').enumerate() {
            if nth % 2 == 0 {
                continue; // between two of them
            }
            if word.contains('/') {
                let path = word.split(' ').next().unwrap();
                let text = sources.entry(path.to_owned()).or_insert_with(|| {
                    let read = fs::read_to_string(workspace().join(path));
                    read.unwrap_or_else(|error| panic!("the book names {path}: {error}"))
                });
                file = path.ends_with(".rs").then(|| text.clone());
            } else if let Some(text) = &file
                && word.matches('_').count() >= 2
            {
                assert!(text.contains(&format!("fn {word}(")), "there is no test {word}: {line}");
                named += 1;
            }
        }
    }
    // Of each letter too.
    let letters = totals.lines().filter(|line| line.starts_with("| ")).collect::<String>();
    for letter in 'A'..='R' {
        let stands = |end: &str| letters.contains(&format!("{letter}{end}"));
        assert!(stands(" ") || stands(","), "nothing is said of {letter}");
    }
    println!("{named} tests named, in {} files", sources.len());
    assert!(named > 40, "{named}: is the book read as it is written?");
}
