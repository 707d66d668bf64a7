//! What is reported to systemd: `sd_notify(3)`.

use sd_notify::{NotifyState, notify, watchdog_enabled};
use std::time::{Duration, Instant};

/// The service manager of this process. Without one, or if it does not ask, nothing is sent; an
/// error of that is ignored, as there is nobody to report it to.
#[derive(Debug, Default)]
pub(super) struct Systemd {
    on: bool,
    /// Half of the watchdog's time.
    watchdog: Option<Duration>,
    alive: Option<Instant>,
    status: String,
    ready: bool,
}

impl Systemd {
    /// Finds it in the environment.
    pub(super) fn of_environment() -> Self {
        let on = std::env::var_os("NOTIFY_SOCKET").is_some();
        let watchdog = watchdog_enabled().map(|within| within / 2);
        Systemd { on, watchdog: watchdog.filter(|_| on), ..Systemd::default() }
    }

    /// Tells it that the sidecar reads rings, once.
    pub(super) fn ready(&mut self) {
        if self.on && !std::mem::replace(&mut self.ready, true) {
            let _ = notify(&[NotifyState::Ready]);
        }
    }

    /// Tells it that the configuration is read again, until [`Systemd::reloaded`].
    pub(super) fn reloading(&self) {
        if self.on {
            let now = NotifyState::monotonic_usec_now();
            let _ = now.and_then(|now| notify(&[NotifyState::Reloading, now]));
        }
    }

    pub(super) fn reloaded(&self) {
        if self.on && self.ready {
            let _ = notify(&[NotifyState::Ready]);
        }
    }

    pub(super) fn stopping(&self) {
        if self.on {
            let _ = notify(&[NotifyState::Stopping]);
        }
    }

    /// Tells its watchdog that the loop turns: to be called by the loop.
    pub(super) fn alive(&mut self, now: Instant) {
        let Some(within) = self.watchdog else { return };
        if self.alive.is_none_or(|last| now.duration_since(last) >= within) {
            self.alive = Some(now);
            let _ = notify(&[NotifyState::Watchdog]);
        }
    }

    /// Tells it what the sidecar is doing, if that has changed.
    pub(super) fn status(&mut self, status: impl FnOnce() -> String) {
        if !self.on {
            return;
        }
        let status = status().replace('\n', "; ");
        if status != self.status {
            let _ = notify(&[NotifyState::Status(&status)]);
            self.status = status;
        }
    }
}
