//! What tells others how the sidecar is: the endpoint, the control socket and systemd.

use super::error::StartError;
#[cfg(feature = "health")]
use super::figures::Present;
#[cfg(feature = "health")]
use super::health::Endpoint;
use super::inputs::Inputs;
use super::outputs::Outputs;
use super::requests::{Asked, Requests};
use super::status;
use super::systemd::Systemd;
use crate::config::Delivery::Required;
use crate::config::{Config, Settings};
use crate::control;
use crate::engine::Engine;
use perfring_export::InBuffer;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval at which it is found out whether the sidecar is ready.
const LOOK: Duration = Duration::from_millis(250);
/// The interval at which systemd gets the figures.
const FIGURES: Duration = Duration::from_secs(10);
/// The limit of reasons that are listed.
const REASONS: usize = 20;

/// How the sidecar is, and to whom that is reported.
pub(super) struct Service {
    systemd: Systemd,
    #[cfg(feature = "health")]
    endpoint: Option<Endpoint>,
    requests: Option<Requests>,
    /// The path of the control socket.
    control: Option<PathBuf>,
    /// The rings that were there at the start are read.
    followed: bool,
    ending: bool,
    /// Why it is not ready.
    reasons: Vec<String>,
    #[cfg(feature = "health")]
    since: Instant,
    look: Option<Instant>,
    figures: Option<Instant>,
    /// Those who asked for its end.
    pub(super) draining: Vec<Asked>,
}

impl Service {
    #[cfg_attr(not(feature = "health"), allow(unused_variables))]
    pub(super) fn open(settings: &Settings, outputs: &mut Outputs) -> Result<Self, StartError> {
        let mut service = Service {
            systemd: Systemd::default(),
            #[cfg(feature = "health")]
            endpoint: None,
            requests: None,
            control: None,
            followed: false,
            ending: false,
            reasons: vec!["it is starting".into()],
            #[cfg(feature = "health")]
            since: Instant::now(),
            look: None,
            figures: None,
            draining: Vec::new(),
        };
        if let Some(control) = &settings.control {
            let path = control.path.clone().or_else(control::default_path);
            let path = path.ok_or(StartError::ControlPath)?;
            service.requests = Some(listen(&path)?);
            service.control = Some(path);
        }
        #[cfg(feature = "health")]
        if let Some(health) = &settings.health {
            let endpoint = Endpoint::open(health)?;
            outputs.show_on(endpoint.figures());
            service.endpoint = Some(endpoint);
        }
        Ok(service)
    }

    pub(super) fn notify_systemd(&mut self) {
        self.systemd = Systemd::of_environment();
    }

    /// Returns the address of the endpoint.
    pub(super) fn address(&self) -> Option<&str> {
        #[cfg(feature = "health")]
        return self.endpoint.as_ref().map(Endpoint::address);
        #[cfg(not(feature = "health"))]
        None
    }

    /// Returns the path of the control socket.
    pub(super) fn control(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// Takes what a new configuration may change of the endpoint.
    #[cfg_attr(not(feature = "health"), allow(unused_variables))]
    pub(super) fn set_limits(&self, settings: &Settings) {
        #[cfg(feature = "health")]
        if let (Some(endpoint), Some(health)) = (&self.endpoint, &settings.health) {
            endpoint.set_loop_within(health.loop_within);
        }
    }

    /// Notes that the rings which were there at the start are read.
    pub(super) fn followed(&mut self) {
        self.followed = true;
        self.systemd.ready();
        self.look = None;
    }

    /// Notes that nothing new is read from now on.
    pub(super) fn ending(&mut self) {
        self.ending = true;
        self.look = None;
        self.systemd.stopping();
    }

    pub(super) fn reloading(&self) {
        self.systemd.reloading();
    }

    pub(super) fn reloaded(&self) {
        self.systemd.reloaded();
    }

    /// Returns the next request, without waiting.
    pub(super) fn next_request(&self) -> Option<Asked> {
        self.requests.as_ref()?.next()
    }

    /// Returns why it is not ready.
    pub(super) fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// To be called by the loop whenever it turns.
    pub(super) fn look(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        inputs: &Inputs,
        config: &Config,
    ) {
        self.systemd.alive(now);
        #[cfg(feature = "health")]
        if let Some(endpoint) = &self.endpoint
            && endpoint.turn()
        {
            let (unreadable, outputs) = (&inputs.unreadable, &*config.outputs);
            let present = Present { engine, unreadable, outputs, since: self.since };
            super::own::report(&endpoint.figures(), present);
            endpoint.gathered();
        }
        if self.look.is_some_and(|next| now < next) {
            return;
        }
        self.look = now.checked_add(LOOK);
        let reasons = self.find_reasons(now, engine, inputs, config);
        if reasons != self.reasons {
            self.reasons = reasons;
            self.figures = None;
        }
        #[cfg(feature = "health")]
        if let Some(endpoint) = &self.endpoint {
            endpoint.set_reasons(&self.reasons);
        }
        if self.figures.is_none_or(|next| now >= next) {
            self.figures = now.checked_add(FIGURES);
            let reasons = &self.reasons;
            self.systemd.status(|| match reasons.is_empty() {
                true => status::line(engine, &inputs.unreadable),
                false => reasons.join("; "),
            });
        }
    }

    fn find_reasons(
        &self,
        now: Instant,
        engine: &mut Engine,
        inputs: &Inputs,
        config: &Config,
    ) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.ending {
            reasons.push("it is ending".to_owned());
        }
        if !self.followed {
            reasons.push("rings are still being attached to".to_owned());
        }
        inputs.not_followed(|reason| config.needs(reason), &mut reasons);
        for waiting in engine.waiting(now) {
            let within = config.delivered_within(waiting.output);
            if waiting.since <= within {
                continue;
            }
            let (since, output) = (waiting.since.as_secs_f64(), waiting.output);
            let within = humantime::format_duration(within);
            let trouble = waiting.trouble.map_or(String::new(), |why| format!(": {why}"));
            reasons.push(format!(
                "{output}: what was read {since:.0}s ago is not delivered, and the limit is \
                 {within}{trouble}"
            ));
        }
        for output in engine.outputs() {
            if let Some(error) = output.failed {
                reasons.push(error.to_string());
            }
            let within = config.delivered_within(output.name);
            let stuck = output.figures.buffer.filter(|buffer| buffer.still > within);
            if let Some(InBuffer { bytes, still, .. }) =
                stuck.filter(|_| output.delivery == Required)
            {
                let (still, within) = (still.as_secs(), humantime::format_duration(within));
                let trouble =
                    output.figures.trouble.as_ref().map_or(String::new(), |why| format!(": {why}"));
                reasons.push(format!(
                    "{}: {bytes} bytes wait in its buffer, nothing was delivered for {still} s, and the limit is \
                     {within}{trouble}",
                    output.name
                ));
            }
            if let Some(why) = output.figures.refusing.filter(|_| output.delivery == Required) {
                reasons.push(format!("{}: {why}", output.name));
            }
        }
        if reasons.len() > REASONS {
            let more = reasons.len() - REASONS;
            reasons.truncate(REASONS);
            reasons.push(format!("and {more} more"));
        }
        reasons
    }
}

/// Makes the control socket, and its directory if there is none.
fn listen(path: &Path) -> Result<Requests, StartError> {
    let failed = |source| StartError::Control { path: path.to_owned(), source };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    let requests = Requests::listen(path).map_err(failed)?;
    requests.ok_or_else(|| StartError::ControlTaken { path: path.to_owned() })
}
