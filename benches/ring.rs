//! `cargo bench -p perfring-bench`, with options after `--`.

fn main() -> std::process::ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    // As with other harnesses, no `--bench` and no option at all means that `cargo test` has run it.
    if args.is_empty() {
        args.push("--short".to_owned());
    }
    perfring_bench::main_of(&perfring_bench::entrants::OURS, args)
}
