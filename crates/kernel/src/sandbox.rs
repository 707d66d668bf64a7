//! What forbids a system call beside the kernel's own rules.

use std::fs;

/// Returns what else may forbid a system call to this process, as the end of a sentence.
pub(crate) fn sandbox(call: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let filtered = status
        .lines()
        .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
    match filtered {
        true => format!(
            "; or a seccomp filter, which this process has, forbids the system call: start the \
             container with one that allows {call}"
        ),
        false => String::new(),
    }
}
