//! The configured outputs, and their problems.

use super::own;
use crate::config::OutputConfig;
use crate::config::opened::{Opened, Own};
use crate::engine::Engine;
use perfring_export::OutputError;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// State of outputs besides that of the engine.
#[derive(Default)]
pub(super) struct Outputs {
    /// The last reported problem of each output.
    troubles: HashMap<String, String>,
    /// Outputs that show the sidecar's own figures, by name.
    own: HashMap<String, Own>,
    /// Why the sidecar cannot continue with its outputs, after a reload that failed half way.
    pub(super) broken: Option<OutputError>,
}

impl Outputs {
    /// Passes the sidecar's own figures to the outputs that show them.
    pub(super) fn show_own(&self, engine: &Engine) {
        self.own.values().for_each(|figures| own::report(figures, engine));
    }

    /// Forgets the figures of a removed ring.
    pub(super) fn forget(&self, ring: &str) {
        self.own.values().for_each(|figures| own::forget(figures, ring));
    }

    pub(super) fn add(
        &mut self,
        engine: &mut Engine,
        config: &OutputConfig,
    ) -> Result<(), OutputError> {
        self.insert(engine, config, config.open()?)
    }

    fn insert(
        &mut self,
        engine: &mut Engine,
        config: &OutputConfig,
        opened: Opened,
    ) -> Result<(), OutputError> {
        let (name, filter) = (&config.name, config.filter.clone());
        engine.add_output(name, config.delivery, filter, opened.output)?;
        if let Some(figures) = opened.own {
            self.own.insert(name.clone(), figures);
        }
        Ok(())
    }

    /// Reports the problems of outputs once, and their end once.
    pub(super) fn report_troubles(&mut self, engine: &Engine, say: &mut dyn FnMut(&str)) {
        for output in engine.outputs() {
            let reported = self.troubles.get(output.name);
            match &output.figures.trouble {
                Some(trouble) if reported != Some(trouble) => {
                    say(&format!("{}: {trouble}", output.name));
                    self.troubles.insert(output.name.to_owned(), trouble.clone());
                }
                None if reported.is_some() => {
                    say(&format!("{}: recovered", output.name));
                    self.troubles.remove(output.name);
                }
                _ => {}
            }
        }
    }

    /// Opens new outputs, and closes those that were removed from the configuration.
    pub(super) fn change(
        &mut self,
        engine: &mut Engine,
        old: &[OutputConfig],
        new: &[OutputConfig],
        shutdown: Duration,
        say: &mut dyn FnMut(&str),
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
            opened.push((output, output.open()?));
        }
        let deadline = Instant::now() + shutdown;
        for (at, old) in removed.iter().enumerate() {
            let mut changed = self.close(engine, &old.name, deadline, say);
            let new = same_name.iter().find(|new| new.name == old.name);
            if let Some(new) = new
                && changed.is_ok()
            {
                changed = self.add(engine, new);
                if changed.is_err() {
                    self.back_to(engine, removed.get(at..=at).unwrap_or_default(), deadline, say);
                }
            }
            if let Err(error) = changed {
                self.back_to(engine, removed.get(..at).unwrap_or_default(), deadline, say);
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

    /// Closes an output that is removed. Reports what it does not deliver; if its delivery is
    /// required, the sidecar cannot continue.
    fn close(
        &mut self,
        engine: &mut Engine,
        name: &str,
        deadline: Instant,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), OutputError> {
        let closed = engine.remove_output(name, deadline);
        if let Err(error) = closed {
            let kept = engine.outputs().find(|output| output.name == name);
            if let Some(kept) = kept {
                if kept.failed.is_some() {
                    self.broken = Some(error.clone());
                }
                return Err(error);
            }
            say(&error.to_string());
        }
        self.own.remove(name);
        Ok(())
    }

    /// Opens these outputs again, instead of their replacements.
    fn back_to(
        &mut self,
        engine: &mut Engine,
        old: &[&OutputConfig],
        deadline: Instant,
        say: &mut dyn FnMut(&str),
    ) {
        for old in old {
            let back = self.close(engine, &old.name, deadline, say);
            let back = back.and_then(|()| self.add(engine, old));
            if let Err(error) = back {
                // The old configuration must be restored completely.
                self.broken.get_or_insert(error);
            }
        }
    }
}
