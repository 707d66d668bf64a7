//! What is served: figures of rings, of their processes, and of this output.

use super::figures::OwnFigures;
use super::labels;
use super::series::{LeftOut, Limits, ProcessId, Series};
use super::server::Answer;
use super::text::{self, Format, Labels, Page, Sort};
use crate::model::event::Origin;
use crate::model::processes::Processes;
use crate::model::signal::{Fault, Resource, Resources};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    target_info: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) series: Series,
    pub(super) resources: Resources,
    processes: Processes,
    /// The label `process_pid` of each process.
    pids: HashMap<ProcessId, u32>,
    /// Names of present rings.
    pub(super) rings: HashMap<u32, String>,
    /// Samples that are left out, by reason.
    left_out: BTreeMap<&'static str, u64>,
}

impl Shared {
    pub(super) fn new(limits: Limits, target_info: bool) -> Self {
        let series = Series::new(limits);
        let state = State {
            series,
            resources: Resources::default(),
            processes: Processes::default(),
            pids: HashMap::new(),
            rings: HashMap::new(),
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
        Answer { status: 200, content_type: format.content_type(), text: self.page(format) }
    }

    pub(super) fn page(&self, format: Format) -> String {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut page = Page::new(format);
        let mut state = self.lock();
        state.series.expire(Instant::now());
        state
            .series
            .write(&mut page, |name| self.own.has(name) || name.starts_with(OWN) || name == TARGET);
        if self.target_info {
            state.targets(&mut page);
        }
        let (figures, left_out) = (state.series.figures, state.left_out.clone());
        drop(state);
        let name = format!("{OWN}series");
        page.family(&name, Sort::Gauge, "series from rings");
        page.sample(&name, &Labels::new(), None, figures.series as f64);
        let name = format!("{OWN}left_out_samples_total");
        page.family(&name, Sort::Counter, "samples that are in no series");
        for (reason, value) in left_out {
            let labels = vec![("reason".to_owned(), reason.to_owned())];
            page.sample(&name, &labels, None, value as f64);
        }
        let name = format!("{OWN}scrapes_total");
        page.family(&name, Sort::Counter, "requests for this page");
        page.sample(&name, &Labels::new(), None, scrapes as f64);
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
        resource.common.pid.into_iter().for_each(|pid| drop(self.pid_label(origin, pid)));
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
        self.processes.ended(origin);
        self.pids.retain(|(ring, _), _| *ring != origin.id);
    }

    /// `target_info`.
    fn targets(&self, page: &mut Page) {
        let mut lines: BTreeMap<Labels, ()> = BTreeMap::new();
        for (ring, pid, reported) in self.resources.iter() {
            let number = self.pids.get(&(ring, pid)).copied().map_or(pid, u64::from);
            let Some(ring) = self.rings.get(&ring) else { continue };
            let mut labels = BTreeMap::new();
            labels.insert("ring".to_owned(), text::value(ring));
            labels.insert("process_pid".to_owned(), number.to_string());
            let own = |name: &str| name == "process.pid" || name == "perfring.ring.name";
            let attributes = reported.attributes.iter().filter(|(name, _)| !own(name));
            labels::add(&mut labels, attributes.map(|(name, value)| (&**name, value)));
            lines.insert(labels.into_iter().collect(), ());
        }
        if !lines.is_empty() {
            page.family(TARGET, Sort::Gauge, "attributes of the processes");
            for labels in lines.keys() {
                page.sample(TARGET, labels, None, 1.0);
            }
        }
    }
}
