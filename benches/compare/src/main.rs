//! `perfring-compare`: see the library.

use perfring_bench::conductor::INTERRUPTED;
use perfring_bench::main_of;
use perfring_compare::entrants::ALL;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;

fn main() -> ExitCode {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, INTERRUPTED.clone()) {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    main_of(&ALL, std::env::args().skip(1).collect())
}
