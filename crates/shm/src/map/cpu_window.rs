//! The window of one process on a ring per CPU: restartable sequences, and behind them a producer of a
//! shared ring.
//!
//! All threads of a process publish by one window. A sequence needs only the ring's
//! place. Other work goes to the [`SharedWindow`], by one thread at a time. A signal handler that publishes, and
//! has interrupted its own thread there, is refused at once.

use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::file::open::RingFile;
use crate::file::trust::Trust;
use crate::map::attached::Attached;
use crate::map::cpu_slow::{CpuSpace, Locked, Slow};
use crate::map::keep::Keep;
use crate::map::reservation::{Reservation, Reserves};
use crate::map::shared_window::SharedWindow;
use crate::sys::clock::boot_id;
use crate::sys::cpu_thread::CpuThread;
use crate::sys::futex;
use crate::sys::rseq::{Ended, LONGEST, SequenceRecord, SequenceRing, Thread};
use crate::sys::sequence;
use crate::sys::thread_id;
use perfring_abi::{HEADER_LEN, Layout, Lead, Producers, RecordType, RecordWord};
use perfring_ring::{
    Fences, ProducerTotals, ReadError, Reading, Refusal, Ring, Wake, is_awaited, owes_wake,
};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a sequence is repeated. A debugger's single steps and some emulators abort each try.
const ABORTS_MOST: u32 = 256;
/// How often a producer opens the ring, or finds it open, and does not get through.
const ROUNDS: u32 = 64;

/// Why a record was not published in a ring per CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHere {
    /// The thread runs on another CPU by now: it publishes in that one's ring.
    Moved,
    /// The caller is a signal handler that has interrupted a call with this ring in the same thread, or each sequence was
    /// interrupted, for example by a debugger. Waiting changes neither.
    Interrupted,
    /// The ring refuses it.
    Refused(Refusal),
}

/// A slot of a ring per CPU, and its mapping, for all threads of a process.
#[repr(C)] // as `Slow`
#[derive(Debug)]
pub struct CpuWindow {
    slow: Slow,
    lead: Lead,
    slot: u32,
    fences: Fences,
    /// Records and bytes that were refused while another thread had `slow`, and are to be counted.
    uncounted: [AtomicU64; 2],
    keep: Option<Keep>,
    layout: Layout,
    file: RingFile,
}

// SAFETY: `slow.place` is the only part that does not say so itself. It names a mapping that belongs to no
// thread and is only touched by sequences, of which one at a time runs on a CPU, and by atomics.
unsafe impl Send for CpuWindow {}
// SAFETY: as for `Send`.
unsafe impl Sync for CpuWindow {}

impl CpuWindow {
    /// Takes a free slot of the ring of a CPU, with `name`. Does not wait for the ring's lock.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::HeldUp`] if another producer has the lock. [`AttachError::OtherBoot`] if the ring was made in another boot, or by another
    /// kernel that shares the file system: its numbers of CPUs are not this one's; or if either boot is unknown. [`AttachError::Rseq`].
    pub fn attach(
        location: impl Into<Location>,
        name: &str,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        let location = location.into();
        sequence::thread()
            .map_err(|source| AttachError::Rseq { location: location.clone(), source })?;
        let window =
            SharedWindow::attach_kind(location, name, trust, Producers::Cpu, Duration::ZERO)?;
        let layout = *window.layout();
        // Two systems whose ids are not known may be two.
        if layout.boot_id != boot_id() || layout.boot_id == [0; 16] {
            return Err(AttachError::OtherBoot { location: window.file().location().clone() });
        }
        let (slot, file) = (window.slot(), window.file().clone());
        Ok(CpuWindow {
            slow: Slow::new(window),
            lead: layout.lead(),
            slot,
            fences: futex::fences(),
            uncounted: [const { AtomicU64::new(0) }; 2],
            keep: None,
            layout,
            file,
        })
    }

    /// Returns the ring's shape.
    #[must_use]
    #[inline(always)]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the slot's number.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Returns whether this process is a forked child of the process that attached.
    #[must_use]
    #[inline(always)]
    pub fn forked(&self) -> bool {
        self.slow.forked()
    }

    /// Publishes one record in a sequence, from the thread that calls it. Returns whether it did: if not, it is for
    /// [`CpuWindow::publish`]. `now` is the timestamp, in a ring that has them.
    #[inline(always)]
    pub fn publish_at_once(
        &self,
        from: CpuThread,
        kind: RecordType,
        payload: &[u8],
        now: u64,
    ) -> bool {
        // In a forked child, private zeros are mapped here, without a limit to publish before.
        if self.sequence(from.thread, kind, payload, now) != Ended::Done {
            return false;
        }
        self.wake();
        true
    }

    #[inline(always)]
    fn sequence(&self, thread: Thread, kind: RecordType, payload: &[u8], now: u64) -> Ended {
        if payload.len() > LONGEST {
            return Ended::Slow;
        }
        let word = RecordWord::of(kind, payload.len() + self.lead.len());
        // All whole words, and the rest with its padding.
        let words = payload.len() / 8;
        let whole = SequenceRecord {
            word: word.raw(),
            size: word.size(),
            from: payload.as_ptr(),
            words: words as u64,
            last: last_word(payload, payload.len() - words * 8),
            now,
            writer: if self.lead == Lead::SampleId { thread_id::writer() } else { 0 },
        };
        const TIME: usize = Lead::Time.len();
        const SAMPLE_ID: usize = Lead::SampleId.len();
        let place = &self.slow.place;
        match self.lead {
            // SAFETY: the place is that of a mapping which lives as long as this, with a power of two of at least
            // 4,096 bytes of data, twice. The payload is no longer than `LONGEST`, as was checked above, and its words are in
            // it. `reserve` counts a reservation in `held` before it closes the ring.
            Lead::None => unsafe { sequence::publish::<0>(thread, place, whole) },
            // SAFETY: as above.
            Lead::Time => unsafe { sequence::publish::<TIME>(thread, place, whole) },
            // SAFETY: as above.
            Lead::SampleId => unsafe { sequence::publish::<SAMPLE_ID>(thread, place, whole) },
        }
    }

    #[inline(always)]
    fn wake(&self) {
        // SAFETY: as in `ring`, of which this is a part that fits a register.
        let header = unsafe { self.slow.place.header.as_ref() };
        if is_awaited(header, self.fences, Wake::Auto) {
            self.wake_sleeper();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleeper(&self) {
        let ring = self.ring();
        futex::wake_if(owes_wake(ring, Wake::Auto), ring.wait_word());
    }

    fn ring(&self) -> Ring<'_> {
        let SequenceRing { header, data, mask, .. } = &self.slow.place;
        // SAFETY: as in `Mirror::ring`, whose mapping this is, for as long as `self`: a page of atomics.
        let header = unsafe { header.as_ref() };
        let words = (*mask as usize + 1) / 8;
        // SAFETY: as above: so many aligned words of atomics.
        let data = unsafe { slice::from_raw_parts(data.as_ptr().cast(), words) };
        Ring::new(header, data)
    }

    /// Publishes one record, in a sequence or under the ring's lock. Where the ring has no room, closes the ring, makes room,
    /// and opens it again. Counts no refusal, and does not wait for the lock.
    ///
    /// # Errors
    /// See [`NotHere`].
    #[cold]
    #[inline(never)]
    pub fn publish(
        &self,
        from: CpuThread,
        kind: RecordType,
        payload: &[u8],
        now: u64,
    ) -> Result<(), NotHere> {
        if self.forked() {
            return Err(NotHere::Refused(Refusal::Forked));
        }
        let thread = from.thread;
        for _ in 0..ROUNDS {
            if self.again(|| self.sequence(thread, kind, payload, now))? == Ended::Done {
                self.wake();
                return Ok(());
            }
            if !self.open_or_publish(thread, kind, payload, now)? {
                return Ok(());
            }
        }
        Err(NotHere::Refused(Refusal::Contended { slot: self.slot }))
    }

    /// Opens the ring to sequences, and returns true; or publishes the record under the lock, and returns false.
    fn open_or_publish(
        &self,
        thread: Thread,
        kind: RecordType,
        payload: &[u8],
        now: u64,
    ) -> Result<bool, NotHere> {
        let (slow, len, held) = (self.enter()?, payload.len(), &self.slow.place.held);
        let (at, liveness) = (slow.pair.at(), &slow.pair.liveness);
        if slow.pair.writer.borrow().is_full_still(at.ring(), len) {
            return Err(NotHere::Refused(Refusal::Full));
        }
        self.keep_time(&slow, now);
        self.close(thread)?;
        if len <= LONGEST && held.is_alone() {
            let opened = slow.pair.writer.borrow_mut().open_for_sequences(at, liveness, len);
            match opened {
                Ok(()) => {
                    held.set_report(false);
                    return Ok(true);
                }
                Err(Refusal::Pending { .. }) => {}
                Err(refusal) => return Err(NotHere::Refused(refusal)),
            }
        }
        match slow.put(kind, payload, || now) {
            Ok(()) => Ok(false),
            Err(_) if slow.pair.writer.borrow_mut().found_open() => Ok(true),
            Err(refusal) => Err(NotHere::Refused(refusal)),
        }
    }

    /// Reserves space for one record, in place: as in a shared ring. The ring is closed to sequences until
    /// it has ended, and somebody has published after it. A refusal is not counted. Does not wait for the ring's lock.
    ///
    /// # Errors
    /// See [`NotHere`].
    pub fn reserve<P: for<'b> Reserves<Space<'b> = CpuSpace<'b>>, T: ?Sized>(
        &self,
        from: CpuThread,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reservation<'_, P, T>, NotHere> {
        if self.forked() {
            return Err(NotHere::Refused(Refusal::Forked));
        }
        for _ in 0..ROUNDS {
            let slow = self.enter()?;
            self.keep_time(&slow, now);
            let held = &self.slow.place.held;
            held.hold();
            let claim = self.close(from.thread).map(|()| slow.claim(kind, len, &|| now));
            if let Ok(Ok(claim)) = claim {
                let reserved = claim.of(kind, len);
                let map = &slow.pair.map;
                // SAFETY: reserved for this producer just now.
                unsafe { map.zero_last_word(reserved.site(), len) };
                let bytes = map.open_bytes(reserved.site(), len);
                return Ok(Reservation::new(CpuSpace { slow: &self.slow, bytes }, reserved));
            }
            held.let_go();
            match claim? {
                Err(refusal) if !slow.pair.writer.borrow_mut().found_open() => {
                    return Err(NotHere::Refused(refusal));
                }
                _ => {}
            }
        }
        Err(NotHere::Refused(Refusal::Contended { slot: self.slot }))
    }

    /// Counts a refusal, to be reported in the stream before this process's next record in this ring. Does
    /// nothing in a forked child.
    #[cold]
    pub fn refuse(&self, refusal: Refusal, len: usize) {
        if self.forked() {
            return;
        }
        match self.enter() {
            Ok(slow) => slow.refuse(refusal, len),
            Err(_) => {
                let size = self.layout.record_size(len);
                for (count, more) in self.uncounted.iter().zip([1, size]) {
                    count.fetch_add(more, Ordering::Relaxed);
                }
            }
        }
        self.slow.place.held.set_report(true);
    }

    /// Sleeps until the consumer has released enough for a record of `len` bytes, for at most `limit`. May
    /// return early, so the caller checks again.
    pub fn sleep_for_space(&self, len: usize, limit: Duration) {
        let Ok(slow) = self.enter() else { return };
        let target = slow.space_target(len);
        drop(slow);
        futex::sleep_for_space(self.ring(), target, limit);
    }

    /// Returns the records that this process, and earlier processes in its slot, published without sequences, discarded and
    /// had refused. `None` in a signal handler that interrupted a producer of this ring, and in a forked child.
    pub fn totals(&self) -> Option<ProducerTotals> {
        self.enter().ok().map(|slow| slow.totals())
    }

    /// Returns the reason why the mapping is no longer the file's, like [`Attached::look`]; `None` also if
    /// [`CpuWindow::totals`] returns `None`.
    pub fn cut_off(&self) -> Option<ReadError> {
        self.enter().ok().and_then(|slow| slow.look())
    }

    /// Makes the ring store the clocks' readings of this function when room is made, if this process has not done so
    /// for a while. In a ring with time.
    pub fn keep_time_by(&mut self, read: impl Fn() -> Reading + Send + Sync + 'static) {
        self.keep = Some(Keep::by(read));
    }

    fn keep_time(&self, slow: &Locked<'_>, now: u64) {
        if let Some(keep) = &self.keep {
            keep.at(now, |read| slow.keep_time(read));
        }
    }

    /// Returns a timestamp that no record of the ring's so far is younger than. Another process may say anything here.
    #[must_use]
    #[inline(always)]
    pub fn newest_timestamp(&self) -> u64 {
        // Relaxed: a record of this thread is not younger than the timestamp that the thread stored.
        self.ring().header().shared.newest_timestamp.load(Ordering::Relaxed)
    }

    /// Returns where the ring's last record ends, or nearly so. Another process may say anything here.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> u64 {
        self.ring().head()
    }

    /// Calls a function with the ring's mapping, for its type table. `None` in a signal handler that interrupted a producer of such a
    /// ring, and in a forked child.
    pub fn with_attached<T>(&self, then: impl FnOnce(&Attached) -> T) -> Option<T> {
        let slow = self.slow.lock_unless_interrupted()?;
        Some(then(&slow))
    }

    /// Returns the open file.
    #[must_use]
    pub fn file(&self) -> &RingFile {
        &self.file
    }

    /// Stores the clocks' readings in a ring with time, before the first record. Does not wait for the ring's lock.
    ///
    /// # Errors
    /// [`AttachError::HeldUp`] if another producer has the lock.
    pub fn begin_time(&self, read: impl FnMut() -> Reading) -> Result<(), AttachError> {
        self.slow.lock().begin_time(read)
    }

    /// Returns the longest payload that the ring takes.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.layout.max_len()
    }

    /// Closes the ring, if it is open.
    fn close(&self, thread: Thread) -> Result<(), NotHere> {
        // SAFETY: as in `sequence`.
        self.again(|| unsafe { sequence::close(thread, &self.slow.place, self.slot) }).map(drop)
    }

    /// Begins a sequence until it is not aborted.
    fn again(&self, mut sequence: impl FnMut() -> Ended) -> Result<Ended, NotHere> {
        for _ in 0..ABORTS_MOST {
            match sequence() {
                Ended::Aborted => {}
                Ended::Moved => return Err(NotHere::Moved),
                ended => return Ok(ended),
            }
        }
        Err(NotHere::Interrupted)
    }

    /// Takes the part for one thread at a time, and waits for the thread of this process that has it. The other thread waits
    /// for nothing. This thread sleeps meanwhile, because the other may need this very core.
    fn enter(&self) -> Result<Locked<'_>, NotHere> {
        let slow = self.slow.lock_unless_interrupted().ok_or(NotHere::Interrupted)?;
        if self.lead == Lead::SampleId {
            slow.pair.writer.borrow_mut().set_writer(thread_id::writer());
        }
        let [records, bytes] = &self.uncounted;
        if records.load(Ordering::Relaxed) != 0 {
            // Another thread of this process was in the way.
            let refusal = Refusal::Contended { slot: self.slot };
            let (records, bytes) =
                (records.swap(0, Ordering::Relaxed), bytes.swap(0, Ordering::Relaxed));
            let at = slow.pair.at();
            slow.pair.writer.borrow_mut().refuse_many(at, refusal, records, bytes);
        }
        Ok(slow)
    }
}

/// The last `len` bytes of a payload, 1 to 7, as a word with zeros behind. Of no bytes, any word.
#[inline(always)]
fn last_word(payload: &[u8], len: usize) -> u64 {
    match payload.last_chunk::<8>() {
        // The bytes before them are shifted out.
        Some(last) => u64::from_le_bytes(*last).wrapping_shr(8 * (8 - len as u32)),
        None => {
            let mut word = [0; 8];
            word[..payload.len()].copy_from_slice(payload);
            u64::from_le_bytes(word)
        }
    }
}

const _: () = assert!(LONGEST <= SharedWindow::UNDER_LOCK_MAX && HEADER_LEN == 8);
