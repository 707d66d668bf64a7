//! The configured outputs, and their problems.

use super::figures::Present;
use super::own;
use crate::config::OutputConfig;
use crate::engine::{Engine, OutputStatus, Removed};
use crate::log::{Level, Say};
use perfring_export::{Output, OutputError, Own, Pruned, Terms, later};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The time that a stuck output has to deliver what it holds, before its successor is opened.
const STUCK: Duration = Duration::from_millis(500);

/// The interval of comparing conditions with the types of rings.
const COMPARE: Duration = Duration::from_secs(5);

/// State of outputs besides that of the engine.
#[derive(Default)]
pub(super) struct Outputs {
    /// The problems of each output that were reported since it recovered.
    troubles: HashMap<String, Reported>,
    /// When conditions are compared with the types that are known by then.
    pub(super) compare: Option<Instant>,
    /// Conditions that were reported because no record can meet them.
    unmet: HashSet<String>,
    /// How many removed files were reported of each output.
    removed: HashMap<String, u64>,
    /// Outputs that show the sidecar's own figures, by name.
    own: HashMap<String, Box<dyn Own>>,
    /// The endpoint that shows them, in builds that have one.
    page: Option<Box<dyn Own>>,
    /// What outputs have in common that are opened from now on.
    pub(super) terms: Terms,
    /// Why the sidecar cannot continue with its outputs, after a reload that failed half way.
    pub(super) broken: Option<OutputError>,
}

/// Problems of an output that were reported: a trouble that is over may uncover one that was reported before.
#[derive(Debug, Default)]
struct Reported(VecDeque<String>);

/// The limit of problems that are remembered.
const TROUBLES: usize = 8;

impl Reported {
    /// Returns whether this problem was not reported yet, and notes it.
    fn is_new(&mut self, trouble: &str) -> bool {
        if self.0.iter().any(|reported| reported == trouble) {
            return false;
        }
        self.0.truncate(TROUBLES - 1);
        self.0.push_front(trouble.to_owned());
        true
    }
}

impl Outputs {
    pub(super) fn new(terms: Terms) -> Self {
        Outputs { terms, ..Outputs::default() }
    }

    /// Passes the sidecar's own figures to the outputs that show them.
    pub(super) fn show_own(&self, present: Present<'_>) {
        let all = self.own.values();
        all.for_each(|figures| own::report(&**figures, present));
    }

    /// Shows the sidecar's own figures there, too, whenever the caller gathers them.
    #[cfg(feature = "health")]
    pub(super) fn show_on(&mut self, figures: impl Own + 'static) {
        self.page = Some(Box::new(figures));
    }

    /// Forgets the figures of a removed ring.
    pub(super) fn forget(&self, ring: &str) {
        let all = self.own.values().chain(&self.page);
        all.for_each(|figures| own::forget(&**figures, ring));
    }

    pub(super) fn add(
        &mut self,
        engine: &mut Engine,
        config: &OutputConfig,
    ) -> Result<(), OutputError> {
        self.insert(engine, config, config.open(&self.terms)?)
    }

    fn insert(
        &mut self,
        engine: &mut Engine,
        config: &OutputConfig,
        output: Box<dyn Output>,
    ) -> Result<(), OutputError> {
        let (name, filter) = (&config.name, config.filter.clone());
        let own = output.own();
        engine.add_output(name, config.delivery, filter, output)?;
        if let Some(figures) = own {
            self.own.insert(name.clone(), figures);
        }
        Ok(())
    }

    /// Reports the problems of outputs once, and their end once.
    pub(super) fn report_troubles(&mut self, engine: &Engine, say: &mut Say<'_>) {
        for output in engine.outputs() {
            let Pruned { files, bytes, last } = &output.figures.removed;
            let reported = self.removed.get(output.name).copied().unwrap_or(0);
            if *files != reported {
                let text = format!(
                    "removed finished files, as it keeps so many: {files} with {bytes} bytes so far, \
                     the last one {}",
                    last.display()
                );
                say.of(output.name, Level::Info, &text);
                self.removed.insert(output.name.to_owned(), *files);
            }
            match &output.figures.trouble {
                Some(trouble) => {
                    if self.troubles.entry(output.name.to_owned()).or_default().is_new(trouble) {
                        say.of(output.name, Level::Warn, trouble);
                    }
                }
                None => {
                    if self.troubles.remove(output.name).is_some() {
                        say.of(output.name, Level::Info, "recovered");
                    }
                }
            }
        }
    }

    /// Reports outputs and rules with conditions that no record of the known types can meet, once each.
    pub(super) fn report_unmet(&mut self, engine: &Engine, say: &mut Say<'_>) {
        self.compare = Some(later(Instant::now(), COMPARE));
        for (whose, why) in engine.unmet() {
            let text = format!("{whose} selects nothing: where: {why}");
            if self.unmet.insert(text.clone()) {
                say.warn(&text);
            }
        }
    }

    /// Opens new outputs, and closes those that were removed from the configuration. An output that
    /// is changed is closed first, and its successor goes on where it stopped, also if it is stuck.
    pub(super) fn change(
        &mut self,
        engine: &mut Engine,
        old: &[OutputConfig],
        new: &[OutputConfig],
        shutdown: Duration,
        say: &mut Say<'_>,
    ) -> Result<(), OutputError> {
        let is_in = |all: &[OutputConfig], output: &OutputConfig| {
            all.iter().any(|other| other.is_as(output))
        };
        let removed: Vec<&OutputConfig> = old.iter().filter(|output| !is_in(new, output)).collect();
        let new = new.iter().filter(|output| !is_in(old, output));
        // Outputs with new names are opened while all others continue.
        let (same_name, fresh): (Vec<_>, Vec<_>) =
            new.partition(|output| removed.iter().any(|removed| removed.name == output.name));
        let mut opened = Vec::new();
        for output in fresh {
            opened.push((output, output.open(&self.terms)?));
        }
        for (at, old) in removed.iter().enumerate() {
            let new = same_name.iter().find(|new| new.name == old.name);
            let closed = self.close(engine, &old.name, shutdown);
            let Some(new) = new else {
                if let Some(error) = closed.and_then(|closed| closed.error) {
                    let sentence =
                        format!("{}; it is removed, and does not get them", error.sentence);
                    say.of(&error.output, Level::Warn, &sentence);
                }
                continue;
            };
            let changed = self.succeed(engine, new, closed);
            if let Err((error, closed)) = changed {
                let back = self.succeed(engine, old, closed);
                if let Err((error, _)) = back {
                    self.broken.get_or_insert(error);
                }
                let before = removed.get(..at).unwrap_or_default();
                self.back_to(engine, before, &same_name, shutdown);
                return Err(error);
            }
        }
        for (config, output) in opened {
            if let Err(error) = self.insert(engine, config, output) {
                self.broken = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Closes an output, and returns what its successor continues. One in trouble has little time.
    fn close(&mut self, engine: &mut Engine, name: &str, shutdown: Duration) -> Option<Removed> {
        let is_it = |output: &OutputStatus<'_>| output.name == name;
        let stuck = engine.outputs().find(is_it).is_some_and(|output| {
            output.is_behind || output.figures.trouble.is_some() || output.failed.is_some()
        });
        let within = if stuck { shutdown.min(STUCK) } else { shutdown };
        self.own.remove(name);
        engine.remove_output(name, later(Instant::now(), within))
    }

    /// Opens the successor of a closed output; returns what it would have continued if it cannot be
    /// opened.
    fn succeed(
        &mut self,
        engine: &mut Engine,
        config: &OutputConfig,
        closed: Option<Removed>,
    ) -> Result<(), (OutputError, Option<Removed>)> {
        let output = match config.open(&self.terms) {
            Ok(output) => output,
            Err(error) => return Err((error, closed)),
        };
        let (name, filter) = (&config.name, config.filter.clone());
        let closed = closed.unwrap_or_default();
        let own = output.own();
        engine
            .add_successor(name, config.delivery, filter, output, closed)
            .map_err(|error| (error, None))?;
        if let Some(figures) = own {
            self.own.insert(name.clone(), figures);
        }
        Ok(())
    }

    /// Opens these outputs again, instead of their successors.
    fn back_to(
        &mut self,
        engine: &mut Engine,
        old: &[&OutputConfig],
        new: &[&OutputConfig],
        shutdown: Duration,
    ) {
        for old in old {
            let closed = match new.iter().any(|new| new.name == old.name) {
                true => self.close(engine, &old.name, shutdown),
                false => None, // it was removed for good
            };
            if let Err((error, _)) = self.succeed(engine, old, closed) {
                // The old configuration must be restored completely.
                self.broken.get_or_insert(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_that_another_one_has_covered_is_reported_once() {
        let mut reported = Reported::default();
        let new = ["refused", "503", "refused", "503"].map(|trouble| reported.is_new(trouble));
        assert_eq!(new, [true, true, false, false]);
        (0..TROUBLES).for_each(|nth| assert!(reported.is_new(&nth.to_string())));
        assert!(reported.is_new("refused") && !reported.is_new("refused"));
    }
}
