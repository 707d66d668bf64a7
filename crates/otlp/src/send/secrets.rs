//! Files of secrets that may be replaced while the output runs.

use super::answer::{Answer, held};
use super::options::Route;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::SystemTime;
use ureq::http::HeaderMap;

/// The state of the files at the last request.
#[derive(Debug)]
pub(super) struct Secrets {
    headers: Option<HeaderMap>,
    certificates: Vec<Option<Stamp>>,
}

/// Differs once a file has been replaced or written.
type Stamp = (u64, SystemTime, u64);

impl Secrets {
    pub(super) fn of(route: &Route) -> Self {
        Secrets { headers: None, certificates: stamps(route) }
    }

    /// Returns whether files differ from those of the last request.
    pub(super) fn are_other(&self, route: &Route) -> bool {
        let other = || route.headers.read().is_ok_and(|now| self.headers != Some(now));
        stamps(route) != self.certificates || route.headers.can_change() && other()
    }

    /// Returns the headers of a request. `renew` is called before if certificates differ.
    pub(super) fn read(
        &mut self,
        route: &Route,
        renew: impl FnOnce() -> Result<(), String>,
    ) -> Result<HeaderMap, Answer> {
        let later = |why: String| {
            let why = held(&why, "mend the file");
            Answer::Later { after: None, why }
        };
        let now = stamps(route);
        if now != self.certificates {
            renew().map_err(later)?;
            self.certificates = now;
        }
        let headers = route.headers.read().map_err(later)?;
        if route.headers.can_change() {
            self.headers = Some(headers.clone());
        }
        Ok(headers)
    }
}

fn stamps(route: &Route) -> Vec<Option<Stamp>> {
    let (certificate, key) = route.client.as_ref().map(|(own, key)| (own, key)).unzip();
    let files = [route.certificate.as_ref(), certificate, key];
    let stamp = |file: &PathBuf| {
        let meta = file.metadata().ok()?;
        Some((meta.ino(), meta.modified().ok()?, meta.len()))
    };
    files.into_iter().flatten().map(stamp).collect()
}
