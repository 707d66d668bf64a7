//! The directory of a set of rings per CPU: a file for each CPU that somebody has published on, all made
//! with the same options. Nothing else is in it: what is not yet made is made like what is.

use crate::reserve_error::ReserveError;
use perfring_abi::Producers;
use perfring_shm::{
    AttachError, ClockError, CreateError, NoRseq, OpenError, RingFile, RingOptions, cpu_of_ring,
    cpu_ring,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How many CPUs a machine can have.
pub(crate) const CPUS: usize = 8192;

/// Why a set of rings per CPU could not be made or attached to.
#[derive(Error)]
#[non_exhaustive]
pub enum CpuSetError {
    /// A ring could not be made or attached to.
    #[error(transparent)]
    Ring(#[from] OpenError),
    /// The directory has no ring per CPU.
    #[error("{} has no ring per CPU: make it by `perfring create --producers cpu`", .dir.display())]
    Empty {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has rings per CPU already.
    #[error("{} has rings per CPU already: attach to them, or remove them first", .dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// The system has no restartable sequences for this thread.
    #[error("no rings per CPU here: {source}; use a ring for one producer, or for many")]
    Rseq {
        /// What is missing.
        source: NoRseq,
    },
    /// There is no clock for timestamps.
    #[error("no rings per CPU here: {source}")]
    Clock {
        /// The clock's error.
        source: ClockError,
    },
    /// No machine has a CPU of this number.
    #[error("there is no CPU {cpu}: the highest is 8191")]
    Cpu {
        /// The number.
        cpu: u32,
    },
    /// A signal handler needs a ring that its process has not attached to, and has interrupted its thread while that
    /// attached to one.
    #[error(
        "the ring of CPU {cpu}: this signal handler has interrupted what attaches to rings; call attach_to for the \
         rings of all CPUs before there can be signals"
    )]
    Interrupted {
        /// The number of the CPU.
        cpu: u32,
    },
    /// A type could not be put into the table of a new ring, or nothing may be done with it: in a forked child.
    #[error("the ring of CPU {cpu}: {source}")]
    Types {
        /// The number of the CPU.
        cpu: u32,
        /// Why.
        source: ReserveError,
    },
    /// The system refused.
    #[error("cannot use the directory {}: {step}: {source}", .dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// The step that failed, such as "reading it".
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

perfring_abi::debug_by_display!(CpuSetError);

impl CpuSetError {
    /// Returns whether another producer has the lock of the ring that was to be attached to.
    pub(crate) fn is_held_up(&self) -> bool {
        matches!(self, CpuSetError::Ring(OpenError::Attach(AttachError::HeldUp { .. })))
    }
}

impl From<AttachError> for CpuSetError {
    fn from(error: AttachError) -> Self {
        CpuSetError::Ring(error.into())
    }
}

/// Returns the path of the ring of a CPU in its directory.
pub(crate) fn path(dir: &Path, cpu: u32) -> PathBuf {
    dir.join(cpu_ring(cpu))
}

/// Returns the options for each ring of a set.
pub(crate) fn wanted(options: &RingOptions) -> RingOptions {
    RingOptions { producers: Producers::Cpu, cpu: 0, ..*options }
}

/// Returns the CPUs and the paths of what has the name of a ring in a directory.
fn members(dir: &Path) -> Result<Vec<(u32, PathBuf)>, io::Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if let Some(cpu) = path.file_name().and_then(cpu_of_ring) {
            all.push((cpu, path));
        }
    }
    Ok(all)
}

/// Returns the options of the set in a directory, if there is one.
pub(crate) fn found(dir: &Path) -> Result<Option<RingOptions>, CpuSetError> {
    let members = match members(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        members => members.map_err(|source| CpuSetError::Io {
            dir: dir.to_owned(),
            step: "reading it",
            source,
        })?,
    };
    let mut refused = None;
    for (cpu, path) in members {
        match RingFile::inspect(&path) {
            Ok(ring) if ring.layout().producers == Producers::Cpu && ring.layout().cpu == cpu => {
                let (_, mode) = ring.owner()?;
                let options = RingOptions::like(ring.layout(), mode & 0o777);
                return Ok(Some(RingOptions { cpu: 0, ..options }));
            }
            Ok(_) => {}
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) => Err(error.into()),
        None => Ok(None),
    }
}

/// Refuses a directory, and a ring in it, that is not what these options accept.
pub(crate) fn expect(dir: &Path, options: &RingOptions) -> Result<(), CpuSetError> {
    options.expect_owner(&dir.into())?;
    // What cannot be read is found out where it is needed.
    for (cpu, path) in members(dir).unwrap_or_default() {
        let options = RingOptions { cpu, ..*options };
        options.expect_owner(&path.as_path().into())?;
        if let Ok(ring) = RingFile::inspect(&path) {
            options.agree_with(&ring)?;
        }
    }
    Ok(())
}

/// Creates the directory if there is none. The users that may read or write its rings may do the same with the directory.
/// Where all users may write, it is sticky: no user can remove or replace another user's ring.
pub(crate) fn make_dir(dir: &Path, options: &RingOptions) -> Result<(), CpuSetError> {
    let mode = options.mode;
    // A user that may read a ring may find it. A user that may write one may make the next.
    let search = (mode & 0o444) >> 2;
    let sticky = if mode & 0o002 != 0 { 0o1000 } else { 0 };
    match perfring_shm::create_dir(dir, 0o700 | mode | search | sticky) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            let error = CreateError::of_system(&dir.into(), "making the directory", error);
            Err(CpuSetError::Ring(error.into()))
        }
    }
}
