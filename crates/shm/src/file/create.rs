//! Creation of a ring.
//!
//! A ring is made as a file without a name, or beside its final name, and gets that by a hard link, or by a rename that replaces
//! nothing: no process sees a half-made one. Its space is allocated, so a full disk is an error here
//! and not a SIGBUS later, except on file systems that copy on write: see
//! [`FileSystem::warning`](crate::FileSystem::warning).

use crate::file::allocate::allocate;
use crate::file::create_error::CreateError;
use crate::file::denied::missing_target;
use crate::file::draft_name::{draft_name, hold, remove_dead_drafts};
use crate::file::location::{Location, dir_of};
use crate::file::segment;
use crate::file::trust::Trust;
use crate::sys::clock::{Clocks, MachineClock, boot_id, now_ns};
use crate::sys::host::page_size;
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use perfring_abi::{
    AUX_SIZE_MAX, AUX_SIZE_MIN, CONSUMERS_MAX, CPUS_MAX, DATA_SIZE_MAX, DATA_SIZE_MIN, Evict,
    HeaderPage, Layout, MAGIC, METRICS_SIZE_MAX, Policy, Producers, Report, SLOTS_DEFAULT,
    SLOTS_MAX, TYPES_FIRST, TYPES_SIZE_DEFAULT, TYPES_SIZE_MAX,
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, open, renameat_with};
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The shape of a new ring.
///
/// ```
/// use perfring_shm::RingOptions;
/// use perfring_abi::Policy;
/// let options = RingOptions { size: 64 << 20, policy: Policy::Overwrite, ..Default::default() };
/// assert_eq!(options.mode, 0o600);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Bytes of the data area: a power of two, at least a page. Default 1 MiB.
    pub size: u64,
    /// The action of a full ring. Default [`Policy::Drop`].
    pub policy: Policy,
    /// How an overwrite ring makes room. Default [`Evict::Exact`].
    pub evict: Evict,
    /// Where losses are reported. Default [`Report::InStream`].
    pub report: Report,
    /// Whether one producer at a time, or many. Default [`Producers::One`].
    pub producers: Producers,
    /// The number of the CPU whose producers the ring is for, with [`Producers::Cpu`]; else ignored.
    /// `CpuProducer` makes such rings. Default 0.
    pub cpu: u32,
    /// The most producers at a time, where they are many, and the most processes at a time in a ring per
    /// CPU: 1 to 4096. Default 64.
    pub slots: u32,
    /// Bytes of the type table, rounded up to whole pages: up to 16 MiB, or 0 for none. An entry
    /// takes some hundred bytes. Default 64 KiB.
    pub types_size: u64,
    /// Whether each record gets a timestamp, which readers get as its `time`. Default false.
    pub time: bool,
    /// Whether each record of a ring per CPU says which thread wrote it, which readers get as its `writer`: perf's
    /// `sample_id`. Needs `time`, and no AUX area; takes 8 bytes a record. Default false.
    pub sample_id: bool,
    /// Bytes of the AUX area: a power of two from 64 KiB on, or 0 for none. It holds payloads that
    /// are too long for the data area, up to its size. Default 0.
    pub aux_size: u64,
    /// Seats for named consumers of a drop ring of one or many producers: each reads every record, and a
    /// full ring waits for the slowest. Up to 32; 0 for one consumer. Default 0.
    pub consumers: u32,
    /// Bytes of the metrics area, rounded up to whole pages: up to 1 GiB, or 0 for none. A sum or a gauge takes 128 bytes in
    /// each process, a histogram with the usual buckets 5.1 KiB. Needs a type table, in which an instrument takes some hundred
    /// bytes. Default 0.
    pub metrics_size: u64,
    /// The file's mode bits, regardless of the umask. Default `0o600`; `0o640` lets a group observe. A directory of rings per
    /// CPU admits the same users, and is sticky if all may write: `0o1777` for `0o666`.
    /// A process that may read the file can also take a read lock on it, which prevents attaches
    /// ([`AttachError::ReadLocked`](crate::AttachError::ReadLocked)); `perfring doctor` names such a
    /// process.
    pub mode: u32,
    /// Whether `open_or_create` accepts an existing ring of any owner and any mode. Default false: the ring, and each symbolic
    /// link from its name to it, must belong to this process's user or to root, and its mode must give no other user more
    /// access than `mode` does. The directories on the way are the caller's choice. In `/tmp` and `/dev/shm`, any user can put a ring where this program is about to make one.
    pub any_owner: bool,
    /// Which of the processes that may write the file the producer trusts that is attached with these options: see [`Trust`].
    /// Default [`Trust::Auto`].
    pub trust: Trust,
}

impl Default for RingOptions {
    fn default() -> Self {
        RingOptions {
            size: 1 << 20,
            policy: Policy::Drop,
            evict: Evict::Exact,
            report: Report::InStream,
            producers: Producers::One,
            cpu: 0,
            slots: SLOTS_DEFAULT,
            time: false,
            sample_id: false,
            types_size: TYPES_SIZE_DEFAULT,
            aux_size: 0,
            consumers: 0,
            metrics_size: 0,
            mode: 0o600,
            any_owner: false,
            trust: Trust::Auto,
        }
    }
}

impl RingOptions {
    /// Returns the options of a ring for many producers at a time.
    #[must_use]
    pub fn many() -> Self {
        RingOptions { producers: Producers::Many, ..RingOptions::default() }
    }

    /// Returns the options with which each ring of a set of rings per CPU is made.
    #[must_use]
    pub fn per_cpu() -> Self {
        RingOptions { producers: Producers::Cpu, ..RingOptions::default() }
    }

    /// Returns the options with which a ring of this layout, and this mode, would be made.
    #[must_use]
    pub fn like(layout: &Layout, mode: u32) -> Self {
        RingOptions {
            size: layout.data_size,
            policy: layout.policy,
            evict: layout.evict,
            report: layout.report,
            producers: layout.producers,
            cpu: layout.cpu,
            slots: layout.slots,
            types_size: layout.types_size,
            time: layout.time,
            sample_id: layout.sample_id,
            aux_size: layout.aux_size,
            consumers: layout.consumers,
            metrics_size: layout.metrics_size,
            mode,
            any_owner: false,
            trust: Trust::Auto,
        }
    }

    pub(crate) fn check(&self) -> Result<(), CreateError> {
        let page_size = page_size();
        let (min, aux_min) = (DATA_SIZE_MIN.max(page_size), AUX_SIZE_MIN.max(page_size));
        let fits = |size: u64, min, max| size.is_power_of_two() && (min..=max).contains(&size);
        Err(if !fits(self.size, min, DATA_SIZE_MAX) {
            CreateError::Size { size: self.size, min }
        } else if self.mode & !0o777 != 0 {
            CreateError::Mode { mode: self.mode }
        } else if self.producers == Producers::Cpu && self.cpu >= CPUS_MAX {
            CreateError::Cpu { cpu: self.cpu }
        } else if !(1..=SLOTS_MAX).contains(&self.slots) {
            CreateError::Slots { slots: self.slots }
        } else if self.types_size > TYPES_SIZE_MAX {
            CreateError::Types { size: self.types_size }
        } else if self.aux_size != 0 && !fits(self.aux_size, aux_min, AUX_SIZE_MAX) {
            CreateError::Aux { size: self.aux_size, min: aux_min }
        } else if self.sample_id
            && (self.producers != Producers::Cpu || !self.time || self.aux_size != 0)
        {
            CreateError::SampleId
        } else if self.consumers > CONSUMERS_MAX
            || (self.consumers != 0
                && (self.policy != Policy::Drop
                    || self.producers == Producers::Cpu
                    || self.aux_size != 0))
        {
            CreateError::Consumers { consumers: self.consumers }
        } else if self.metrics_size > METRICS_SIZE_MAX
            || (self.metrics_size != 0 && self.types_size == 0)
        {
            CreateError::Metrics { size: self.metrics_size }
        } else {
            return Ok(());
        })
    }

    /// Returns the layout of a ring that this process makes now.
    fn layout(&self) -> io::Result<Layout> {
        let page_size = page_size();
        Ok(Layout {
            page_size: page_size as u32,
            data_size: self.size,
            policy: self.policy,
            evict: self.evict,
            report: self.report,
            producers: self.producers,
            cpu: if self.producers == Producers::Cpu { self.cpu } else { 0 },
            time: self.time,
            sample_id: self.sample_id,
            slots: if self.producers == Producers::One { 1 } else { self.slots },
            created_ns: now_ns(),
            creator_pid: std::process::id(),
            creator_uid: nix::unistd::Uid::current().as_raw(),
            uuid: draw_id(getrandom::fill)?,
            boot_id: boot_id(),
            types_size: self.types_size.next_multiple_of(page_size),
            aux_size: self.aux_size,
            consumers: self.consumers,
            metrics_size: self.metrics_size.next_multiple_of(page_size),
        })
    }
}

/// Makes a ring. No process is attached to it yet.
///
/// Its space is allocated. On a file system that copies on write (btrfs, zfs, bcachefs; xfs after a reflink
/// copy) that promises nothing for a full disk: [`FileSystem::of`](crate::FileSystem::of) says so.
///
/// # Errors
/// See [`CreateError`]; then no file is left behind.
pub fn create(location: impl Into<Location>, options: &RingOptions) -> Result<(), CreateError> {
    let location = location.into();
    options.check()?;
    if let Location::Segment(name) = &location {
        let name = || name.clone();
        if !is_segment_name(&name()) {
            return Err(CreateError::Name { name: name() });
        } else if !segment::CAN_BE_MADE {
            return Err(CreateError::NoSegments { name: name() });
        }
    }
    let layout = options.layout().map_err(failed(&location, "drawing its id"))?;
    let clock = options.time.then(MachineClock::find).transpose();
    let clock =
        clock.map_err(|source| CreateError::Clock { location: location.clone(), source })?;
    let path = location.path();
    if fs::symlink_metadata(&path).is_ok() {
        return Err(match missing_target(&path) {
            Some(leads_to) => CreateError::Link { location, leads_to },
            None => CreateError::Exists { location },
        });
    }
    let make = |draft: Draft<'_>| {
        draft.allocate(layout.file_size())?;
        draft.write(&layout, clock)?;
        draft.name(&path, options.mode)
    };
    match Draft::unnamed(&location, &path).map(make) {
        // The draft could not be linked, or this file system has no files without a name.
        Some(Err(CreateError::Io { step: NAMING, .. })) | None => {
            make(Draft::new(&location, &path, &layout)?)
        }
        Some(made) => made,
    }
}

/// The last step of a creation.
const NAMING: &str = "giving it its name";

fn failed(location: &Location, step: &'static str) -> impl FnOnce(io::Error) -> CreateError {
    let location = location.clone();
    move |source| CreateError::Io { location, step, source }
}

/// A ring in the making: a file without a name, or under a temporary name that is removed when this is dropped.
struct Draft<'a> {
    location: &'a Location,
    file: File,
    /// The path to link.
    path: PathBuf,
    named: bool,
}

impl<'a> Draft<'a> {
    /// Makes a file without a name, so that a process that dies leaves nothing. `None` if the system has no such files, or
    /// cannot link them: a file system without `O_TMPFILE`, or no `/proc`.
    fn unnamed(location: &'a Location, path: &Path) -> Option<Self> {
        let Location::File(_) = location else { return None };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = open(dir_of(path), flags, Mode::RUSR | Mode::WUSR).ok()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        path.exists().then(|| Draft { location, file: fd.into(), path, named: false })
    }

    fn new(location: &'a Location, path: &Path, layout: &Layout) -> Result<Self, CreateError> {
        let draft_name = draft_name(layout.uuid);
        let draft_path = path.with_file_name(&draft_name);
        remove_dead_drafts(dir_of(path));
        if let Location::Segment(_) = location {
            segment::make(&draft_name, layout.page_size as usize).map_err(|source| {
                CreateError::of_system(location, "creating the segment", source)
            })?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(matches!(location, Location::File(_)))
            .mode(0o600)
            .open(&draft_path)
            .map_err(|source| CreateError::of_system(location, "creating its file", source))?;
        hold(&file);
        Ok(Draft { location, file, path: draft_path, named: true })
    }

    fn allocate(&self, size: u64) -> Result<(), CreateError> {
        let location = || self.location.clone();
        // Beyond the limit the kernel sends SIGXFSZ, which ends the process.
        if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|limit| *limit < size) {
            return Err(CreateError::FileSizeLimit { location: location(), needed: size, limit });
        }
        let made = allocate(size, |at, len| posix_fallocate(&self.file, at as i64, len as i64));
        made.map_err(|errno| match errno {
            Errno::ENOSPC | Errno::EDQUOT => {
                CreateError::NoSpace { location: location(), needed: size }
            }
            Errno::EFBIG => {
                let why = format!("this file system has no files of {size} bytes: make a smaller ring, or choose another");
                failed(self.location, "allocating its space")(io::Error::new(io::ErrorKind::FileTooLarge, why))
            }
            errno => failed(self.location, "allocating its space")(errno.into()),
        })
    }

    /// Writes everything except zeros, the magic last.
    fn write(&self, layout: &Layout, clock: Option<MachineClock>) -> Result<(), CreateError> {
        if layout.types_size > 0 {
            self.file
                .write_all_at(&TYPES_FIRST.to_ne_bytes(), layout.areas().types.start)
                .map_err(failed(self.location, "writing its type table"))?;
        }
        let mut page = layout.to_page();
        if let Some(clock) = clock {
            let reading = clock.reading();
            page.set_first_anchor(reading.boot, reading.anchor(0).to_words());
        }
        let header = |page: &HeaderPage| {
            let written = self.file.write_all_at(page.as_bytes(), 0);
            written.map_err(failed(self.location, "writing its header"))
        };
        header(&page)?;
        page.set_magic(MAGIC);
        header(&page)
    }

    /// Sets its mode and gives it its name.
    fn name(self, path: &Path, mode: u32) -> Result<(), CreateError> {
        self.file
            .set_permissions(Permissions::from_mode(mode))
            .map_err(failed(self.location, "setting its mode"))?;
        // No lock is on a file that has its name: on some file systems such a lock conflicts with a ring's.
        let _ = self.file.unlock();
        // The path of a file without a name is a link to it.
        let link =
            |from: &Path, to: &Path| Ok(linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?);
        name_anew(&self.path, path, link, rename_to_free_name).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CreateError::Exists { location: self.location.clone() },
            _ => failed(self.location, NAMING)(error),
        })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove. A draft that could not be removed soon counts as a dead draft.
        if self.named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives the draft a free name: by a hard link (the draft's own name is removed when it is
/// dropped), or by a rename that never replaces. A plain rename would replace the ring of a process
/// that was quicker.
fn name_anew(
    draft: &Path,
    path: &Path,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
    rename: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    match link(draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    rename(draft, path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            let why = "this file system has neither hard links nor a rename that never replaces";
            io::Error::new(io::ErrorKind::Unsupported, format!("{why} ({error}): choose another"))
        }
        _ => error,
    })
}

fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Returns whether it is one component of a path, not too long for a temporary suffix.
fn is_segment_name(name: &str) -> bool {
    (1..=200).contains(&name.len()) && !name.contains(['/', '\0']) && !matches!(name, "." | "..")
}

/// Returns a random id. (The `uuid` crate would panic where there are no random bytes.)
fn draw_id(fill: impl FnOnce(&mut [u8]) -> Result<(), getrandom::Error>) -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fill(&mut bytes).map_err(|error| {
        let why = "the system gives no random bytes: allow getrandom(2), or have a /dev/urandom";
        io::Error::other(format!("{why} ({error})"))
    })?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().into_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "create_tests.rs"]
mod tests;
