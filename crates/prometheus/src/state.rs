//! What is served: figures of rings, of their processes, and of this output.

use super::figures::OwnFigures;
use super::labels;
use super::lives::Lives;
use super::page::Page;
use super::series::{LeftOut, Limits, ProcessId, Series};
use super::text::{self, Format, Labels, Sort};
use perfring_events::{
    Origin,
    processes::Processes,
    signal::{Fault, Reported, Resource, Resources},
};
use perfring_http::Answer;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The prefix of this output's own figures.
const OWN: &str = "perfring_prometheus_";
/// The limit of processes whose label is remembered.
const PIDS: usize = 1 << 16;
/// Why a sample that is one may have no series.
const REASONS: [&str; 3] =
    [LeftOut::TooMany.reason(), LeftOut::NameTaken.reason(), LeftOut::OtherBounds.reason()];
const TARGET: &str = "target_info";

/// The state of the serving thread.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) own: OwnFigures,
    scrapes: AtomicU64,
    target_info: Option<Told>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) series: Series,
    pub(super) resources: Resources,
    processes: Processes,
    /// The label `process_pid` of each process.
    pids: HashMap<ProcessId, u32>,
    /// Present rings.
    rings: HashMap<u32, Ring>,
    lives: Lives,
    /// How long what a dead process reported is served.
    expire: Duration,
    /// Samples that are left out, by reason.
    left_out: BTreeMap<&'static str, u64>,
}

/// What `target_info` needs of a ring.
#[derive(Debug)]
struct Ring {
    name: String,
    uuid: [u8; 16],
}

/// Which labels tell processes apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) ring: bool,
    pub(super) pid: bool,
}

impl Shared {
    /// `target_info` says by which labels resources are served, if at all.
    pub(super) fn new(limits: Limits, target_info: Option<Told>) -> Self {
        let series = Series::new(limits);
        let state = State {
            series,
            resources: Resources::default(),
            processes: Processes::default(),
            pids: HashMap::new(),
            rings: HashMap::new(),
            lives: Lives::default(),
            expire: limits.expire,
            left_out: REASONS.into_iter().chain(Fault::CAUSES).map(|reason| (reason, 0)).collect(),
        };
        let scrapes = AtomicU64::new(0);
        Shared { state: Mutex::new(state), own: OwnFigures::default(), scrapes, target_info }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // consistent after a panic
    }

    /// Returns the page in the format that a client prefers.
    pub(super) fn answer(&self, accept: &str) -> Answer {
        let format = Format::of(accept);
        Answer { status: 200, content_type: format.content_type(), body: self.page(format) }
    }

    pub(super) fn page(&self, format: Format) -> Vec<u8> {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut page = Page::new(format);
        let mut state = self.lock();
        state.expire(Instant::now());
        state
            .series
            .write(&mut page, |name| self.own.has(name) || name.starts_with(OWN) || name == TARGET);
        if let Some(told) = self.target_info {
            state.targets(told, &mut page);
        }
        let (figures, left_out) = (state.series.figures, state.left_out.clone());
        drop(state);
        let name = format!("{OWN}series");
        page.family(&name, Sort::Gauge, "series from rings");
        page.sample(&name, &Labels::new(), figures.series as f64);
        let name = format!("{OWN}left_out_samples_total");
        page.family(&name, Sort::Counter, "samples that are in no series");
        for (reason, value) in left_out {
            let labels = vec![("reason".to_owned(), reason.to_owned())];
            page.sample(&name, &labels, value as f64);
        }
        let name = format!("{OWN}scrapes_total");
        page.family(&name, Sort::Counter, "requests for this page");
        page.sample(&name, &Labels::new(), scrapes as f64);
        self.own.write(&mut page);
        page.finish()
    }
}

impl State {
    /// Counts a sample that is left out.
    pub(super) fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// Learns from a resource.
    pub(super) fn learn(&mut self, origin: &Origin, resource: &Resource<'_>) {
        self.resources.learn(origin, resource);
        let pid = resource.common.pid.and_then(|pid| u32::try_from(pid).ok());
        if let (Some(pid), Some(start)) = (pid, resource.start) {
            self.processes.started(origin, pid, start);
        }
        if let Some(pid) = resource.common.pid {
            self.pid_label(origin, pid);
            self.lives.seen((origin.id, pid));
        }
    }

    /// Handles a new ring.
    pub(super) fn ring_began(&mut self, origin: &Origin) {
        let ring = Ring { name: origin.name.clone(), uuid: origin.uuid };
        self.rings.insert(origin.id, ring);
    }

    /// Notes that a process has published something.
    pub(super) fn seen(&mut self, process: ProcessId) {
        self.lives.seen(process);
    }

    /// Learns the producers of a ring that are alive.
    pub(super) fn producers(&mut self, origin: &Origin, alive: &[u32], now: Instant) {
        let of_ring = self.rings.iter().filter(|(_, ring)| ring.uuid == origin.uuid);
        of_ring.for_each(|(id, _)| self.lives.learn(*id, alive, now));
    }

    /// Forgets what is served no longer: of removed rings and dead processes.
    pub(super) fn expire(&mut self, now: Instant) {
        let dead = self.lives.expire(now, self.expire);
        dead.iter().for_each(|(ring, pid)| self.resources.forget_process(*ring, *pid));
        self.series.expire(now, &dead);
    }

    /// Returns the value of `process_pid`: one number for each process, see [`Processes`].
    pub(super) fn pid_label(&mut self, origin: &Origin, pid: u64) -> String {
        let Ok(known) = u32::try_from(pid) else { return pid.to_string() };
        let number = self.processes.number(origin, known);
        if self.pids.len() >= PIDS {
            self.pids.clear();
        }
        self.pids.insert((origin.id, pid), number);
        number.to_string()
    }

    /// Handles a removed ring.
    pub(super) fn ring_ended(&mut self, origin: &Origin) {
        self.series.ring_ended(origin.id, Instant::now());
        self.resources.forget(origin.id);
        self.rings.remove(&origin.id);
        self.lives.ended(origin.id);
        self.processes.ended(origin);
        self.pids.retain(|(ring, _), _| *ring != origin.id);
    }

    /// `target_info`: one line for each set of labels that tells samples apart, so that a join with it finds one. Of several
    /// live processes, the line has the attributes in which they agree; of dead ones alone, those of the last.
    fn targets(&self, told: Told, page: &mut Page) {
        let mut groups: BTreeMap<(Option<&str>, Option<u64>), Vec<_>> = BTreeMap::new();
        for (id, pid, reported) in self.resources.iter() {
            let number = self.pids.get(&(id, pid)).copied().map_or(pid, u64::from);
            let Some(ring) = self.rings.get(&id) else { continue };
            let dead = self.lives.dead_since((id, pid));
            let group = (told.ring.then_some(&*ring.name), told.pid.then_some(number));
            groups.entry(group).or_default().push((dead, attributes(&ring.name, number, reported)));
        }
        if groups.is_empty() {
            return;
        }
        page.family(TARGET, Sort::Gauge, "attributes of the processes");
        for mut group in groups.into_values() {
            if group.iter().any(|(dead, _)| dead.is_none()) {
                group.retain(|(dead, _)| dead.is_none());
            } else {
                let last = group.iter().map(|(dead, _)| *dead).max().flatten();
                group.retain(|(dead, _)| *dead == last);
            }
            let mut all = group.into_iter().map(|(_, labels)| labels);
            let mut labels = all.next().unwrap_or_default();
            for other in all {
                labels.retain(|name, value| other.get(name) == Some(value));
            }
            page.sample(TARGET, &labels.into_iter().collect(), 1.0);
        }
    }
}

/// Returns the labels of a process.
fn attributes(ring: &str, number: u64, reported: &Reported) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    labels.insert("ring".to_owned(), text::value(ring));
    labels.insert("process_pid".to_owned(), number.to_string());
    let own = |name: &str| name == "process.pid" || name == "perfring.ring.name";
    let attributes = reported.attributes.iter().filter(|(name, _)| !own(name));
    labels::add(&mut labels, attributes.map(|(name, value)| (&**name, value)));
    labels
}
