//! Figures of the program itself, served beside those of rings.

use super::names;
use super::page::Page;
use super::text::{self, Format, Labels, Sort};
use perfring_events::Own;
use perfring_http::Answer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Figures of the serving program: set by name and labels, at any time. Clones share the same
/// figures.
///
/// Names are mangled like those of records. All figures of one name must have one kind: the first
/// one's.
///
/// ```
/// use perfring_prometheus::OwnFigures;
/// let own = OwnFigures::default();
/// own.counter("perfring.records", "records read", &[("ring", "shop")], 17.0);
/// own.gauge("perfring.memory", "bytes in use", &[], 4096.0);
/// own.forget(&[("ring", "shop")]); // that ring was removed
/// ```
#[derive(Clone, Debug, Default)]
pub struct OwnFigures {
    families: Arc<Mutex<BTreeMap<String, Family>>>,
}

#[derive(Debug)]
struct Family {
    sort: Sort,
    help: String,
    values: BTreeMap<Labels, f64>,
}

impl OwnFigures {
    /// Sets a counter, which only grows; `_total` is appended to its name if it is missing.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.set(names::metric(name, "", true, false), Sort::Counter, help, labels, value);
    }

    /// Sets a gauge.
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.set(names::metric(name, "", false, true), Sort::Gauge, help, labels, value);
    }

    /// Forgets all figures that have all of these labels.
    pub fn forget(&self, labels: &[(&str, &str)]) {
        let labels = sorted(labels);
        for family in self.lock().values_mut() {
            family.values.retain(|its, _| !labels.iter().all(|label| its.contains(label)));
        }
    }

    /// Returns all of them as a page, in the format that a client prefers by its header `Accept`.
    #[must_use]
    pub fn answer(&self, accept: &str) -> Answer {
        let format = Format::of(accept);
        let mut page = Page::new(format);
        self.write(&mut page);
        Answer { status: 200, content_type: format.content_type(), body: page.finish() }
    }

    fn set(&self, name: String, sort: Sort, help: &str, labels: &[(&str, &str)], value: f64) {
        let mut families = self.lock();
        let family = families.entry(name).or_insert_with(|| Family {
            sort,
            help: help.to_owned(),
            values: BTreeMap::new(),
        });
        if family.sort == sort {
            family.values.insert(sorted(labels), value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Family>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner) // maps are consistent after a panic
    }

    pub(super) fn write(&self, page: &mut Page) {
        for (name, family) in &*self.lock() {
            if family.values.is_empty() {
                continue;
            }
            page.family(name, family.sort, &family.help);
            for (labels, value) in &family.values {
                page.sample(name, labels, *value);
            }
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }
}

impl Own for OwnFigures {
    fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        OwnFigures::counter(self, name, help, labels, value);
    }

    fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        OwnFigures::gauge(self, name, help, labels, value);
    }

    fn forget(&self, labels: &[(&str, &str)]) {
        OwnFigures::forget(self, labels);
    }
}

fn sorted(labels: &[(&str, &str)]) -> Labels {
    let labels = labels.iter().map(|(name, value)| (names::label(name), text::value(value)));
    labels.collect::<BTreeMap<_, _>>().into_iter().collect()
}
