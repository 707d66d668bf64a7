//! The tests named in proto/VERIFICATION.md exist.

use perfring_tests::workspace;
use std::collections::BTreeMap;
use std::fs;

/// In each cell of a table, a name in backticks after a file's path in backticks is a function of
/// that file, and each path is a file.
#[test]
fn every_test_in_the_document_exists() {
    let document = fs::read_to_string(workspace().join("proto/VERIFICATION.md")).unwrap();
    let (mut sources, mut named) = (BTreeMap::new(), 0);
    for line in document.lines() {
        let mut file: Option<String> = None;
        for (nth, word) in line.split('`').enumerate() {
            if nth % 2 == 0 {
                continue; // between two of them
            }
            if word.contains('/') {
                let path = word.split(' ').next().unwrap();
                let text = sources.entry(path.to_owned()).or_insert_with(|| {
                    let read = fs::read_to_string(workspace().join(path));
                    read.unwrap_or_else(|error| panic!("the document names {path}: {error}"))
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
    // Each letter has a row as well.
    let letters = document.lines().filter(|line| line.starts_with("| ")).collect::<String>();
    for letter in 'A'..='R' {
        let stands = |end: &str| letters.contains(&format!("{letter}{end}"));
        assert!(stands(" ") || stands(","), "there is no row for {letter}");
    }
    println!("{named} tests named, in {} files", sources.len());
    assert!(named > 40, "{named}: is the document parsed correctly?");
}
