//! The endpoint that says how the sidecar is.

use super::error::StartError;
use super::socket::{Socket, SocketFile};
use crate::config::Health;
use crate::config::service::token;
use perfring_export::prometheus::OwnFigures;
use perfring_http::{Answer, Asked, Listener, Server, TlsFiles};
use rustix::fs::Mode;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// The limit from a connection to the end of its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a page waits for its figures, which the loop gathers.
const FIGURES: Duration = Duration::from_secs(2);

/// The endpoint. It ends with this.
pub(super) struct Endpoint {
    shared: Arc<Shared>,
    address: String,
    _server: Server,
    _file: Option<SocketFile>,
}

/// What the serving thread knows.
struct Shared {
    since: Instant,
    /// When the loop turned last, ms after `since`.
    turned: AtomicU64,
    /// How long it may take to turn, ms.
    loop_within: AtomicU64,
    token_file: Option<PathBuf>,
    state: Mutex<State>,
    gathered: Condvar,
    figures: OwnFigures,
}

struct State {
    /// Why it is not ready.
    reasons: Vec<String>,
    /// Somebody waits for figures.
    wanted: bool,
}

impl Endpoint {
    pub(super) fn open(config: &Health) -> Result<Self, StartError> {
        let wrong = |why: String| StartError::Health(format!("{:?}: {why}", config.listen));
        if let Some(file) = &config.token_file {
            token(file).map_err(&wrong)?;
        }
        let (listener, file, address) = match config.listen.strip_prefix("unix:") {
            Some(path) => {
                let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
                let socket = Socket::bind(Path::new(path), mode)
                    .map_err(|error| wrong(error.to_string()))?;
                let taken = || wrong("another process listens on it: set another path".to_owned());
                let (listener, file) = socket.ok_or_else(taken)?.into_parts();
                (Listener::Unix(listener), Some(file), config.listen.clone())
            }
            None => {
                let listener =
                    TcpListener::bind(&config.listen).map_err(|error| wrong(error.to_string()))?;
                let address = listener.local_addr().map_err(|error| wrong(error.to_string()))?;
                (tls(config, listener).map_err(&wrong)?, None, address.to_string())
            }
        };
        let shared = Arc::new(Shared {
            since: Instant::now(),
            turned: AtomicU64::new(0),
            loop_within: AtomicU64::new(millis(config.loop_within)),
            token_file: config.token_file.clone(),
            state: Mutex::new(State { reasons: vec!["it is starting".into()], wanted: false }),
            gathered: Condvar::new(),
            figures: OwnFigures::default(),
        });
        let answering = Arc::clone(&shared);
        let answers = Arc::new(move |asked: &Asked| answering.answer(asked));
        let server = Server::start("health", listener, TIMEOUT, answers)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Endpoint { shared, address, _server: server, _file: file })
    }

    /// Returns where it listens.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the figures that it shows.
    pub(super) fn figures(&self) -> OwnFigures {
        self.shared.figures.clone()
    }

    /// Notes that the loop turns. Returns whether somebody waits for figures.
    pub(super) fn turn(&self) -> bool {
        // Relaxed: nothing else is published with it.
        self.shared.turned.store(self.shared.now(), Ordering::Relaxed);
        self.shared.lock().wanted
    }

    /// Notes that the figures are gathered.
    pub(super) fn gathered(&self) {
        self.shared.lock().wanted = false;
        self.shared.gathered.notify_all();
    }

    pub(super) fn set_loop_within(&self, within: Duration) {
        // Relaxed: nothing else is published with it.
        self.shared.loop_within.store(millis(within), Ordering::Relaxed);
    }

    pub(super) fn set_reasons(&self, reasons: &[String]) {
        let mut state = self.shared.lock();
        if state.reasons != reasons {
            state.reasons = reasons.to_vec();
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn tls(config: &Health, listener: TcpListener) -> Result<Listener, String> {
    let (Some(certificate), Some(key)) = (&config.certificate, &config.key) else {
        return Ok(Listener::Tcp(listener));
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: config.client_ca.clone(),
    };
    files.config()?;
    Ok(Listener::Tls(listener, files))
}

/// Compares two texts in a time that does not say where they differ.
fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

impl Shared {
    fn now(&self) -> u64 {
        millis(self.since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // consistent after a panic
    }

    fn answer(&self, asked: &Asked) -> Answer {
        if let Some(file) = &self.token_file {
            let given = asked.authorization.as_deref().and_then(|it| it.strip_prefix("Bearer "));
            match (token(file), given) {
                (Ok(token), Some(given)) if is_same(&token, given.trim()) => {}
                (Ok(_), _) => return Answer::plain(401, "this needs the bearer token\n"),
                (Err(why), _) => return Answer::plain(500, why + "\n"),
            }
        }
        match asked.path.as_str() {
            "/healthz" => said(self.stuck().as_slice()),
            "/readyz" => {
                let mut reasons: Vec<String> = self.stuck().into_iter().collect();
                reasons.extend(self.lock().reasons.iter().cloned());
                said(&reasons)
            }
            "/metrics" => {
                let mut state = self.lock();
                state.wanted = true;
                let waits = |state: &mut State| state.wanted;
                // Without the loop it shows what it has.
                drop(self.gathered.wait_timeout_while(state, FIGURES, waits));
                self.figures.answer(&asked.accept)
            }
            _ => Answer::plain(404, "there are /healthz, /readyz and /metrics\n"),
        }
    }

    /// Returns how long the loop has not turned, if that is too long.
    fn stuck(&self) -> Option<String> {
        let turned = self.turned.load(Ordering::Relaxed);
        let still = self.now().saturating_sub(turned);
        (still > self.loop_within.load(Ordering::Relaxed))
            .then(|| format!("the loop has not turned for {} s", still / 1000))
    }
}

fn said(reasons: &[String]) -> Answer {
    if reasons.is_empty() {
        return Answer::plain(200, "ok\n");
    }
    let mut text = String::new();
    for reason in reasons {
        let _ = writeln!(text, "{}", reason.replace('\n', " "));
    }
    Answer::plain(503, text)
}
