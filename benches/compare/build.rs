//! Passes the commit from which the program is built. It is determined here and not at run time,
//! when another commit may be checked out.

use std::path::Path;
use std::process::Command;

/// The sources that go into the program, relative to this directory.
const SOURCES: [&str; 9] = [
    "build.rs",
    "src",
    "Cargo.toml",
    "Cargo.lock",
    "../src",
    "../build.rs",
    "../Cargo.toml",
    "../../crates",
    "../../Cargo.toml",
];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // Each commit and each checkout adds a line to the log, if there is one.
    for name in ["logs/HEAD", "HEAD"] {
        if let Some(file) = git(&["rev-parse", "--git-path", name])
            && Path::new(&file).exists()
        {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    println!("cargo::rustc-env=COMPARE_COMMIT={}", commit());
}

fn commit() -> String {
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let args = ["status", "--porcelain", "--"].into_iter().chain(SOURCES);
    match git(&args.collect::<Vec<_>>()) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}-dirty"),
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}
