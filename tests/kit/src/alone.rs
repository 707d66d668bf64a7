//! Runs one test alone in a new process: for a test that changes its whole process.

use std::ffi::OsStr;
use std::process::Command;

/// Starts this program again for one test, with a variable by which the test knows this. Returns once the test has
/// passed there.
///
/// # Panics
/// If the test failed, or the program lacks the test.
#[track_caller]
pub fn run_alone(test: &str, variable: &str, value: impl AsRef<OsStr>) {
    let mut child = Command::new(std::env::current_exe().expect("this program's path"));
    child.args(["--exact", test, "--nocapture"]).env(variable, value);
    let ended = child.output().expect("a process");
    let printed = [ended.stdout, ended.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    println!("{printed}");
    assert!(ended.status.success() && printed.contains(" 1 passed"), "{test}: {}", ended.status);
}
