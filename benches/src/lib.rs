//! Measures the speed of a ring between two processes, beside the least code that moves the same
//! bytes.
//!
//! Real processes on cores of their own: this one only starts them, keeps time and reports; they
//! are the same executable, started again for each sample. The reader verifies all bytes of every
//! record that is counted. The contestants take turns within each repetition. Each sample is kept
//! with the core distance before and after it: the virtual cores of one machine may drift apart
//! from one second to the next, and rates then fall several-fold. Ratios are therefore formed only
//! among samples of one distance.
//!
//! * `throughput`: drop mode, one producer, one reader, by payload. `floor` is two positions and
//!   raw pointers over the same layout, `memcpy` is one process copying the payload.
//! * `overwrite`: what a record costs the producer, in drop mode with a keen reader, in overwrite
//!   mode with no reader, and with an observer that follows.
//! * `latency`: half a round trip over two rings, beside that of a bare cache line.
//! * `many`: shared rings with many producer processes, alone and with a consumer, beside the ring
//!   of one producer and, where it may be used, the kernel's BPF ring buffer.
//!
//! `cargo bench` runs it, and so does `perfring bench`. The comparison with other libraries, a
//! package of its own, has the same harness and more contestants. A program that calls [`run`] must
//! pass [`CHILD_ARG`] to [`child`]:
//!
//! ```no_run
//! let args: Vec<String> = std::env::args().skip(1).collect();
//! if args.first().is_some_and(|arg| arg == perfring_bench::CHILD_ARG) {
//!     perfring_bench::child(&args[1..])?;
//! } else {
//!     let options = perfring_bench::Options::parse(args)?;
//!     perfring_bench::run(&options, &mut std::io::stdout(), &mut std::io::stderr())?;
//! }
//! # Ok::<(), perfring_bench::BenchError>(())
//! ```
#![deny(unsafe_code)]

pub mod audit;
#[allow(unsafe_code, reason = "the kernel's ring without a library: system calls and mappings")]
pub mod bpf;
pub mod case;
mod child;
pub mod conductor;
pub mod contest;
pub mod contestant;
pub mod cores;
pub mod drive;
pub mod duty;
pub mod error;
mod groups;
pub mod machine;
mod many;
mod measure;
mod options;
pub mod part;
pub mod payload;
pub mod player;
pub mod program;
#[allow(unsafe_code, reason = "the floor is raw pointers: that is what makes it the floor")]
pub mod raw;
mod report;
pub mod rows;
pub mod sample;
pub mod stage;
pub mod stats;
pub mod tables;
pub mod turns;
pub mod waits;
pub mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

pub use child::{Find, child as child_of};
pub use error::{BenchError, Result};
pub use options::{Options, Part, USAGE};
pub use part::CHILD_ARG;

/// Measures, and writes the report to `out`: a table, or one JSON object a line. Progress goes to
/// `log`.
///
/// # Errors
/// See [`BenchError`]. [`BenchError::Damaged`] comes after the whole report.
pub fn run(options: &Options, out: &mut dyn Write, log: &mut dyn Write) -> Result<()> {
    measure::run(options, out, log)
}

/// Runs the child's side: plays its parts in a sample.
///
/// # Errors
/// See [`BenchError`].
pub fn child(args: &[String]) -> Result<()> {
    child::child(args, |name| {
        groups::ENTRIES.into_iter().chain([many::crew::ENTRY]).find(|entry| entry.name == name)
    })
}

/// The complete `main` of the `ring` benchmark.
///
/// As with other harnesses, no `--bench` and no option at all means that `cargo test` has run it:
/// then it runs the short mode.
#[must_use]
pub fn main_from_args() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    exit_code(if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        child(&args[1..])
    } else if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        io::stdout().write_all(USAGE.as_bytes()).map_err(BenchError::from)
    } else {
        let parsed = if args.is_empty() { Ok(Options::short()) } else { Options::parse(args) };
        parsed.and_then(|options| run(&options, &mut io::stdout(), &mut io::stderr()))
    })
}

/// Writes the error, if there is one, to standard error. Returns the code of a program's end.
#[must_use]
pub fn exit_code(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the report has closed it.
        Err(BenchError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(BenchError::Interrupted) => ExitCode::from(130),
        Err(error) => {
            // Nothing can be reported if standard error is closed, too.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
