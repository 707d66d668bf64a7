//! Tests what the compiler rejects, and that the message says what to change.
//!
//! Rustc's own text around our messages changes with its version: the comparison is with one
//! version. `TRYBUILD=overwrite` writes the texts of another one.

use std::io::Write as _;
use std::process::Command;

const RUSTC: &str = "rustc 1.95.";

#[test]
fn a_struct_that_cannot_be_a_record_is_refused_with_a_message() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(RUSTC) && std::env::var_os("TRYBUILD").is_none() {
        // Written past the harness's capture: a skip is never silent.
        let why = format!("the compile-fail texts are those of {RUSTC}x, this is {version}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {}", why.trim());
        return;
    }
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/refused/*.rs");
}
