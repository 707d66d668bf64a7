//! Publishing into a directory that has a ring for each CPU.

use crate::cpu_rings::CpuRings;
use crate::cpu_set::{self, CpuSetError};
use crate::known_types::add_entry;
use crate::options::ProducerOptions;
use crate::reserve_error::{ReserveError, TypeError};
use crate::threads_clock::ThreadsClock;
use crate::waiting::{CPU_LOCK_WAIT, Limits, wait_once};
use perfring_abi::{Layout, RecordType};
use perfring_ring::{ReadError, Refusal};
use perfring_shm::{
    CpuSpace, CpuThread, CpuWindow, HandlerMutex, MachineClock, Reservation, Reserves, RingOptions,
    program_name,
};
use perfring_types::{Entries, Entry, Schema};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Types are known by the low bits of their key, see [`Schema::key`].
const KNOWN: usize = 64;
/// The bit of the mutex of types, see [`HandlerMutex`].
const TYPES: u32 = 2;

/// For how long [`CpuProducer::attach_to`] waits while a live producer has the ring's lock.
const ATTACH_WAIT: Duration = Duration::from_secs(1);

/// Publishes into a directory with a ring for each CPU: any number of threads in any number of processes,
/// without a lock or a locked instruction, at about the cost of an exclusive producer.
///
/// One value serves all threads of a process: it is `Sync`. A record goes to the ring of the CPU that the
/// thread runs on, by a restartable sequence (`rseq`, Linux 4.18): a few instructions which the
/// kernel restarts if the thread is preempted or migrated before the last of them. This is perf's own
/// shape, a ring per CPU, and what LTTng-UST has prepared for. See `proto/ABI.md`, "A ring per CPU".
///
/// * **Order**: in each ring, the order of publication. Over all of them, by timestamp, with
///   [`Options::time`](crate::Options::time): a reader merges them. A thread that migrates keeps its own order
///   by timestamp only.
/// * **Rings** are made when a process first finds itself on a CPU, with the options of the others, and
///   attached to then: the first record there takes a millisecond or two.
/// * **Longer payloads** than 512 bytes, and [`CpuProducer::reserve`], close the ring for a moment: they cost
///   what they cost in a shared ring, like every record while a reservation is open in the ring.
/// * **Signal handlers** may publish what is no longer than 512 bytes, in rings that were attached to before. One that
///   has interrupted this producer's slow path is refused, and counted. In a library that `dlopen` has loaded, each thread
///   publishes once before its handlers do: glibc allocates such a library's thread-locals at their first use.
/// * **Losses** are counted and reported as in a shared ring.
///
/// ```
/// use perfring_producer::{CpuProducer, Options, RecordType};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("set");
/// let producer = match CpuProducer::open_or_create(&dir, &Options::per_cpu()) {
///     Ok(producer) => producer,
///     Err(error) => {
///         println!("{error}"); // names what is missing, and what to use instead
///         return Ok(());
///     }
/// };
/// std::thread::scope(|threads| {
///     for _ in 0..4 {
///         threads.spawn(|| producer.publish(b"from any thread"));
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CpuProducer {
    dir: PathBuf,
    name: String,
    options: RingOptions,
    /// Whether a ring of any owner will do: by the options, or because the caller named a set that was there.
    any_owner: bool,
    clock: Arc<ThreadsClock<MachineClock>>,
    pub(crate) rings: CpuRings,
    known: [AtomicU64; KNOWN],
    /// The entries of all types that were registered here: each ring gets them before its first record.
    types: HandlerMutex<Vec<Vec<u64>>, TYPES>,
}

impl Reserves for CpuProducer {
    type Space<'a> = CpuSpace<'a>;
}

impl CpuProducer {
    /// Makes a directory with the ring of this thread's CPU. All others will be made with the same options.
    ///
    /// # Errors
    /// See [`CpuSetError`]; [`CpuSetError::Exists`] if the directory has rings already.
    pub fn create(dir: impl Into<PathBuf>, options: &RingOptions) -> Result<Self, CpuSetError> {
        let dir = dir.into();
        if cpu_set::found(&dir)?.is_some() {
            return Err(CpuSetError::Exists { dir });
        }
        Self::with(dir, cpu_set::wanted(options), &program_name(), options.any_owner)
    }

    /// Attaches to the rings of a directory, and makes it first if there is none. Processes that call this at
    /// once get one set of rings.
    ///
    /// # Errors
    /// See [`CpuSetError`]; if the rings were made with other options, the error names the option. [`OpenError::Owner`](crate::OpenError::Owner) if
    /// the directory or a ring belongs to another user, [`OpenError::Mode`](crate::OpenError::Mode) if a ring lets more users in:
    /// see [`RingOptions::any_owner`].
    pub fn open_or_create(
        dir: impl Into<PathBuf>,
        options: &RingOptions,
    ) -> Result<Self, CpuSetError> {
        Self::with(dir.into(), cpu_set::wanted(options), &program_name(), options.any_owner)
    }

    /// Attaches to the rings of a directory, under the name of this program.
    ///
    /// # Errors
    /// See [`CpuSetError`]; [`CpuSetError::Empty`] if the directory has no ring per CPU.
    pub fn attach(dir: impl Into<PathBuf>) -> Result<Self, CpuSetError> {
        Self::attach_with(dir, &ProducerOptions::default())
    }

    /// Attaches as [`CpuProducer::attach`] does, under a name of up to 64 bytes, which `perfring stat` shows.
    ///
    /// # Errors
    /// See [`CpuProducer::attach`].
    pub fn attach_as(dir: impl Into<PathBuf>, name: &str) -> Result<Self, CpuSetError> {
        Self::attach_with(dir, &ProducerOptions::named(name))
    }

    /// Attaches to the rings of a directory, with these options.
    ///
    /// # Errors
    /// See [`CpuProducer::attach`].
    pub fn attach_with(
        dir: impl Into<PathBuf>,
        options: &ProducerOptions,
    ) -> Result<Self, CpuSetError> {
        let dir = dir.into();
        let Some(found) = cpu_set::found(&dir)? else { return Err(CpuSetError::Empty { dir }) };
        let found = RingOptions { trust: options.trust, ..found };
        Self::with(dir, found, &options.name(), true)
    }

    fn with(
        dir: PathBuf,
        options: RingOptions,
        name: &str,
        any_owner: bool,
    ) -> Result<Self, CpuSetError> {
        let here = CpuThread::here().map_err(|source| CpuSetError::Rseq { source })?;
        let clock = MachineClock::find().map_err(|source| CpuSetError::Clock { source })?;
        cpu_set::make_dir(&dir, &options)?;
        if !any_owner {
            cpu_set::expect(&dir, &options)?;
        }
        let producer = CpuProducer {
            dir,
            name: name.to_owned(),
            options,
            any_owner,
            clock: Arc::new(ThreadsClock::new(clock)),
            rings: CpuRings::new(),
            known: [const { AtomicU64::new(0) }; KNOWN],
            types: HandlerMutex::default(),
        };
        producer.attach_to(here.cpu())?;
        Ok(producer)
    }

    /// Makes and attaches to the ring of a CPU before the first record there, so that no record waits for
    /// that. For those that a program will run on.
    ///
    /// # Errors
    /// See [`CpuSetError`]; [`CpuSetError::Rseq`] if this thread cannot publish, in rings that are attached to either.
    pub fn attach_to(&self, cpu: u32) -> Result<(), CpuSetError> {
        let mut waiting = None;
        loop {
            match self.attach_once(cpu) {
                Err(error) if error.is_held_up() => {
                    let held_up = Refusal::Contended { slot: 0 };
                    wait_once(&mut waiting, held_up, Limits::lock(ATTACH_WAIT), |_| ())
                        .map_err(|_| error)?;
                }
                done => return done,
            }
        }
    }

    pub(crate) fn attach_once(&self, cpu: u32) -> Result<(), CpuSetError> {
        CpuThread::here().map_err(|source| CpuSetError::Rseq { source })?;
        let cell = self.rings.cell(cpu).ok_or(CpuSetError::Cpu { cpu })?;
        // Before the lock: a thread may have had it when this process was forked.
        if self.rings.forked() {
            return Err(CpuSetError::Types { cpu, source: ReserveError::Forked });
        }
        // Held while the ring is attached: it gets every type that is registered before or after.
        let types = self.types.lock_unless_interrupted().ok_or(CpuSetError::Interrupted { cpu })?;
        if cell.get().is_some() {
            return Ok(());
        }
        let path = cpu_set::path(&self.dir, cpu);
        let options = RingOptions { cpu, any_owner: self.any_owner, ..self.options };
        let mut window = perfring_shm::open_or_create(
            path,
            &options,
            |location| CpuWindow::attach(location.clone(), &self.name, options.trust),
            |window| window.file().clone(),
        )?;
        if window.layout().time {
            window.begin_time(|| self.clock.read())?;
            let clock = Arc::clone(&self.clock);
            window.keep_time_by(move || clock.read());
        }
        for entry in types.iter() {
            register(&window, entry).map_err(|source| CpuSetError::Types { cpu, source })?;
        }
        let _ = cell.set(Box::new(window));
        Ok(())
    }

    /// Publishes one record, and waits for at most `timeout`; without one, for the lock alone.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        kind: RecordType,
        payload: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), ReserveError> {
        if self.publish_here::<false>(kind, payload, || self.now()) {
            return Ok(());
        }
        self.publish_slowly(kind, payload, limits(timeout), None)
    }

    /// Publishes a record if a sequence is enough for it: the ring of this CPU is open and has room, and no preface is due, if
    /// this is to ask. Returns whether it did. If not, nothing was done or counted, and [`CpuProducer::publish_at`] is to follow.
    #[doc(hidden)] // for `telemetry`
    #[must_use]
    #[inline(always)]
    pub fn publish_here<const PREFACE: bool>(
        &self,
        kind: RecordType,
        payload: &[u8],
        now: impl FnOnce() -> u64,
    ) -> bool {
        let Ok(here) = CpuThread::here() else { return false };
        let Some(ring) = self.rings.of(here.cpu()) else { return false };
        let preface = if PREFACE { self.rings.preface.get() } else { None };
        let is_due = preface.is_some_and(|preface| preface.is_due(here.cpu(), ring));
        if is_due || !ring.publish_at_once(here, kind, payload, now()) {
            return false;
        }
        self.note_timestamp(ring);
        true
    }

    /// Reserves space for one record, and waits as [`CpuProducer::put`] does.
    pub(crate) fn space<T: ?Sized>(
        &self,
        kind: RecordType,
        len: usize,
        timeout: Option<Duration>,
    ) -> Result<Reservation<'_, CpuProducer, T>, ReserveError> {
        self.wait_for(limits(timeout), len, |here, ring| {
            let record = ring.reserve(here, kind, len, self.now())?;
            self.note_timestamp(ring); // it has its timestamp
            Ok(record)
        })
        .map_err(|refused| self.rings.refuse(refused, len))
    }

    /// Ensures that a type, of which the [`Schema::key`] is known, is in the tables of all rings, or will be before their first
    /// record.
    #[inline(always)]
    pub(crate) fn know(&self, schema: &Schema<'_>, key: u64) -> Result<(), ReserveError> {
        let is_known = self.known[key as usize % KNOWN].load(Ordering::Relaxed) == key;
        if is_known { Ok(()) } else { self.know_now(schema, key) }
    }

    #[cold]
    fn know_now(&self, schema: &Schema<'_>, key: u64) -> Result<(), ReserveError> {
        self.know_words(schema.to_entry())?;
        self.known[key as usize % KNOWN].store(key, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn know_entry(&self, entry: &Entry<'_>) -> Result<(), ReserveError> {
        self.know_words(entry.to_words())
    }

    fn know_words(&self, entry: Vec<u64>) -> Result<(), ReserveError> {
        if self.rings.forked() {
            return Err(ReserveError::Forked);
        }
        let mut types =
            self.types.lock_unless_interrupted().ok_or(ReserveError::Type(TypeError::Busy))?;
        if !types.contains(&entry) {
            for ring in self.rings.attached() {
                register(ring, &entry)?;
            }
            types.push(entry);
        }
        Ok(())
    }

    /// Returns the longest payload that the rings take, in bytes.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.rings.attached().map(CpuWindow::layout).map(Layout::max_len).next().unwrap_or_default()
    }

    /// Returns how many records were refused because the ring of their CPU could not be made or attached
    /// to: no ring has counted them. [`CpuProducer::attach_to`] says why.
    #[must_use]
    pub fn lost_without_ring(&self) -> u64 {
        self.rings.lost_without_ring()
    }

    /// Returns whether the file of a ring that this process is attached to was removed, or another file has its name: only the
    /// readers that have that file open get what is published on its CPU. Two system calls for each ring: to be asked once in
    /// a while. Make another producer of the directory when it is true.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.rings.attached().any(|ring| ring.file().is_removed())
    }

    /// Returns why what this producer publishes does not reach a ring's file, as [`Producer::cut_off`](crate::Producer::cut_off)
    /// does.
    #[must_use]
    pub fn cut_off(&self) -> Option<ReadError> {
        self.rings.attached().find_map(CpuWindow::cut_off)
    }

    /// Returns the options that each ring of the set is made with.
    #[must_use]
    pub fn options(&self) -> &RingOptions {
        &self.options
    }

    /// Returns the numbers of the CPUs to whose rings this process is attached.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.rings.attached().map(CpuWindow::layout).map(|layout| layout.cpu)
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        if self.options.time { self.clock.now() } else { 0 }
    }

    /// After this thread has published in a ring, which may have raised the timestamp to that of a record before.
    #[inline(always)]
    pub(crate) fn note_timestamp(&self, ring: &CpuWindow) {
        if self.options.time {
            self.clock.stored(ring.newest_timestamp());
        }
    }
}

fn limits(timeout: Option<Duration>) -> Limits {
    timeout.map_or(Limits::lock(CPU_LOCK_WAIT), Limits::all)
}

fn register(ring: &CpuWindow, entry: &[u64]) -> Result<(), ReserveError> {
    let done = ring.with_attached(|attached| match Entries::new(entry).next() {
        Some(Ok(entry)) => add_entry(attached, &entry),
        _ => Ok(()), // cannot be: a schema made it
    });
    done.unwrap_or(Err(ReserveError::Type(TypeError::Busy)))
}

#[cfg(test)]
#[path = "cpu_producer_tests.rs"]
mod tests;
