//! Passes the build settings to the program, as figures without them are worth little.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let get = |name: &str| env::var(name).unwrap_or_default();
    let rustc = Command::new(get("RUSTC"))
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    println!("cargo::rustc-env=BENCH_RUSTC={rustc}");
    println!("cargo::rustc-env=BENCH_OPT_LEVEL={}", get("OPT_LEVEL"));
    println!("cargo::rustc-env=BENCH_TARGET={}", get("TARGET"));
    let flags = get("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    println!("cargo::rustc-env=BENCH_RUSTFLAGS={flags}");
}
