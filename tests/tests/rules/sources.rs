//! The sources of the workspace and of the packages beside it, read once.

use perfring_tests::workspace;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// A Rust file.
pub(crate) struct Source {
    pub(crate) text: String,
    /// The text without comments, and without the content of strings and characters. Spaces replace them, so that a
    /// byte has the same position.
    pub(crate) bare: String,
    /// The same without `#[cfg(test)]` modules.
    pub(crate) code: String,
}

/// The Rust files and the `Cargo.toml` files, by their paths from the workspace's folder on.
pub(crate) struct Sources {
    pub(crate) rust: BTreeMap<String, Source>,
    pub(crate) manifests: BTreeMap<String, String>,
}

/// All of them.
pub(crate) static SOURCES: LazyLock<Sources> = LazyLock::new(|| {
    let mut sources = Sources { rust: BTreeMap::new(), manifests: BTreeMap::new() };
    sources.read(&workspace(), "");
    let found = (sources.rust.len(), sources.manifests.len());
    assert!(found.0 > 500 && found.1 > 20, "not all files were found: {found:?}");
    sources
});

impl Sources {
    fn read(&mut self, folder: &Path, path: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
            let Some(name) = name.to_str() else { continue };
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            if entry.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    self.read(&entry, &path);
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&entry).unwrap();
                let bare = bare(&text);
                let code = without_tests(&bare);
                self.rust.insert(path, Source { text, bare, code });
            } else if name == "Cargo.toml" {
                self.manifests.insert(path, std::fs::read_to_string(&entry).unwrap());
            }
        }
    }

    /// Returns the Rust files below some folders that are no tests.
    pub(crate) fn shipped(&self, folders: &[&str]) -> impl Iterator<Item = (&str, &Source)> {
        let files = self.rust.iter().map(|(path, source)| (path.as_str(), source));
        files.filter(move |(path, _)| {
            folders.iter().any(|folder| path.starts_with(folder)) && !is_test(path)
        })
    }
}

/// Returns whether a file is a test: it is in a folder `tests`, or has the unit tests of another file.
pub(crate) fn is_test(path: &str) -> bool {
    path.split('/').any(|folder| folder == "tests") || path.ends_with("_tests.rs")
}

impl Source {
    /// Returns the number of the line at a byte, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.text[..at].matches('\n').count()
    }
}

/// Returns where a word is in a text, not as a part of a longer one.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |byte: Option<&u8>| byte.is_some_and(|byte| is_name(*byte));
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = text.as_bytes();
        !part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !part(bytes.get(at + word.len()))
    })
}

/// Returns whether a byte may be in a name.
pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn bare(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        // The range to blank, and the position to continue from.
        let (blank, next) = match rest {
            [b'/', b'/', ..] => {
                let end = at + find(rest, b"\n").unwrap_or(rest.len());
                (at..end, end)
            }
            [b'/', b'*', ..] => {
                let end = at + comment_len(rest);
                (at..end, end)
            }
            [b'"', ..] => {
                let end = at + string_len(rest);
                (at + 1..end - 1, end)
            }
            [b'\'', ..] => {
                let end = at + character_len(&text[at..]);
                (at + 1..end.max(at + 2) - 1, end)
            }
            [first, ..] if is_name(*first) => {
                let name = rest.iter().take_while(|byte| is_name(**byte)).count();
                let hashes = rest[name..].iter().take_while(|byte| **byte == b'#').count();
                let quote = name + hashes;
                let raw = matches!(&rest[..name], b"r" | b"br" | b"cr");
                if raw && rest.get(quote) == Some(&b'"') {
                    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
                    let inside = find(&rest[quote + 1..], &close).unwrap_or(0);
                    let start = at + quote + 1;
                    (start..start + inside, start + inside + close.len())
                } else {
                    (at..at, at + name)
                }
            }
            _ => (at..at, at + 1),
        };
        blank_out(&mut code[blank]);
        at = next;
    }
    String::from_utf8(code).unwrap()
}

fn blank_out(code: &mut [u8]) {
    code.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Returns the length of a comment, which may contain others.
fn comment_len(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Returns the length of a character with its quotes, or 1 if it is a lifetime.
fn character_len(text: &str) -> usize {
    let mut characters = text[1..].chars();
    match (characters.next(), characters.next()) {
        (Some('\\'), Some(escaped)) => {
            let after = 2 + escaped.len_utf8();
            after + 1 + find(&text.as_bytes()[after..], b"'").unwrap_or(0)
        }
        (Some(character), Some('\'')) => character.len_utf8() + 2,
        _ => 1,
    }
}

/// Blanks out the modules with `#[cfg(test)]`, or with `test` among other conditions.
fn without_tests(bare: &str) -> String {
    let mut code = bare.as_bytes().to_vec();
    let mut at = 0;
    while let Some(found) = bare[at..].find("#[cfg(") {
        let start = at + found;
        let Some(end) = bare[start..].find(")]") else { break };
        let condition = &bare[start..start + end];
        at = start + end + 2;
        let is_test = words(condition, "test")
            .any(|at| !["not(", "any("].iter().any(|other| condition[..at].ends_with(other)));
        let mut lines = bare[at..].lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with("#[")).unwrap_or("");
        if is_test && first.contains("mod ") && first.ends_with('{') {
            let open = at + bare[at..].find('{').unwrap_or(0);
            at = open + block_len(&bare.as_bytes()[open..]);
            blank_out(&mut code[start..at]);
        }
    }
    String::from_utf8(code).unwrap()
}

fn block_len(text: &[u8]) -> usize {
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn comments_strings_and_tests_are_blank_and_nothing_else() {
    let text = r##"let a = "b // \" c"; // d
'e: /* f /* g */ h */ 'i' '\'' r#"j"k"# l::<'m>(b"n");
#[cfg(all(test, not(miri)))]
mod tests {
    fn o() { { p } }
}
fn q() {}
"##;
    let code = without_tests(&bare(text));
    assert_eq!(code.len(), text.len());
    assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), {
        r##"let a = " "; 'e: ' ' ' ' r#" "# l::<'m>(b" "); fn q() {}"##
    });
}
