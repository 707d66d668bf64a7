//! Measures perfring between processes, beside the least code that moves the same bytes.
//!
//! Real processes on cores of their own: this one only starts them, keeps time and reports; they
//! are the same executable, started again for each sample. The reader verifies all bytes of every
//! record that is counted. The contestants take turns within each repetition. Each sample is kept
//! with the core distance before and after it: the virtual cores of one machine may drift apart
//! from one second to the next, and rates then fall several-fold. Ratios are therefore formed only
//! among samples of one distance.
//!
//! [`Workload`](workload::Workload) has the comparisons, [`entrants`] the contestants; `compare/ROWS.md` describes the report.
//!
//! `cargo bench` runs it, and so does `perfring bench`. The comparison with other libraries, a
//! package of its own, has the same harness and more contestants. A program that calls [`run`] must
//! pass [`CHILD_ARG`] to [`child`]:
//!
//! ```no_run
//! use perfring_bench::entrants::OURS;
//!
//! let args: Vec<String> = std::env::args().skip(1).collect();
//! if args.first().is_some_and(|arg| arg == perfring_bench::CHILD_ARG) {
//!     perfring_bench::child(&args[1..], &OURS)?;
//! } else {
//!     let options = perfring_bench::Options::parse(args)?;
//!     perfring_bench::run(&OURS, &options, &mut std::io::stdout(), &mut std::io::stderr())?;
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
pub mod entrants;
pub mod error;
pub mod kinds;
pub mod machine;
mod options;
pub mod part;
pub mod payload;
pub mod player;
pub mod program;
#[allow(unsafe_code, reason = "the floor is raw pointers: that is what makes it the floor")]
pub mod raw;
pub mod rows;
mod run;
pub mod sample;
pub mod scale;
pub mod stage;
pub mod stats;
mod summary;
mod table;
pub mod turns;
pub mod waits;
pub mod workload;

use entrants::Entrants;
use rows::Row;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

pub use child::child;
pub use error::{BenchError, Result};
pub use options::{Options, USAGE};
pub use part::CHILD_ARG;
pub use run::run as measure;
pub use summary::faults;

/// Measures, and writes the report to `out`: tables, or one JSON object a line. Progress goes to
/// `log`.
///
/// # Errors
/// See [`BenchError`]. [`BenchError::Faults`] comes after the whole report.
pub fn run(
    entrants: &Entrants,
    options: &Options,
    out: &mut dyn Write,
    log: &mut dyn Write,
) -> Result<()> {
    if options.list {
        return run::list(entrants, options, out);
    }
    let stdout = options.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let mut file = match &options.json {
        Some(path) if !stdout => Some(BufWriter::new(File::create(path)?)),
        _ => None,
    };
    let mut rows = Vec::new();
    let mut each = |row: &Row| -> Result<()> {
        rows.push(row.clone());
        let json: &mut dyn Write = match &mut file {
            Some(file) => file,
            None if stdout => out,
            None => return Ok(()),
        };
        let mut line = serde_json::to_vec(row)?;
        line.push(b'\n');
        json.write_all(&line)?;
        // For readers that follow the file, and for an interrupted run.
        Ok(json.flush()?)
    };
    let measured = measure(entrants, options, &mut each, log);
    // Also of a run that has failed after samples were taken: its error comes first.
    let is_sample = |row: &Row| matches!(row, Row::Sample(_));
    let written = match !stdout && (measured.is_ok() || rows.iter().any(is_sample)) {
        true => table::write(&rows, out).and_then(|()| Ok(out.flush()?)),
        false => Ok(()),
    };
    measured?;
    written?;
    let faults = faults(&rows);
    if faults.is_empty() { Ok(()) } else { Err(BenchError::Faults(faults.join("\n"))) }
}

/// The complete `main` of a program with these contestants.
#[must_use]
pub fn main_of(entrants: &Entrants, args: Vec<String>) -> ExitCode {
    exit_code(if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        child(&args[1..], entrants)
    } else if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        io::stdout().write_all(USAGE.as_bytes()).map_err(BenchError::from)
    } else {
        let run = |options| run(entrants, &options, &mut io::stdout(), &mut io::stderr());
        Options::parse(args).and_then(run)
    })
}

/// Writes the error, if there is one, to standard error. Returns the code of a program's end.
fn exit_code(result: Result<()>) -> ExitCode {
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
