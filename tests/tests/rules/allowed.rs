//! The lists of code that breaks a rule. They may only shrink.

use std::collections::BTreeMap;

/// Fails unless the code that breaks a rule equals the list. `found` has a sentence for each name.
///
/// # Panics
/// With a line for each name in one of the two that is not in the other.
pub(crate) fn compare(list: &str, allowed: &[&str], found: &BTreeMap<String, String>) {
    let new = found.iter().filter(|(name, _)| !allowed.contains(&name.as_str()));
    let gone = allowed.iter().filter(|entry| !found.contains_key(**entry));
    let mut lines: Vec<String> = new.map(|(_, sentence)| sentence.clone()).collect();
    lines.extend(gone.map(|entry| mended(list, entry)));
    println!("{} found, {} of them in {list}", found.len(), allowed.len());
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

/// Returns the line for an entry that is to be removed.
pub(crate) fn mended(list: &str, entry: &str) -> String {
    format!("{entry} breaks this rule no longer: remove it from {list}")
}
