//! The files of a crate import downwards only: no two of them import each other, not even through
//! re-exports of a crate's root. The same holds for the folders of a crate, and for the packages.
//!
//! `PERFRING_GRAPH=1 cargo test -p perfring-tests --test between module_graph -- --nocapture` prints all
//! arrows between files.

use crate::rules::allowed;
use crate::rules::graph::{Arrows, Graph, cycles};
use crate::rules::sources::SOURCES;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The graphs of all crates, by their roots.
static GRAPHS: LazyLock<BTreeMap<&str, Graph>> = LazyLock::new(|| {
    let roots = SOURCES.rust.keys().map(String::as_str);
    let roots =
        roots.filter(|root| root.ends_with("/src/lib.rs") || root.ends_with("/src/main.rs"));
    let graphs: BTreeMap<_, _> = roots.map(|root| (root, Graph::of(root))).collect();
    assert!(graphs.len() > 10, "not all crates were found: {}", graphs.len());
    graphs
});

#[test]
fn the_files_of_a_crate_import_downwards_only() {
    let print = std::env::var_os("PERFRING_GRAPH").is_some();
    let (mut files, mut imports, mut found) = (0, 0, Vec::new());
    for (root, graph) in &*GRAPHS {
        let arrows = graph.arrows();
        files += arrows.len();
        imports += arrows.values().map(BTreeSet::len).sum::<usize>();
        if print {
            for (from, to) in &arrows {
                println!("{from} -> {}", to.iter().copied().collect::<Vec<_>>().join(" "));
            }
        }
        for cycle in cycles(&arrows) {
            found.push(format!(
                "{} files of {root} import each other: move what two of them need into a file below both{}",
                cycle.len(),
                inside(&arrows, &cycle),
            ));
        }
    }
    println!("{} crates, {files} files, {imports} imports", GRAPHS.len());
    assert!(files > 500 && imports > 1_500, "not all were found: {files}, {imports}");
    assert!(found.is_empty(), "{} cycles:\n{}", found.len(), found.join("\n"));
}

/// Returns a line for each arrow of a cycle.
fn inside(arrows: &Arrows<'_>, cycle: &BTreeSet<&str>) -> String {
    let lines = cycle.iter().map(|from| {
        let to: Vec<_> = arrows[from].intersection(cycle).copied().collect();
        format!("\n    {from} -> {}", to.join(" "))
    });
    lines.collect()
}

/// The files in a cycle today, by their folder.
const FOLDERS: [(&str, &str); 1] = [(
    "tools/python/src: batch memory pins record runs spaces",
    "`memory` has all unsafe code, and knows the classes whose buffers it exports",
)];

/// Each file and each folder of a folder is a node, with `x.rs` beside a folder `x` a part of it, and the nodes import each
/// other downwards only. A folder's own `mod.rs`, `lib.rs` or `main.rs` is above everything in the folder, and not compared
/// with it. Tests may import from anywhere.
#[test]
fn the_folders_of_a_crate_import_downwards_only() {
    let (mut folders, mut found) = (0, BTreeMap::new());
    for graph in GRAPHS.values() {
        let files = graph.shipped_arrows();
        let all: BTreeSet<&str> = files.keys().flat_map(|file| above(file)).collect();
        folders += all.len();
        for folder in all {
            let mut arrows: Arrows<'_> = BTreeMap::new();
            let mut because: BTreeMap<(&str, &str), String> = BTreeMap::new();
            for (from_file, to_files) in &files {
                let Some(from) = child(folder, from_file) else { continue };
                arrows.entry(from).or_default();
                for to_file in to_files {
                    if let Some(to) = child(folder, to_file).filter(|to| *to != from) {
                        arrows.entry(from).or_default().insert(to);
                        because.entry((from, to)).or_insert(format!("{from_file} -> {to_file}"));
                    }
                }
            }
            for cycle in cycles(&arrows) {
                let within =
                    |pair: &&(&str, &str)| cycle.contains(pair.0) && cycle.contains(pair.1);
                let lines: Vec<_> =
                    because.keys().filter(within).map(|pair| &because[pair]).collect();
                let names = cycle.iter().copied().collect::<Vec<_>>().join(" ");
                let lines: String = lines.iter().map(|line| format!("\n    {line}")).collect();
                let sentence = format!(
                    "{folder}: {names} import each other: move a file into one of the two, or below both{lines}"
                );
                found.insert(format!("{folder}: {names}"), sentence);
            }
        }
    }
    println!("{folders} folders");
    assert!(folders > 50, "not all folders were found: {folders}");
    allowed::compare(
        "FOLDERS in tests/tests/module_graph.rs",
        &FOLDERS.map(|(name, _)| name),
        &found,
    );
}

/// Returns all folders of a file, from its crate's `src` on.
fn above(file: &str) -> impl Iterator<Item = &str> {
    let src = file.find("/src/").map_or(0, |at| at + "/src".len());
    file.match_indices('/').map(|(at, _)| at).filter(move |at| *at >= src).map(|at| &file[..at])
}

/// Returns the node of a file among the files and folders of a folder: the file, or the folder that contains it.
fn child<'a>(folder: &str, file: &'a str) -> Option<&'a str> {
    let below = file.strip_prefix(folder)?.strip_prefix('/')?;
    let name = below.split('/').next().unwrap_or(below).trim_end_matches(".rs");
    (below.contains('/') || !matches!(name, "mod" | "lib" | "main")).then_some(name)
}

#[test]
fn a_name_is_not_imported_through_the_root_of_its_crate() {
    let mut found = Vec::new();
    for (root, graph) in &*GRAPHS {
        for (file, names) in graph.through_the_root() {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            found.push(format!(
                "{file} imports {names} through {root}: name the module that defines it"
            ));
        }
    }
    println!("{} crates", GRAPHS.len());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The packages in a cycle today.
const PACKAGES: [(&str, &str); 2] = [
    ("perfring-consumer perfring-producer", "each one's tests need the other"),
    (
        "perfring-derive perfring-testrig perfring-types",
        "tests of the derive need the traits, and random schemas",
    ),
];

/// Dependencies for tests count. A package that depends on itself sets a feature for its tests: no two packages
/// know each other by that.
#[test]
fn packages_depend_on_each_other_downwards_only() {
    let arrows: Arrows<'_> =
        SOURCES.manifests.values().filter_map(|manifest| dependencies(manifest)).collect();
    println!("{} packages", arrows.len());
    assert!(arrows.len() > 20, "not all packages were found: {}", arrows.len());
    let mut found = BTreeMap::new();
    for cycle in cycles(&arrows) {
        let names = cycle.iter().copied().collect::<Vec<_>>().join(" ");
        let sentence = format!(
            "{names} depend on each other: move the tests that need both into a package above them{}",
            inside(&arrows, &cycle)
        );
        found.insert(names, sentence);
    }
    allowed::compare(
        "PACKAGES in tests/tests/module_graph.rs",
        &PACKAGES.map(|(name, _)| name),
        &found,
    );
}

/// Returns a package's name, and the packages of this repository that it depends on.
fn dependencies(manifest: &str) -> Option<(&str, BTreeSet<&str>)> {
    let (mut section, mut package, mut names) = ("", None, BTreeSet::new());
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header;
        }
        let (key, value) =
            line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value));
        let key = key.split('.').next().unwrap_or(key);
        if section == "package" && key == "name" {
            package = Some(value.trim().trim_matches('"'));
        }
        if section.ends_with("dependencies") && section != "workspace.dependencies" {
            names.extend(Some(key).filter(|key| key.starts_with("perfring")));
        }
    }
    package.map(|package| (package, names))
}
