//! `perfring bench`.

use crate::failure::Failure;
use perfring_bench::entrants::OURS;
use perfring_bench::{BenchError, Options};
use perfring_export::Stream;
use std::io::LineWriter;
use std::path::Path;
use std::process::Command;

/// Measure this machine: rings between processes, beside a floor, memcpy and a cache line
///
/// Takes the same options as `cargo bench`, see below. Runs for some ten minutes; --short takes some seconds and only shows that the benchmark works.
///
/// --compare, in a source checkout, measures perfring beside other means of passing records; what
/// follows it is for that. `--compare --features all` adds the contestants whose build needs libclang.
///
/// Example: perfring bench --json
#[derive(Debug, clap::Args)]
#[command(after_help = perfring_bench::USAGE)]
pub(crate) struct Args {
    /// See below
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// The other process of a measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some((first, rest)) = args.options.split_first()
        && first == COMPARE
    {
        return compare(rest);
    }
    let options = Options::parse(args.options.clone()).map_err(failure)?;
    perfring_bench::run(
        &OURS,
        &options,
        &mut LineWriter::new(Stream::stdout()),
        &mut LineWriter::new(Stream::stderr()),
    )
    .map_err(failure)
}

const COMPARE: &str = "--compare";
/// The package of the comparison, which is not part of this build.
const MANIFEST: &str = "benches/compare/Cargo.toml";

/// Builds and runs the comparison with cargo, if this is a source checkout or within one.
fn compare(options: &[String]) -> Result<(), Failure> {
    let here = std::env::current_dir().map_err(Failure::general)?;
    let manifest = here.ancestors().map(|dir| dir.join(MANIFEST)).find(|path| path.is_file());
    let Some(manifest) = manifest else {
        return Err(Failure::Usage(format!(
            "--compare needs perfring's source, as it builds the contestants: in a checkout, `{}`",
            command(Path::new(MANIFEST))
        )));
    };
    // Cargo's own option comes first: contestants that need more than a compiler to build.
    let (features, options) = match options {
        [first, list, rest @ ..] if first == "--features" => (&options[..2], (list, rest).1),
        _ => (&options[..0], options),
    };
    let status = Command::new("cargo")
        .args(["run", "--release", "--manifest-path"])
        .arg(&manifest)
        .args(features)
        .arg("--")
        .args(options)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::General(format!("the comparison ended with {status}"))),
        Err(error) => Err(Failure::General(format!("cargo: {error}; `{}`", command(&manifest)))),
    }
}

fn command(manifest: &Path) -> String {
    format!("cargo run --release --manifest-path {}", manifest.display())
}

pub(crate) fn child(args: &ChildArgs) -> Result<(), Failure> {
    perfring_bench::child(&args.args, &OURS).map_err(failure)
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Io(error) => Failure::output(error),
        // Only the sentence: the options follow it.
        BenchError::Usage(why) => {
            let why = why.lines().next().unwrap_or_default();
            Failure::Usage(format!("{why}; see `perfring bench --help`"))
        }
        other => Failure::General(other.to_string()),
    }
}
