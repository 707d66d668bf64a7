//! The outputs as they are configured, and what is wrong with them.

use super::own;
use crate::config::OutputConfig;
use crate::config::opened::{Opened, Own};
use crate::engine::Engine;
use perfring_export::OutputError;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What is known of outputs besides what the engine knows.
#[derive(Default)]
pub(super) struct Outputs {
    /// What each output was in trouble with, when it was last told.
    troubles: HashMap<String, String>,
    /// Outputs that show the sidecar's own figures, by name.
    own: HashMap<String, Own>,
    /// Why the sidecar cannot go on with the outputs that it has, after a reload that went wrong
    /// half way.
    pub(super) broken: Option<OutputError>,
}

impl Outputs {
    /// Gives the sidecar's own figures to those that show them.
    pub(super) fn show_own(&self, engine: &Engine) {
        self.own.values().for_each(|figures| own::report(figures, engine));
    }

    /// A ring is gone.
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

    /// Says once what is wrong with outputs, and once that it is not any more.
    pub(super) fn report_troubles(&mut self, engine: &Engine, say: &mut dyn FnMut(&str)) {
        for output in engine.outputs() {
            let reported = self.troubles.get(output.name);
            match &output.figures.trouble {
                Some(trouble) if reported != Some(trouble) => {
                    say(&format!("{}: {trouble}", output.name));
                    self.troubles.insert(output.name.to_owned(), trouble.clone());
                }
                None if reported.is_some() => {
                    say(&format!("{}: goes on", output.name));
                    self.troubles.remove(output.name);
                }
                _ => {}
            }
        }
    }

    /// Opens what is new, and closes what is not wanted any more.
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
        let gone: Vec<&OutputConfig> = old.iter().filter(|output| !is_in(new, output)).collect();
        let new = new.iter().filter(|output| !is_in(old, output));
        // Those whose place nobody has are opened while all others go on.
        let (same_name, fresh): (Vec<_>, Vec<_>) =
            new.partition(|output| gone.iter().any(|gone| gone.name == output.name));
        let mut opened = Vec::new();
        for output in fresh {
            opened.push((output, output.open()?));
        }
        let deadline = Instant::now() + shutdown;
        for (at, old) in gone.iter().enumerate() {
            let mut changed = self.close(engine, &old.name, deadline, say);
            let new = same_name.iter().find(|new| new.name == old.name);
            if let Some(new) = new
                && changed.is_ok()
            {
                changed = self.add(engine, new);
                if changed.is_err() {
                    self.back_to(engine, gone.get(at..=at).unwrap_or_default(), deadline, say);
                }
            }
            if let Err(error) = changed {
                self.back_to(engine, gone.get(..at).unwrap_or_default(), deadline, say);
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

    /// Closes an output that is to go. What it does not deliver is told; if it must deliver all,
    /// the sidecar cannot go on.
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

    /// Puts back these, in the place of what came for them.
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
                // Not one output less than was asked for.
                self.broken.get_or_insert(error);
            }
        }
    }
}
