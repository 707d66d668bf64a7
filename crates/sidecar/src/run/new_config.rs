//! A new configuration for a running sidecar.

use super::Sidecar;
use super::positions::Positions;
use crate::config::{Config, ConfigError, Health};
use crate::log::Say;
use std::time::Duration;

impl Sidecar {
    /// Applies a new configuration; an invalid one is rejected as a whole.
    ///
    /// # Errors
    /// The sentence that says why it was not applied.
    pub(super) fn reload(
        &mut self,
        config: Result<Config, ConfigError>,
        say: &mut Say<'_>,
    ) -> Result<(), String> {
        self.service.reloading();
        let applied = self.apply(config, say);
        self.service.reloaded();
        applied
    }

    fn apply(
        &mut self,
        config: Result<Config, ConfigError>,
        say: &mut Say<'_>,
    ) -> Result<(), String> {
        let checked = config.and_then(|config| config.check().map(|()| config.settled()));
        let config = match checked {
            Ok(config) => config,
            Err(error) => return Err(format!("{error}; the old configuration stays")),
        };
        let terms = std::mem::replace(&mut self.outputs.terms, config.settings.terms());
        let (old, shutdown) = (&self.config.outputs, self.config.settings.shutdown);
        let changed = self.outputs.change(&mut self.engine, old, &config.outputs, shutdown, say);
        if let Err(error) = changed {
            self.outputs.terms = terms;
            return Err(match &self.outputs.broken {
                None => format!("{error}; the old configuration stays"),
                Some(why) => format!(
                    "{why}; the sidecar ends, and undelivered records stay in the rings: start \
                     it again"
                ),
            });
        }
        self.positions.update(self.engine.saved());
        for input in self.config.inputs.iter().filter(|input| !config.inputs.contains(input)) {
            self.engine.drop_input(input);
            self.inputs.remove(input);
        }
        for input in config.inputs.iter().filter(|input| !self.config.inputs.contains(input)) {
            if let Err(error) = self.inputs.add(input) {
                say.warn(&error);
            }
        }
        if self.outputs.terms != terms {
            say.warn("a new mode, max_backoff or directory for dead letters is used by outputs that are opened from now on");
        }
        if config.settings.delay != self.config.settings.delay {
            say.warn("a new delay is used from the next start on");
        }
        let (new, old) = (&config.settings, &self.config.settings);
        if fixed(new.health.as_ref()) != fixed(old.health.as_ref())
            || new.control != old.control
            || new.log != old.log
            || new.own != old.own
        {
            say.warn(
                "a new log, [own], [health] or [control] is used from the next start on, except for loop_within, \
                 delivered_within and not_ready_for",
            );
        }
        if config.settings.state != self.config.settings.state {
            match Positions::open(config.settings.state.as_deref()) {
                Ok(positions) => self.positions = positions,
                Err(error) => say.warn(&format!("{error}; positions are saved where they were")),
            }
        }
        self.service.set_limits(new);
        self.engine.set_snapshots(config.snapshots.clone());
        self.engine.set_record_rules(config.record_rules.clone());
        self.recorder.renew(config.settings.mode);
        self.config = config;
        say.info("the configuration was reloaded");
        Ok(())
    }
}

/// Returns what of `[health]` stays as it is until the next start.
fn fixed(health: Option<&Health>) -> Option<Health> {
    let none = Duration::ZERO;
    let fixed = Health::default();
    health.map(|health| Health {
        loop_within: none,
        delivered_within: none,
        not_ready_for: fixed.not_ready_for,
        ..health.clone()
    })
}
