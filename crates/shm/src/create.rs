//! Making and removing a ring.
//!
//! A ring is made beside its final name and renamed into place, so nobody ever sees half of one;
//! its space is really allocated, so that a full disk is an error here and not a SIGBUS later.

use crate::clock::Clock;
use crate::file::{Access, host_page_size};
use crate::{AttachError, CreateError, Home, Idle, MachineClock, RingFile, idle};
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use perfring_abi::{
    AUX_SIZE_MAX, AUX_SIZE_MIN, DATA_SIZE_MAX, DATA_SIZE_MIN, Evict, Layout, MAGIC, Policy,
    Producers, SLOTS_DEFAULT, SLOTS_MAX, TYPES_FIRST, TYPES_SIZE_DEFAULT, TYPES_SIZE_MAX, Tell,
};
use shared_memory::{ShmemConf, ShmemError};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// What a full ring does. Default [`Policy::Drop`].
    pub policy: Policy,
    /// How an overwrite ring makes room. Default [`Evict::Exact`].
    pub evict: Evict,
    /// Where losses are told. Default [`Tell::InStream`].
    pub tell: Tell,
    /// Whether one producer at a time, or many. Default [`Producers::One`].
    pub producers: Producers,
    /// The most producers at a time, where they are many: 1 to 4096. Default 64.
    pub slots: u32,
    /// Bytes of the type table, taken up to whole pages: up to 16 MiB, or 0 for none. An entry takes
    /// some hundred bytes. Default 64 KiB.
    pub types_size: u64,
    /// Whether each record is stamped with the time: see [`Record::time`](crate::Record::time).
    /// Default no.
    pub time: bool,
    /// Bytes of the AUX area: a power of two from 64 KiB on, or 0 for none. Payloads that are too
    /// long for the data area stand there, up to its size. Default 0.
    pub aux_size: u64,
    /// The file's mode bits, whatever the umask. Default `0o600`; `0o640` lets a group observe.
    pub mode: u32,
}

impl Default for RingOptions {
    fn default() -> Self {
        RingOptions {
            size: 1 << 20,
            policy: Policy::Drop,
            evict: Evict::Exact,
            tell: Tell::InStream,
            producers: Producers::One,
            slots: SLOTS_DEFAULT,
            time: false,
            types_size: TYPES_SIZE_DEFAULT,
            aux_size: 0,
            mode: 0o600,
        }
    }
}

impl RingOptions {
    /// A ring for many producers at a time.
    #[must_use]
    pub fn many() -> Self {
        RingOptions { producers: Producers::Many, ..RingOptions::default() }
    }
}

/// Makes a ring. Nobody is attached to it yet.
///
/// # Errors
/// See [`CreateError`]; nothing is left behind then.
pub fn create(home: impl Into<Home>, options: &RingOptions) -> Result<(), CreateError> {
    let home = home.into();
    let page_size = host_page_size();
    let min = DATA_SIZE_MIN.max(page_size);
    if !options.size.is_power_of_two() || !(min..=DATA_SIZE_MAX).contains(&options.size) {
        return Err(CreateError::Size { size: options.size, min });
    }
    if options.mode & !0o777 != 0 {
        return Err(CreateError::Mode { mode: options.mode });
    }
    if !(1..=SLOTS_MAX).contains(&options.slots) {
        return Err(CreateError::Slots { slots: options.slots });
    }
    if options.types_size > TYPES_SIZE_MAX {
        return Err(CreateError::Types { size: options.types_size });
    }
    let aux_min = AUX_SIZE_MIN.max(page_size);
    if options.aux_size != 0
        && !(options.aux_size.is_power_of_two()
            && (aux_min..=AUX_SIZE_MAX).contains(&options.aux_size))
    {
        return Err(CreateError::Aux { size: options.aux_size, min: aux_min });
    }
    if let Home::Segment(name) = &home
        && !home.is_valid()
    {
        return Err(CreateError::Name { name: name.clone() });
    }
    let layout = Layout {
        page_size: page_size as u32,
        data_size: options.size,
        policy: options.policy,
        evict: options.evict,
        tell: options.tell,
        producers: options.producers,
        time: options.time,
        slots: if options.producers == Producers::One { 1 } else { options.slots },
        created_ns: now_ns(),
        creator_pid: std::process::id(),
        creator_uid: nix::unistd::Uid::current().as_raw(),
        uuid: draw_id(getrandom::fill).map_err(|source| CreateError::Io {
            home: home.clone(),
            step: "drawing its id",
            source,
        })?,
        boot_id: boot_id(),
        types_size: options.types_size.next_multiple_of(page_size),
        aux_size: options.aux_size,
    };
    let clock = match options.time {
        true => Some(MachineClock::find()),
        false => None,
    };
    let clock =
        clock.transpose().map_err(|source| CreateError::Clock { home: home.clone(), source })?;
    let path = home.path();
    if fs::symlink_metadata(&path).is_ok() {
        return Err(CreateError::Exists { home });
    }
    let draft = Draft::new(&home, &path, &layout)?;
    let failed = |step| {
        let home = home.clone();
        move |source| CreateError::Io { home, step, source }
    };
    match posix_fallocate(&draft.file, 0, layout.file_size() as i64) {
        Ok(()) => {}
        Err(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => {
            return Err(CreateError::NoSpace { home, needed: layout.file_size() });
        }
        Err(errno) => return Err(failed("allocating its space")(errno.into())),
    }
    if layout.types_size > 0 {
        draft
            .file
            .write_all_at(&TYPES_FIRST.to_ne_bytes(), layout.types_offset())
            .map_err(failed("writing its type table"))?;
    }
    let mut page = layout.to_page();
    if let Some(clock) = clock {
        let reading = Clock::new(clock).read();
        page.set_first_anchor(reading.boot, reading.anchor(0).to_words());
    }
    draft.file.write_all_at(page.as_bytes(), 0).map_err(failed("writing its header"))?;
    page.set_magic(MAGIC);
    draft.file.write_all_at(page.as_bytes(), 0).map_err(failed("writing its header"))?;
    draft
        .file
        .set_permissions(Permissions::from_mode(options.mode))
        .map_err(failed("setting its mode"))?;
    // A hard link is the rename that never replaces; the draft's own name goes when it is dropped.
    match fs::hard_link(&draft.path, &path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(CreateError::Exists { home })
        }
        // A file system without hard links: the name was free a moment ago.
        Err(_) => fs::rename(&draft.path, &path).map_err(failed("giving it its name")),
    }
}

/// Removes a ring's name. Processes that are attached keep their mapping; one that attaches at this
/// moment is found attached, or finds the ring removed: nobody publishes into a ring without a name
/// that it had when it attached, unless `removal` is [`Removal::Always`].
///
/// # Errors
/// [`AttachError::Busy`] if a producer or consumer is attached and `removal` is not
/// [`Removal::Always`]; otherwise as for attaching. A file that is no ring is not removed.
pub fn remove(home: impl Into<Home>, removal: Removal) -> Result<(), AttachError> {
    let home = home.into();
    if removal == Removal::Always {
        RingFile::open(home.clone(), Access::Read)?;
        return idle::unlink(&home);
    }
    match Idle::hold(&home) {
        Ok(idle) => idle.remove(),
        // Who may remove a file need not be one who may write it, and cannot lock it then.
        Err(AttachError::Permission { .. }) => {
            let ring = RingFile::open(home.clone(), Access::Read)?;
            if ring.is_in_use()? { Err(idle::busy(&ring)?) } else { idle::unlink(&home) }
        }
        Err(error) => Err(error),
    }
}

/// Whether a ring in use may be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    /// Only if nobody is attached as producer or consumer.
    #[default]
    IfFree,
    /// In any case.
    Always,
}

/// A ring in the making, under a name of its own that goes when this is dropped.
struct Draft {
    file: File,
    path: PathBuf,
}

impl Draft {
    fn new(home: &Home, path: &Path, layout: &Layout) -> Result<Self, CreateError> {
        let failed = |step: &'static str, source: io::Error| CreateError::Io {
            home: home.clone(),
            step,
            source,
        };
        let uuid = uuid::Uuid::from_bytes(layout.uuid).simple();
        let draft_name = format!(".perfring-{uuid}.tmp");
        let draft_path = path.with_file_name(&draft_name);
        if let Home::Segment(_) = home {
            // One page, to have the name; the space is allocated below, where a full tmpfs is told.
            match ShmemConf::new().os_id(&draft_name).size(layout.page_size as usize).create() {
                // The crate would unlink by name when dropped; the draft does that itself.
                Ok(mut segment) => segment.set_owner(false),
                Err(ShmemError::MapCreateFailed(errno) | ShmemError::UnknownOsError(errno)) => {
                    let source = io::Error::from_raw_os_error(errno as i32);
                    return Err(failed("creating the segment", source));
                }
                Err(other) => return Err(failed("creating the segment", io::Error::other(other))),
            };
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(matches!(home, Home::File(_)))
            .mode(0o600)
            .open(&draft_path)
            .map_err(|source| failed("creating its file", source))?;
        Ok(Draft { file, path: draft_path })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; other failures leave a draft that says so by
        // its name.
        let _ = fs::remove_file(&self.path);
    }
}

/// A random id. (The `uuid` crate would panic where there are no random bytes.)
fn draw_id(fill: impl FnOnce(&mut [u8]) -> Result<(), getrandom::Error>) -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fill(&mut bytes).map_err(|error| {
        let why = "the system gives no random bytes: allow getrandom(2), or have a /dev/urandom";
        io::Error::other(format!("{why} ({error})"))
    })?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().into_bytes())
}

/// `CLOCK_REALTIME` in ns.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The kernel's id of this boot, zeros where it does not tell.
pub(crate) fn boot_id() -> [u8; 16] {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| uuid::Uuid::try_parse(text.trim()).ok())
        .map_or([0; 16], |id| *id.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::draw_id;

    #[test]
    fn no_random_bytes_are_an_error_in_words() {
        let refused = draw_id(|_| Err(getrandom::Error::UNEXPECTED)).unwrap_err().to_string();
        assert!(refused.contains("allow getrandom(2), or have a /dev/urandom ("), "{refused}");
        let ids: [_; 2] = std::array::from_fn(|_| draw_id(getrandom::fill).unwrap());
        assert_ne!(ids[0], ids[1]);
        // Version 4, of random bytes.
        assert_eq!((ids[0][6] >> 4, ids[0][8] >> 6), (4, 2));
    }
}
