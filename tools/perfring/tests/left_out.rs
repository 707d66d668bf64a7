//! What the default features leave out is refused in a sentence that says how to get it.
#![cfg(not(any(
    feature = "bench",
    feature = "nats",
    feature = "otlp",
    feature = "parquet",
    feature = "prometheus",
    feature = "top"
)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod command;

use command::{Place, run};

#[test]
fn what_this_build_lacks_says_how_to_get_it() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let out = place.path("out");
    let out = out.to_str().unwrap();
    let dir = place.path("").to_str().unwrap().to_owned();
    let asked: &[(&str, &str, &[&str])] = &[
        ("top", "full", &["top"]),
        ("top", "full", &["top", &dir, "--help"]),
        ("bench", "full,bench", &["bench", "--quick", "1"]),
        ("otlp", "full", &["export", &ring, "--to", "otlp", "-o", "http://127.0.0.1:9"]),
        ("nats", "full", &["export", &ring, "--to", "nats", "-o", "127.0.0.1:9"]),
        ("parquet", "full", &["export", &ring, "--to", "parquet", "-o", out]),
        ("otlp", "full", &["sidecar", &dir, "--output", "otlp:http://127.0.0.1:9"]),
        ("nats", "full", &["sidecar", &dir, "--output", "nats:127.0.0.1:9"]),
        ("prometheus", "full", &["sidecar", &dir, "--output", "prometheus:127.0.0.1:0"]),
        ("parquet", "full", &["sidecar", &dir, "--output", &format!("parquet:{out}")]),
    ];
    for (what, features, args) in asked {
        let done = run(args, b"");
        let said = format!(
            "this build has no {what}: `cargo install perfring-cli --features {features}`"
        );
        done.refuses(2, &said);
    }
    println!("{} refusals", asked.len());
}
