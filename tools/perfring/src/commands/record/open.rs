//! Opens the file that `perfring record` writes.

use crate::commands::rotation::RotationArgs;
use crate::events::told::Told;
use crate::failure::{Failure, note};
use crate::stop::Stop;
use perfring_export::recording::{Existing, Options, Recording};
use perfring_export::{Compression, Output, Rotation, Stream, registry, series};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The file that is written.
#[derive(Debug, clap::Args)]
pub(super) struct FileArgs {
    /// The file, or - for stdout
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Replace the file if it exists
    #[arg(long, conflicts_with = "append")]
    force: bool,
    /// Append to the file if it exists. A ring that the file has is recorded from the position that the file has reached, whatever
    /// --from says: what was overwritten since then is reported as lost
    #[arg(long)]
    pub(super) append: bool,
    /// Compress it with zstd: read such a recording with any command of a build that has zstd
    #[arg(long)]
    compress: bool,
    #[command(flatten)]
    pub(super) rotation: RotationArgs,
}

/// A recording that is continued.
pub(super) struct Appended {
    pub(super) recording: Box<dyn Output>,
    /// What it has.
    pub(super) told: Told,
    /// There was no file before.
    is_new: bool,
}

impl Appended {
    /// Opens the recording, which locks it against other writers, and then reads it.
    pub(super) fn open(args: &FileArgs, stop: &Stop) -> Result<Self, Failure> {
        let path = &args.output;
        if path.as_os_str() != "-" && path.exists() && !path.is_file() {
            let what = "is not a regular file, and --append continues a recording in one: name a file with -o";
            return Err(Failure::Usage(format!("{} {what}", path.display())));
        }
        let is_new = series(path).is_ok_and(|files| files.is_empty());
        let recording = open(args)?;
        let mut appended = Appended { recording, told: Told::default(), is_new };
        match Told::of(path, stop) {
            Ok(told) => appended.told = told,
            Err(failure) => return Err(appended.give_up(path, failure)),
        }
        Ok(appended)
    }

    /// Ends the file without records, or removes it if there was none before.
    pub(super) fn give_up(mut self, path: &Path, failure: Failure) -> Failure {
        // The command fails for another reason.
        let _ = match self.is_new {
            true => fs::remove_file(path).is_ok(),
            false => self.recording.close(Instant::now()).is_ok(),
        };
        failure
    }
}

/// Opens the recording.
pub(super) fn open(args: &FileArgs) -> Result<Box<dyn Output>, Failure> {
    let name = "the recording";
    let rotation = args.rotation.rotation();
    rotation.check().map_err(|why| Failure::Usage(format!("{name}: {why}")))?;
    let is_one = rotation == Rotation::default();
    if args.output.as_os_str() == "-" {
        let files_only = match (args.compress, is_one, args.append) {
            (true, ..) => "--compress is for files: name one with -o, or pipe it through zstd",
            (_, false, _) => "stdout is no file that another one can follow: name one with -o",
            (.., true) => {
                "--append is for files: stdout has nothing to append to. Name a file with -o"
            }
            _ => return Ok(Box::new(Recording::to(name, Stream::stdout())?)),
        };
        return Err(Failure::Usage(files_only.to_owned()));
    }
    let existing = match (args.force, args.append) {
        (true, _) => Existing::Replace,
        (_, true) => Existing::Append,
        _ => Existing::Refuse,
    };
    if existing == Existing::Refuse && args.output.is_file() {
        let path = args.output.display();
        let what = "already exists: choose another name, or add --force or --append";
        return Err(Failure::General(format!("{path} {what}")));
    }
    let compression = if args.compress { Compression::Zstd } else { Compression::None };
    let path = args.output.clone();
    let options = Options { path, existing, compression, ..Options::default() };
    // What is no file is one, or is refused.
    let recording: Box<dyn Output> = match is_one || args.output.exists() && !args.output.is_file()
    {
        true => Box::new(Recording::open(name, &options)?),
        false => registry::recordings(name, &options, &rotation)?,
    };
    if let Some(trouble) = recording.figures().trouble {
        note(&trouble);
    }
    Ok(recording)
}
