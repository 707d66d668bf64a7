//! `cargo bench -p perfring-bench`, with options after `--`.

fn main() -> std::process::ExitCode {
    perfring_bench::main_from_args()
}
