//! Answers to requests over the control socket.

use super::figures::Present;
use super::{DEATHS, Reload, Sidecar, status};
use crate::config::Input;
use crate::control::Request;
use crate::log::Say;
use crate::signals::Signals;
use perfring_export::later;
use serde_json::{Value, json};
use signal_hook::consts::SIGTERM;
use std::time::Instant;

impl Sidecar {
    /// Answers all requests that came. Without `reload` it is ending, and does nothing new.
    pub(super) fn answer_requests(
        &mut self,
        signals: &Signals,
        mut reload: Option<Reload<'_>>,
        say: &mut Say<'_>,
    ) {
        while let Some(asked) = self.service.next_request() {
            match (asked.request.clone(), &mut reload) {
                (Request::Status, _) => {
                    asked.done(json!({ "status": self.status(), "line": self.line() }));
                }
                (Request::Drain, _) => {
                    signals.stop(SIGTERM);
                    self.service.draining.push(asked); // answered at the end
                }
                (Request::Retry { output }, _) => match self.retry(output.as_deref()) {
                    Ok(retried) => asked.done(json!({ "retried": retried })),
                    Err(sentence) => asked.refuse(&sentence),
                },
                (_, None) => asked.refuse("it is ending"),
                (Request::Reload, Some(reload)) => match self.reload(reload(), say) {
                    Ok(()) => asked.done(json!({})),
                    Err(sentence) => {
                        say.warn(&sentence);
                        asked.refuse(&sentence);
                    }
                },
                (Request::Snapshot, Some(_)) => match self.snapshot_all(say) {
                    Ok(numbers) => self.recorder.answer(asked, numbers),
                    Err(sentence) => asked.refuse(&sentence),
                },
            }
        }
    }

    /// Ends the pauses of all outputs, and of inputs, or those of one output. Returns the outputs that paused.
    fn retry(&mut self, output: Option<&str>) -> Result<Vec<String>, String> {
        match output {
            None => self.inputs.retry(),
            Some(name) if self.engine.outputs().any(|output| output.name == name) => {}
            Some(name) => {
                let all: Vec<&str> = self.engine.outputs().map(|output| output.name).collect();
                let all = all.join(", ");
                return Err(format!("no output is called {name:?}: the outputs are {all}"));
            }
        }
        Ok(self.engine.retry(output))
    }

    /// Keeps what overwrite rings hold, by each rule, on request. Returns the numbers of the snapshots.
    fn snapshot_all(&mut self, say: &mut Say<'_>) -> Result<Vec<u64>, String> {
        if self.config.snapshots.is_empty() {
            let sentence = "no snapshot is written: no [[snapshot]] names a directory";
            say.warn(sentence);
            return Err(sentence.to_owned());
        }
        let rules = self.config.snapshots.iter().enumerate();
        let taken = rules.filter_map(|(at, rule)| {
            self.recorder.snapshot(at, rule, "signal", true, &self.engine, say)
        });
        Ok(taken.collect())
    }

    /// Keeps what overwrite rings hold, by the rules that are met, and if a signal asks for it.
    pub(super) fn take_snapshots(&mut self, signals: &Signals, now: Instant, say: &mut Say<'_>) {
        if signals.take_snapshot() {
            let _ = self.snapshot_all(say); // which says that there is no rule
        }
        let met = self.engine.met();
        let mut died = Vec::new();
        if self.config.snapshots.iter().any(|rule| rule.waits_for_death())
            && now >= self.timers.deaths
        {
            self.timers.deaths = later(now, DEATHS);
            died = self.engine.deaths();
        }
        for (at, rule) in self.config.snapshots.iter().enumerate() {
            let on_death = rule.waits_for_death() && !died.is_empty();
            if met & (1 << at.min(63)) != 0 || on_death {
                self.recorder.snapshot(at, rule, &rule.reason(), false, &self.engine, say);
            }
        }
    }

    /// Says what is read and written, and the addresses of the sidecar itself.
    pub(super) fn report_start(&self, say: &mut Say<'_>) {
        let inputs: Vec<String> = self.config.inputs.iter().map(Input::what).collect();
        let outputs = self.config.outputs.iter().map(|output| match &output.listen {
            Some(address) => format!("{} at {address}", output.name),
            None => output.name.clone(),
        });
        let outputs: Vec<String> = outputs.collect();
        let outputs = match outputs.is_empty() {
            true => "writes snapshots only".to_owned(),
            false => format!("writes to {}", outputs.join(", ")),
        };
        let health = self.service.address().map(|address| format!("; [health] at {address}"));
        let control = self.service.control();
        let control = control.map(|path| format!("; [control] at {}", path.display()));
        say.info(&format!(
            "started: reads {}; {outputs}{}{}",
            inputs.join(", "),
            health.unwrap_or_default(),
            control.unwrap_or_default()
        ));
    }

    /// Formats the figures in one line.
    pub(super) fn line(&self) -> String {
        status::line(&self.engine, &self.inputs.unreadable)
    }

    pub(super) fn present(&self) -> Present<'_> {
        Present {
            engine: &self.engine,
            unreadable: &self.inputs.unreadable,
            outputs: &self.config.outputs,
            since: self.since,
        }
    }

    /// Returns all figures as JSON.
    pub(super) fn status(&self) -> Value {
        let mut all = status::json(self.present());
        let reasons = self.service.reasons();
        all["ready"] = reasons.is_empty().into();
        all["not_ready"] = reasons.into();
        if let Some(address) = self.service.address() {
            all["health"] = address.into();
        }
        if let Some(trouble) = self.recorder.trouble() {
            all["snapshots_trouble"] = trouble.into();
        }
        all
    }
}
