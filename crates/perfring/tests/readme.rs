//! README is short, its first program is the one that runs as the crate's first example, and versions are those asked for.

const README: &str = include_str!("../../../README.md");
const CRATE: &str = include_str!("../src/lib.rs");

/// The lines of the first block of Rust that a reader sees.
fn first_program<'a>(lines: impl Iterator<Item = &'a str>, fences: &[&str]) -> Vec<&'a str> {
    let inside = lines.skip_while(|line| !fences.contains(line)).skip(1);
    inside.take_while(|line| *line != "```").filter(|line| !line.starts_with("# ")).collect()
}

#[test]
fn the_first_program_of_readme_is_the_one_that_runs_as_the_first_example() {
    let readme = first_program(README.lines(), &["```rust,ignore", "```rust"]);
    let docs = CRATE.lines().filter_map(|line| line.strip_prefix("//!"));
    let example = first_program(docs.map(|line| line.strip_prefix(' ').unwrap_or(line)), &["```"]);
    assert_eq!(readme, example);
    assert_eq!(readme.len(), 11, "{readme:?}");
}

#[test]
fn readme_has_at_most_160_lines() {
    let lines = README.lines().count();
    assert!(lines <= 160, "{lines}");
    println!("{lines} lines");
}

#[test]
fn links_of_readme_lead_to_files() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = 0;
    for (at, _) in README.match_indices("](") {
        let link = README[at + 2..].split(')').next().unwrap();
        if let Some(title) = link.strip_prefix('#') {
            let title = title.replace('-', " ");
            let found = README.lines().any(|line| line.to_lowercase() == format!("## {title}"));
            assert!(found, "no section {title}");
        } else if !link.starts_with("http") {
            let file = link.split('#').next().unwrap();
            assert!(root.join(file).exists(), "no file {file}");
        }
        checked += 1;
    }
    assert!(checked > 10, "{checked}");
    println!("{checked} links");
}

#[test]
fn the_page_of_what_is_supported_names_the_versions_that_are_asked_for() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = include_str!("../src/guide/support.md");
    let row = |name: &str| page.lines().find(|line| line.starts_with(&format!("| {name} |")));
    let wanted = |file: &str, key: &str| {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_matches(['"', '>', '=', ' ']).to_owned()
    };
    let rust = wanted("Cargo.toml", "rust-version = ");
    assert!(row("Rust").unwrap().starts_with(&format!("| Rust | {rust} |")), "{rust}");
    let python = wanted("tools/python/pyproject.toml", "requires-python = ");
    assert!(
        row("Python").unwrap().starts_with(&format!("| Python | CPython {python}, ")),
        "{python}"
    );
}

#[test]
fn the_page_of_record_types_asks_for_the_rkyv_that_is_built_with() {
    let page = include_str!("../src/guide/record_types.md");
    let workspace = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"),
    );
    let workspace = workspace.unwrap();
    let built = workspace.lines().find_map(|line| line.strip_prefix("rkyv = { version = \""));
    let asked = page.lines().find_map(|line| line.strip_prefix("rkyv = \"")).unwrap();
    let asked = asked.trim_end_matches('"');
    assert!(built.unwrap().starts_with(&format!("{asked}.")), "{asked} {built:?}");
}
