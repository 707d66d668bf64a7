//! The instruments of a recorder, by their keys.

use metrics::{Key, KeyName, SharedString, Unit};
use perfring_producer::types::Class;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The instruments of a recorder.
#[derive(Debug)]
pub(super) struct Known<I>(Mutex<Names<I>>);

#[derive(Debug)]
struct Names<I> {
    described: HashMap<(Class, String), (&'static str, String)>,
    instruments: HashMap<(Class, Key), I>,
}

impl<I: Clone> Known<I> {
    pub(super) fn new() -> Self {
        Known(Mutex::new(Names { described: HashMap::new(), instruments: HashMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Names<I>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // maps are whole after a panic
    }

    pub(super) fn describe(
        &self,
        class: Class,
        name: KeyName,
        unit: Option<Unit>,
        description: SharedString,
    ) {
        let what = (unit.map_or("", ucum), description.into_owned());
        self.lock().described.insert((class, name.as_str().to_owned()), what);
    }

    /// Returns the instrument of this key; `make` makes it of unit and description at the first call.
    pub(super) fn instrument(
        &self,
        class: Class,
        key: &Key,
        make: impl FnOnce(&'static str, String) -> I,
    ) -> I {
        let known = self.lock();
        if let Some(found) = known.instruments.get(&(class, key.clone())) {
            return found.clone();
        }
        let described = known.described.get(&(class, key.name().to_owned()));
        let (unit, description) = described.cloned().unwrap_or_default();
        // This may wait for the table's lock. Registering a type twice is harmless.
        drop(known);
        let made = make(unit, description);
        self.lock().instruments.entry((class, key.clone())).or_insert(made).clone()
    }
}

/// Gives each recorder's descriptions to its instruments.
macro_rules! describe {
    () => {
        fn describe_counter(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
            self.known.describe(Class::Sum, name, unit, description);
        }

        fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
            self.known.describe(Class::Gauge, name, unit, description);
        }

        fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
            self.known.describe(Class::Histogram, name, unit, description);
        }
    };
}
pub(super) use describe;

/// Returns the unit's UCUM code.
fn ucum(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "1",
        Unit::Percent => "%",
        Unit::Seconds => "s",
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "us",
        Unit::Nanoseconds => "ns",
        Unit::Tebibytes => "TiBy",
        Unit::Gibibytes => "GiBy",
        Unit::Mebibytes => "MiBy",
        Unit::Kibibytes => "KiBy",
        Unit::Bytes => "By",
        Unit::TerabitsPerSecond => "Tbit/s",
        Unit::GigabitsPerSecond => "Gbit/s",
        Unit::MegabitsPerSecond => "Mbit/s",
        Unit::KilobitsPerSecond => "kbit/s",
        Unit::BitsPerSecond => "bit/s",
        Unit::CountPerSecond => "1/s",
    }
}
