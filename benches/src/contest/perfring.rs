//! perfring, through its public API: what the ways to use one ring have in common, and the two ways
//! that write each record in place.

use crate::contestant::{About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit};
use crate::error::{BenchError, Result, failed};
use crate::waits::WaitStrategy;
use perfring_consumer::{Consumer, ConsumerOptions, Item, Observer, ObserverOptions};
use perfring_producer::{
    Evict, Options, Policy, Producer, Producers, RecordType, Reservation, ReserveError, files,
};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// How long a sender waits for room: longer than any live reader takes.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a reader spins before its caller gets control.
pub const SPIN: Duration = Duration::from_micros(50);
/// The same where several readers share a core: what the one waits for may be that another gets it.
const SPIN_BESIDE: Duration = Duration::ZERO;

/// Wraps the error of a call.
pub fn error<E: std::error::Error + Send + Sync + 'static>(source: E) -> BenchError {
    failed("perfring")(source)
}

/// Wraps a refusal where none may be.
#[cold]
pub fn refusal(refused: ReserveError) -> BenchError {
    error(refused)
}

/// Returns whether a call found room.
///
/// # Errors
/// Any refusal for another reason than a full ring.
#[inline(always)]
pub fn taken(result: Result<(), ReserveError>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(ReserveError::Full) => Ok(false),
        Err(other) => Err(refusal(other)),
    }
}

/// Returns everything that a ring can do, with one sender.
pub fn can() -> Can {
    Can {
        senders: Err("a ring of one producer; `perfring shared` and `perfring rings` have many"),
        wait_for_many: Err("a ring waits for one consumer; its observers are never waited for"),
        ..Can::all(65_472)
    }
}

/// Describes a row of perfring's.
fn about(setup: &Setup, how: &str) -> About {
    let mode = match (setup.overwrite, setup.receivers) {
        (false, _) => "lossless",
        (true, 1) => "overwrite, an observer",
        (true, _) => "overwrite, observers",
    };
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        location: Location::Processes,
        settings: format!("{} KiB, {mode}, {how}", setup.data_size / 1024),
        waits: if setup.sleeping {
            "its own, asleep on a futex of the ring".to_owned()
        } else {
            format!("its own, pace {}", setup.pace.name())
        },
    }
}

/// Returns the options of a ring for this setup.
pub fn options(setup: &Setup, producers: Producers, evict: Evict) -> Options {
    let policy = if setup.overwrite { Policy::Overwrite } else { Policy::Drop };
    Options { size: setup.data_size, policy, evict, producers, ..Options::default() }
}

/// A way to use a ring, or many.
pub trait Way: 'static {
    /// Its writing end.
    type Sender: Sender;
    /// Its reading end.
    type Receiver: Receiver;
    /// Whether the ring has many producers.
    const PRODUCERS: Producers = Producers::One;

    /// Describes it.
    fn how(setup: &Setup) -> String;

    /// See [`Contestant::can`].
    fn can() -> Can {
        can()
    }

    /// Returns the options with which the ring is created.
    fn options(setup: &Setup) -> Options {
        options(setup, Self::PRODUCERS, Evict::Exact)
    }

    /// Describes how its reader waits, if not by the setup's strategy.
    fn waits(_: &Setup) -> Option<String> {
        None
    }

    /// See [`Contestant::create`].
    fn create(path: &Path, setup: &Setup) -> Result<()> {
        files::create(path, &Self::options(setup)).map_err(error)
    }

    /// See [`Contestant::sender`].
    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<Self::Sender>;

    /// See [`Contestant::receiver`].
    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Self::Receiver>;
}

/// A ring, or many, used in this way.
pub struct Ring<W>(PhantomData<fn() -> W>);

impl<W: Way> Contestant for Ring<W> {
    type Sender = W::Sender;
    type Receiver = W::Receiver;
    type Held = ();

    fn can() -> Can {
        W::can()
    }

    fn about(setup: &Setup) -> About {
        let about = about(setup, &W::how(setup));
        About { waits: W::waits(setup).unwrap_or(about.waits), ..about }
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        W::create(path, setup)
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<W::Sender> {
        W::sender(path, setup, index)
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<W::Receiver> {
        W::receiver(path, setup, index)
    }
}

/// One producer; each record is written in place and published at once. With `HALF`, a full
/// overwrite ring evicts its older half at once.
pub struct InPlace<const HALF: bool>;

impl<const HALF: bool> Way for InPlace<HALF> {
    type Sender = Producer;
    type Receiver = Reader;

    fn how(_: &Setup) -> String {
        let half = if HALF { ", evicts by halves" } else { "" };
        format!("one producer, each record written in place and published at once{half}")
    }

    fn can() -> Can {
        if !HALF {
            return can();
        }
        let same = "evicts by halves: without overwriting it is `perfring in place`";
        Can { lossless: Err(same), receivers: Err(same), refuses: Err(same), ..can() }
    }

    fn options(setup: &Setup) -> Options {
        options(setup, Producers::One, if HALF { Evict::Half } else { Evict::Exact })
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<Producer> {
        Producer::attach(path).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        Reader::open(path, setup)
    }
}

impl Sender for Producer {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        mut numbers: Range<u64>,
        mut fill: impl Fill<N>,
    ) -> Result<()> {
        numbers.try_for_each(|number| {
            let record = self.reserve_timeout(RecordType::BYTES, N, PATIENCE).map_err(refusal)?;
            write(record, number, &mut fill);
            Ok(())
        })
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let reserved = self.reserve(RecordType::BYTES, N);
        taken(reserved.map(|record| write(record, number, &mut fill)))
    }
}

#[inline(always)]
fn write<const N: usize>(
    mut record: Reservation<'_, Producer>,
    number: u64,
    fill: &mut impl Fill<N>,
) {
    if let Some(slot) = record.first_chunk_mut() {
        fill(slot, number);
    }
    record.commit();
}

/// The reader for the mode, and the losses that were reported to it.
pub struct Reader {
    end: End,
    spin: Duration,
    reported: u64,
    /// Whether what the ring counts as refused is lost.
    counts: bool,
}

enum End {
    /// For a lossless ring: reads in place.
    Consumer(Consumer),
    /// For an overwrite ring: copies, and slows no producer.
    Observer(Observer),
}

impl Reader {
    /// Attaches.
    pub fn open(path: &Path, setup: &Setup) -> Result<Self> {
        Self::open_paced(path, setup, Some(setup.pace))
    }

    /// Attaches, and chooses how to wait, or does not.
    pub fn open_paced(path: &Path, setup: &Setup, pace: Option<WaitStrategy>) -> Result<Self> {
        let wait = pace.map_or_else(Default::default, Into::into);
        let end = if setup.overwrite {
            let options = ObserverOptions { wait, ..ObserverOptions::default() };
            End::Observer(Observer::attach_with(path, &options).map_err(error)?)
        } else {
            let options = ConsumerOptions { wait, ..ConsumerOptions::default() };
            End::Consumer(Consumer::attach_with(path, &options).map_err(error)?)
        };
        Ok(Reader { end, spin: SPIN, reported: 0, counts: true })
    }

    /// Reads as a consumer that has attached by its name.
    pub fn of(consumer: Consumer, setup: &Setup) -> Self {
        let spin = if setup.receivers > 1 { SPIN_BESIDE } else { SPIN };
        Reader { end: End::Consumer(consumer), spin, reported: 0, counts: true }
    }

    /// Says whether what the ring counts as refused is lost.
    #[must_use]
    pub fn counting(self, counts: bool) -> Self {
        Reader { counts, ..self }
    }
}

impl Receiver for Reader {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let (mut count, reported) = (0, &mut self.reported);
        // A record of a wrong length shows as missing.
        let each = |item: Item<'_>| match item {
            Item::Record(record) => {
                if let Ok(bytes) = record.bytes.try_into() {
                    visit(bytes);
                    count += 1;
                }
            }
            Item::Lost(lost) => *reported += lost.records,
        };
        match &mut self.end {
            End::Consumer(consumer) => consumer.drain(each),
            End::Observer(observer) => observer.drain(each),
        }
        .map_err(error)?;
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        let item = match &mut self.end {
            End::Consumer(consumer) => consumer.read(),
            End::Observer(observer) => observer.read(),
        };
        match item.map_err(error)? {
            Some(Item::Record(record)) => {
                let Ok(bytes) = record.bytes.try_into() else { return Ok(false) };
                visit(bytes);
                Ok(true)
            }
            Some(Item::Lost(lost)) => {
                self.reported += lost.records;
                Ok(false)
            }
            None => Ok(false),
        }
    }

    #[inline]
    fn wait(&mut self) {
        match &mut self.end {
            End::Consumer(consumer) => consumer.spin(self.spin),
            End::Observer(observer) => observer.wait(self.spin),
        };
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        match &mut self.end {
            End::Consumer(consumer) => consumer.sleep(timeout),
            End::Observer(observer) => {
                observer.wait(timeout);
            }
        }
        Ok(())
    }

    fn reported_lost(&mut self) -> Option<u64> {
        self.counts.then_some(self.reported)
    }
}
