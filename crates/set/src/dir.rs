//! A directory of rings, in which each producer has one.

use perfring_consumer::{AttachError, create_dir, files::RingFile};
use perfring_producer::{
    Options, Policy, Producer, Producers, SharedProducer, error::CreateError, files::create,
};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// The longest name of a ring, in bytes: this leaves room for suffixes.
const NAME_MAX: usize = 200;
/// Rings of one name with different options, side by side: see [`RingSet::producer`].
const BESIDE_MAX: u32 = 9;
/// Attempts at a ring that others create and remove meanwhile.
const TRIES: u32 = 100;

/// The creation of a directory of rings, its permitted owners, and the options of its rings.
///
/// ```
/// use perfring_set::{SetOptions, Access};
/// // One directory for containers of different users, on a memory-backed volume: every user with
/// // access may add rings, and the sticky bit keeps them from removing the rings of other users.
/// let mut shared = SetOptions { mode: 0o1777, access: Access::Shared, ..SetOptions::default() };
/// shared.ring.mode = 0o666; // a sidecar of another user reads and releases
/// assert!(SetOptions::default().ring.time);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOptions {
    /// Mode bits of a directory that is created, regardless of the umask. Default `0o700`.
    pub mode: u32,
    /// The users that may write to the directory. Default [`Access::Private`].
    pub access: Access,
    /// The options of rings that are created. Default: [`Options::default`] with timestamps, which a
    /// merge needs. Set `ring.time` to false for a set whose rings have none.
    pub ring: Options,
}

impl Default for SetOptions {
    fn default() -> Self {
        let ring = Options { time: true, policy: Policy::Drop, ..Options::default() };
        SetOptions { mode: 0o700, access: Access::Private, ring }
    }
}

/// The users that may write to the directory of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Only this user, or root. A producer continues only rings that this user owns.
    #[default]
    Private,
    /// Any users: not checked. Every user who may write to the directory can remove or replace rings.
    Shared,
}

perfring_producer::debug_by_display!(SetError);

/// Why a set's directory, or a ring in it, cannot be used.
#[derive(Error)]
#[non_exhaustive]
pub enum SetError {
    /// A system call on the directory failed.
    #[error("cannot use the ring directory {}: {step}: {source}", .dir.display())]
    Dir {
        /// The directory.
        dir: PathBuf,
        /// The step that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not a directory.
    #[error("{} is not a directory: give the rings one of their own", .dir.display())]
    NoDirectory {
        /// The path.
        dir: PathBuf,
    },
    /// Another user owns the directory, or a ring in it.
    #[error(
        "{} belongs to uid {owner}, and this process is uid {me}: use one of your own, or say that \
         this one is shared (Access::Shared)", .path.display()
    )]
    Foreign {
        /// The directory or the ring.
        path: PathBuf,
        /// The owner's uid.
        owner: u32,
        /// This process's uid.
        me: u32,
    },
    /// Others may write to the directory.
    #[error(
        "others may write to the ring directory {} (mode {mode:#o}), and could put rings of their \
         own there: chmod it to 0700, or say that it is shared (Access::Shared)", .dir.display()
    )]
    Open {
        /// The directory.
        dir: PathBuf,
        /// Its mode bits.
        mode: u32,
    },
    /// The name cannot be a ring's.
    #[error(
        "{name:?} cannot name a ring of a set: 1 to 200 bytes without '/' and control characters, \
         and no '.' first"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// All nine rings of this name have other options.
    #[error(
        "{} and {} rings beside it have another size, policy or mode than is asked for, and are not \
         read to their end: have them read and pruned (`perfring prune`), or use another name",
        .path.display(), BESIDE_MAX - 1
    )]
    Shapes {
        /// The first of them.
        path: PathBuf,
    },
    /// The ring cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The ring exists and cannot be attached to. [`AttachError::Busy`]: a live producer has this name.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

/// A directory of rings, one for each producer: a process or a thread.
///
/// Each producer writes into its own ring at full speed, and a reader merges the rings by time
/// ([`RingSet::merge`]). A ring stays after its producer has ended, until it is read to its end and pruned.
///
/// ```
/// use perfring_set::RingSet;
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// let set = RingSet::open(&dir)?; // or `RingSet::open_default()`
/// let mut producer = set.producer("worker-1")?;
/// producer.publish(b"hello")?;
/// assert!(dir.join("worker-1").exists());
/// assert!(set.producer("worker-1").is_err()); // it has a producer: the error says which
///
/// drop(producer);
/// let producer = set.producer("worker-1")?; // continues where the last one stopped
/// assert_eq!(producer.totals().written.records, 1);
///
/// let mine = set.own_producer()?; // a ring with a name that no other process has
/// # drop(mine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RingSet {
    dir: PathBuf,
    options: SetOptions,
    /// The directory must not be a symbolic link: others may write to its parent directory.
    strict: bool,
}

impl RingSet {
    /// Returns the default directory: `$XDG_RUNTIME_DIR/perfring`, or without that variable
    /// `/dev/shm/perfring-UID`.
    #[must_use]
    pub fn default_dir() -> PathBuf {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        match runtime.filter(|dir| dir.is_absolute()) {
            Some(dir) => dir.join("perfring"),
            None => PathBuf::from(format!("/dev/shm/perfring-{}", euid())),
        }
    }

    /// Opens the set in [`RingSet::default_dir`], and creates the directory if it is missing.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn open_default() -> Result<Self, SetError> {
        Self::open_default_with(&SetOptions::default())
    }

    /// Opens the set in [`RingSet::default_dir`] with these options.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn open_default_with(options: &SetOptions) -> Result<Self, SetError> {
        Self::checked(RingSet { dir: Self::default_dir(), options: *options, strict: true })
    }

    /// Opens the set in a directory, which is created if it is missing (its parent is not).
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, SetError> {
        Self::open_with(dir, &SetOptions::default())
    }

    /// Opens the set in a directory with these options.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn open_with(dir: impl Into<PathBuf>, options: &SetOptions) -> Result<Self, SetError> {
        Self::checked(RingSet { dir: dir.into(), options: *options, strict: false })
    }

    fn checked(self) -> Result<Self, SetError> {
        self.ensure()?;
        Ok(self)
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Attaches a producer to the ring of this name, which is created if it is missing.
    ///
    /// * If the ring's producer has ended, in any way, the new producer continues the ring: the epoch
    ///   rises, and unread records stay.
    /// * If a live producer has the ring, [`AttachError::Busy`] names the producer.
    /// * If the ring has other options than the set, a ring beside it is used, `NAME.2` to `NAME.9`. A
    ///   program can thus start with new options while the records of its last run are still being read. No
    ///   producer ever removes a ring.
    /// * If it is not a ring, or another user's, this is an error.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn producer(&self, name: &str) -> Result<Producer, SetError> {
        self.producer_with(name, &self.options.ring)
    }

    /// Attaches a producer as [`RingSet::producer`] does, with these options instead of the set's, such as
    /// another size or policy.
    ///
    /// Its records have timestamps even if `options.time` is false, because a merge needs them. To
    /// create rings without, set [`SetOptions::ring`]`.time` to false as well.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use perfring_producer::{Options, Policy};
    /// let set = perfring_set::RingSet::open(dir.path().join("rings"))?;
    /// let recorder = Options { policy: Policy::Overwrite, size: 1 << 16, ..Options::default() };
    /// let producer = set.producer_with("recorder", &recorder)?;
    /// assert!(producer.layout().time);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn producer_with(&self, name: &str, options: &Options) -> Result<Producer, SetError> {
        let options = Options { producers: Producers::One, ..*options };
        self.attach(name, &self.timed(options), |location| Producer::attach(location))
    }

    /// Attaches a producer as [`RingSet::producer`] does, to a shared ring: many processes may attach to
    /// the same name, and get a slot each.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let set = perfring_set::RingSet::open(dir.path().join("rings"))?;
    /// let (one, two) = (set.shared_producer("all")?, set.shared_producer("all")?);
    /// assert_ne!(one.slot(), two.slot());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn shared_producer(&self, name: &str) -> Result<SharedProducer, SetError> {
        let options = Options { producers: Producers::Many, ..self.options.ring };
        self.attach(name, &options, |location| SharedProducer::attach(location))
    }

    /// Returns the path of the ring that [`RingSet::producer_with`] would attach to, and creates the
    /// ring if it is missing: for code that attaches by a path, such as `perfring_telemetry::Sink`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use perfring_producer::{Options, Producer};
    /// let set = perfring_set::RingSet::open(dir.path().join("rings"))?;
    /// let path = set.ring_path("worker-1", &Options::default())?;
    /// let producer = Producer::attach_as(&path, "script.py")?;
    /// # drop(producer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn ring_path(&self, name: &str, options: &Options) -> Result<PathBuf, SetError> {
        let options = self.timed(*options);
        self.attach(name, &options, |path| RingFile::inspect(path).map(|_| path.to_owned()))
    }

    /// These options, with timestamps unless the set's own options are without.
    fn timed(&self, options: Options) -> Options {
        Options { time: options.time || self.options.ring.time, ..options }
    }

    /// Creates a ring with a new name, [`RingSet::own_name`], and attaches a producer to it.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn own_producer(&self) -> Result<Producer, SetError> {
        self.producer(&Self::own_name())
    }

    /// Returns a new name: the program's, the pid, a counter and 48 random bits, such as
    /// `shop.4711.2.9f30c2d84e1b`. The random bits distinguish containers, which may have the same pids.
    #[must_use]
    pub fn own_name() -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only uniqueness matters.
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        // Without random bytes, the time in ns, which two containers hardly share.
        let random = getrandom::u64().unwrap_or_else(|_| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            since.as_nanos() as u64
        }) & 0xffff_ffff_ffff;
        format!("{}.{}.{nth}.{random:012x}", program(), std::process::id())
    }

    /// Attaches to the ring of this name, or creates it.
    fn attach<P>(
        &self,
        name: &str,
        options: &Options,
        attach: impl Fn(&Path) -> Result<P, AttachError>,
    ) -> Result<P, SetError> {
        check_name(name)?;
        self.ensure()?;
        let first = self.dir.join(name);
        for nth in 1..=BESIDE_MAX {
            let path = match nth {
                1 => first.clone(),
                _ => self.dir.join(format!("{name}.{nth}")),
            };
            if let Some(producer) = self.attach_at(&path, options, &attach)? {
                return Ok(producer);
            }
        }
        Err(SetError::Shapes { path: first })
    }

    /// Returns `None` if the ring has other options.
    fn attach_at<P>(
        &self,
        path: &Path,
        options: &Options,
        attach: &impl Fn(&Path) -> Result<P, AttachError>,
    ) -> Result<Option<P>, SetError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let tried = match self.may_go_on(path, options) {
                Ok(true) => attach(path),
                Ok(false) => return Ok(None),
                Err(SetError::Attach(error)) => Err(error),
                Err(error) => return Err(error),
            };
            match tried {
                Ok(producer) => return Ok(Some(producer)),
                // Another process removed the ring: the name is free now, or a new ring has it.
                Err(AttachError::NotFound { .. } | AttachError::Removed { .. })
                    if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
            match create(path, options) {
                // Another process was quicker; its producer may be one of many, or have ended.
                Ok(()) | Err(CreateError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether the ring has these options.
    fn may_go_on(&self, path: &Path, options: &Options) -> Result<bool, SetError> {
        let ring = RingFile::inspect(path)?;
        let (owner, mode) = ring.owner()?;
        if self.options.access == Access::Private && owner != euid() {
            return Err(SetError::Foreign { path: path.to_owned(), owner, me: euid() });
        }
        Ok(mode == options.mode && options.makes(ring.layout()))
    }

    /// Creates the directory if it is missing, and checks its owner and mode.
    fn ensure(&self) -> Result<(), SetError> {
        let failed = |step| move |source| SetError::Dir { dir: self.dir.clone(), step, source };
        match create_dir(&self.dir, self.options.mode) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("creating it")(error)),
        }
        let meta = match self.strict {
            true => fs::symlink_metadata(&self.dir),
            false => fs::metadata(&self.dir),
        };
        let meta = meta.map_err(failed("checking it"))?;
        if !meta.is_dir() {
            return Err(SetError::NoDirectory { dir: self.dir.clone() });
        }
        if self.options.access == Access::Shared {
            return Ok(());
        }
        let (owner, me, mode) = (meta.uid(), euid(), meta.mode() & 0o7777);
        if owner != me && owner != 0 {
            return Err(SetError::Foreign { path: self.dir.clone(), owner, me });
        }
        if mode & 0o022 != 0 {
            return Err(SetError::Open { dir: self.dir.clone(), mode });
        }
        Ok(())
    }
}

/// Refuses names that begin with a dot: they are drafts, or files of other programs.
fn check_name(name: &str) -> Result<(), SetError> {
    let bad = |c: char| c == '/' || c.is_control();
    if (1..=NAME_MAX).contains(&name.len()) && !name.starts_with('.') && !name.contains(bad) {
        return Ok(());
    }
    Err(SetError::Name { name: name.to_owned() })
}

/// Returns the program's name, for use in a ring's name.
fn program() -> String {
    let arg = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&arg).file_name().unwrap_or_default().to_string_lossy();
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-_+".contains(c) { c } else { '_' };
    match name.chars().map(fits).take(64).collect::<String>() {
        name if name.is_empty() => "unnamed".to_owned(),
        name => name,
    }
}

fn euid() -> u32 {
    nix::unistd::Uid::effective().as_raw()
}
