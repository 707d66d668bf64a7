//! A ring's metrics area as a source of records: samples at intervals.

use perfring_consumer::advanced::{Front, MachineClock, ReaderId, ResumePoint};
use perfring_consumer::{
    Anchors, AttachError, Item, Location, Observer, ReadError, RecordRef, Start, Types,
    error::ClockError,
    metrics::{BadArea, MetricSample, MetricValue, MetricsFill},
    stat::{Count, Fill},
};
use perfring_export::{ring_bytes, sampled};
use perfring_set::{About, Source, SourceError};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What distinguishes the id of a metrics area from that of its ring.
const OWN: [u8; 16] = *b"metrics of ring\0";

/// Returns the id under which outputs know the metrics area of a ring.
pub(super) fn uuid_of(ring: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|at| ring[at] ^ OWN[at])
}

/// What the engine and a source tell each other.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The ring is not read any more: the next samples are the last.
    ended: AtomicBool,
    /// Samples are wanted now.
    wanted: AtomicBool,
    /// When samples were last taken, on the clock of timestamps.
    sampled: AtomicU64,
    /// A trouble of the area that no note has reported yet.
    trouble: Mutex<Option<String>>,
}

impl Watch {
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_sampled_since(&self, time: u64) -> bool {
        self.sampled.load(Ordering::Relaxed) >= time
    }

    /// Takes the trouble that was found since the last call.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The samples of a ring's instruments, as records of their types.
///
/// What a dead process has measured does not change, so it is sampled once more after its death, and not again.
pub(super) struct MetricsSource {
    observer: Observer,
    clock: MachineClock,
    id: ReaderId,
    interval: u64,
    /// When the next samples are due.
    next: u64,
    /// Records of the last samples that were not taken yet: type and payload.
    due: VecDeque<(u32, Vec<u8>)>,
    /// The one that was taken last.
    last: Vec<u8>,
    /// When the last samples were taken.
    time: u64,
    /// After what was taken.
    pos: u64,
    taken: Count,
    /// The last values of dead processes, by the place of their blocks.
    settled: HashMap<u64, (u32, MetricValue)>,
    /// The descriptions of processes that were passed on.
    described: HashMap<u64, MetricValue>,
    watch: Arc<Watch>,
    /// What was reported of the area: its damage, and whether instruments found no room or replaced others.
    known: (Option<BadArea>, bool, bool),
    /// The ring's end was found, and the last samples were taken after it.
    is_over: bool,
}

impl MetricsSource {
    /// Opens the metrics area of a ring. It ends with the last samples once `watch` says that the ring ended.
    pub(super) fn open(
        location: &Location,
        interval: Duration,
        watch: Arc<Watch>,
    ) -> Result<Self, AttachError> {
        let observer = Observer::attach(location.clone(), Start::Latest)?;
        let of_clock =
            |source: ClockError| AttachError::Clock { location: location.clone(), source };
        Ok(MetricsSource {
            observer,
            clock: MachineClock::find().map_err(of_clock)?,
            id: ReaderId::unique(),
            interval: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1_000_000),
            next: 0,
            due: VecDeque::new(),
            last: Vec::new(),
            time: 0,
            pos: 0,
            taken: Count::default(),
            settled: HashMap::new(),
            described: HashMap::new(),
            watch,
            known: Default::default(),
            is_over: false,
        })
    }

    /// Takes samples, if they are due.
    fn sample(&mut self) -> Result<(), ReadError> {
        if !self.due.is_empty() || self.is_over {
            return Ok(());
        }
        let now = self.clock.now_ns();
        let is_over = self.watch.ended.load(Ordering::Relaxed);
        let is_wanted = self.watch.wanted.swap(false, Ordering::Relaxed);
        if now < self.next && !is_over && !is_wanted {
            return Ok(());
        }
        self.next = now.saturating_add(self.interval);
        let metrics = self.observer.metrics()?;
        self.is_over = is_over;
        self.time = now;
        self.watch.sampled.store(now, Ordering::Relaxed);
        self.report(&metrics.fill);
        for sample in metrics.samples {
            if self.is_news(&sample) {
                let mut payload = Vec::new();
                let wall = (!self.observer.layout().time).then(now_ns);
                sampled(&sample, wall, &mut payload);
                self.due.push_back((sample.kind.get(), payload));
            }
        }
        Ok(())
    }

    /// Reports a trouble of the area once for each kind, and not for each instrument.
    fn report(&mut self, fill: &MetricsFill) {
        let now = (fill.damage, fill.refused > 0, fill.replaced > 0);
        if std::mem::replace(&mut self.known, now) != now
            && let Some(trouble) = fill.trouble()
        {
            *self.watch.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
        }
    }

    fn is_news(&mut self, sample: &MetricSample) -> bool {
        if let MetricValue::Record(_) = &sample.value {
            let before = self.described.insert(sample.at, sample.value.clone());
            return before.as_ref() != Some(&sample.value);
        }
        if sample.is_alive {
            self.settled.remove(&sample.at);
            return true;
        }
        let now = (sample.pid, sample.value.clone());
        let before = self.settled.insert(sample.at, now.clone());
        before != Some(now)
    }

    fn front(&self) -> Front {
        if self.due.is_empty() { Front::Empty } else { Front::Timestamped(self.time) }
    }
}

impl Source for MetricsSource {
    fn peek(&mut self) -> Result<Front, SourceError> {
        self.sample()?;
        Ok(self.front())
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        let Some((kind, payload)) = self.due.pop_front() else { return Ok(None) };
        self.last = payload;
        // By the clock, so that no position comes twice, also after a restart.
        let pos = self.pos.max(self.time / 8 * 8);
        let size = ring_bytes(true, false, &self.last);
        self.pos = pos.saturating_add(size);
        self.taken.records += 1;
        self.taken.bytes = self.taken.bytes.saturating_add(size);
        let front = self.front();
        let time = Some(self.time);
        let record = RecordRef { pos, kind, bytes: &self.last, time, writer: None };
        Ok(Some((Item::Record(record), front)))
    }

    fn resume_point(&self) -> ResumePoint {
        ResumePoint::new(self.id, self.pos, self.taken)
    }

    fn release(&mut self, _: &ResumePoint) {}

    fn fill(&self) -> Fill {
        Fill::default()
    }

    fn about(&self) -> About {
        let layout = self.observer.layout();
        About {
            uuid: uuid_of(layout.uuid),
            data_size: layout.metrics_size,
            policy: None,
            timed: true,
        }
    }

    fn anchors(&self) -> Anchors {
        self.observer.anchors()
    }

    fn types(&self) -> Types {
        self.observer.types()
    }

    fn has_more_types(&self, than: &Types) -> bool {
        self.observer.has_more_types(than)
    }

    fn has_producer(&self) -> bool {
        !self.is_over
    }
}

/// Returns the time, ns since 1970: for a ring without clock anchors.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or_default()
}
