//! What the compiler refuses, and that the message says what to change.
//!
//! Around our message stands rustc's own text, which changes with it: what is compared is that of
//! one version. Another one writes it anew with `TRYBUILD=overwrite`.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::Command;

const RUSTC: &str = "rustc 1.95.";

#[test]
fn a_struct_that_cannot_be_a_record_is_refused_in_words() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(RUSTC) && std::env::var_os("TRYBUILD").is_none() {
        // Past the harness's capture: a skip is never silent.
        let why = format!("the compile-fail texts are those of {RUSTC}x, this is {version}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {}", why.trim());
        return;
    }
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/refused/*.rs");
}
