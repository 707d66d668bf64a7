//! What the sidecar offers to those who run it: `[health]` and `[control]`.

use super::table::ConfigError;
use perfring_export::{check_address, check_file, check_socket, read_duration};
use perfring_set::NotRead;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[health]`: an endpoint that says how the sidecar is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// An address and a port, or `unix:` and the path of a socket.
    pub listen: String,
    /// A file with a token, which requests must have as `Authorization: Bearer TOKEN`. It is read for
    /// each request.
    pub token_file: Option<PathBuf>,
    /// A certificate, for TLS: PEM files, which are read for each connection.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The authority of the certificates that clients must have.
    pub client_ca: Option<PathBuf>,
    /// How long the sidecar's loop may take for one round.
    #[serde(deserialize_with = "read_duration")]
    pub loop_within: Duration,
    /// How long a required output may take to deliver what was read, unless it has a limit of its own.
    #[serde(deserialize_with = "read_duration")]
    pub delivered_within: Duration,
    /// The causes of unreadable rings for which the sidecar is not ready: names of [`NotRead`].
    pub not_ready_for: Vec<String>,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            listen: "127.0.0.1:9090".into(),
            token_file: None,
            certificate: None,
            key: None,
            client_ca: None,
            loop_within: Duration::from_secs(30),
            delivered_within: Duration::from_secs(30),
            // A damaged ring stays damaged: the gauge says so.
            not_ready_for: ["permission", "limit", "other"].map(str::to_owned).into(),
        }
    }
}

/// The causes of unreadable rings.
pub(crate) const REASONS: [NotRead; 4] =
    [NotRead::Permission, NotRead::Damaged, NotRead::Limit, NotRead::Other];

impl Health {
    pub(crate) fn needs(&self, reason: NotRead) -> bool {
        self.not_ready_for.iter().any(|name| name == reason.name())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |sentence: &str| Err(ConfigError(format!("[health]: {sentence}")));
        if cfg!(not(feature = "health")) {
            return wrong("this build has no health: `cargo install perfring-cli --features full`");
        }
        let is_cause = |name: &&String| REASONS.iter().any(|reason| reason.name() == *name);
        if let Some(other) = self.not_ready_for.iter().find(|name| !is_cause(name)) {
            let all = REASONS.map(NotRead::name).join(", ");
            return wrong(&format!("not_ready_for has no {other:?}: its causes are {all}"));
        }
        let has_tls = self.certificate.is_some();
        if has_tls != self.key.is_some() {
            return wrong("certificate and key go together");
        }
        if self.client_ca.is_some() && !has_tls {
            return wrong("client_ca needs a certificate and its key");
        }
        if has_tls && self.listen.starts_with("unix:") {
            return wrong("a Unix socket has no TLS: leave certificate out");
        }
        let listens = match self.listen.strip_prefix("unix:") {
            Some(path) => check_socket(Path::new(path)).and_then(|()| check_file(Path::new(path))),
            None => check_address(&self.listen)
                .map_err(|why| format!("cannot listen, as listen = {why}")),
        };
        let token = |()| self.token_file.as_deref().map_or(Ok(()), |file| token(file).map(drop));
        let checked = listens.and_then(token).and_then(|()| self.check_tls());
        checked.or_else(|why| wrong(&why))
    }

    /// Checks that the certificates can be read.
    fn check_tls(&self) -> Result<(), String> {
        #[cfg(feature = "health")]
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            let files = perfring_http::TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: self.client_ca.clone(),
            };
            return files.config().map(drop);
        }
        Ok(())
    }
}

/// Reads the token in a file.
pub(crate) fn token(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read the token in {}: {error}", file.display()))?;
    match text.trim() {
        "" => Err(format!("there is no token in {}", file.display())),
        token => Ok(token.to_owned()),
    }
}

/// `[own]`: the sidecar's own figures, to its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// The ring that it publishes them in. It is made if there is none, and read like any other.
    pub ring: PathBuf,
    /// The time between two samples.
    #[serde(deserialize_with = "read_duration", default = "ten_seconds")]
    pub interval: Duration,
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

/// `[control]`: a socket for `perfring sidecar status`, `reload`, `retry`, `snapshot` and `drain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The path of the socket: [`control::default_path`](crate::control::default_path) by default.
    pub path: Option<PathBuf>,
}
