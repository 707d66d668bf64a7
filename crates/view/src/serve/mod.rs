//! A page that shows rings, and the server that it comes from.
//!
//! ```text
//! poll   the figures of all rings, five times a second     ──▶ model  rows, history, marks ──▶ route  one stream of
//! look   the records of rings that a page asks for         ──▶ taps   the last records     ──▶        events, answers
//! meters the consumers of rings that a page asks for       ──▶        latencies            ──▶
//! ```

mod assets;
mod body;
mod clock;
mod filter;
mod freeze;
mod frozen;
mod guard;
mod headline;
mod lane;
mod look;
mod measure;
mod meters;
mod model;
mod poll;
mod records;
mod route;
mod sample;
mod seen;
mod series;
mod shared;
mod shown;
mod taps;
mod timeline;
mod traces;
mod walk;
mod who;

use crate::watch::Watch;
use guard::Guard;
use model::STEP;
use perfring_http::{Accepting, Limits, Listener, accept};
use route::Site;
use shared::Shared;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;

/// What is shown, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rings, and directories of rings or of sets of rings.
    pub paths: Vec<PathBuf>,
    /// Recordings.
    pub recordings: Vec<PathBuf>,
    /// Where to listen: an address or a name, and a port, which may be 0.
    pub listen: String,
}

/// A client has to send its request in this time; what waits for it is given up after that time without progress.
const LIMITS: Limits =
    Limits { head: Duration::from_secs(10), whole: None, stalled: Some(Duration::from_secs(30)) };

/// Why there is no page.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened at.
    #[error("cannot listen at {listen}: {source}; {}", advice(source))]
    Listen {
        /// The address.
        listen: String,
        /// The system's error.
        source: io::Error,
    },
    /// A recording cannot be read.
    #[error("{}: {why}", .path.display())]
    Recording {
        /// Its path.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The system has no random numbers, or no thread.
    #[error("cannot start the page's server: {0}")]
    System(io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "another process listens there: choose another port, or 0 for a free one"
        }
        ErrorKind::PermissionDenied => {
            "ports below 1024 are not for every user: choose a higher one, or 0 for a free one"
        }
        ErrorKind::AddrNotAvailable => {
            "this machine has no such address: `ip address` lists those it has"
        }
        _ => "write an address of this machine and a port, as 127.0.0.1:0",
    }
}

/// A server of the page, until this is dropped.
///
/// ```
/// use perfring_view::serve::{Options, Server};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let listen = "127.0.0.1:0".to_owned();
/// let server = Server::start(Options { paths: vec![dir.to_owned()], recordings: Vec::new(), listen })?;
/// println!("open {}", server.url());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    url: String,
    stop: Option<oneshot::Sender<Infallible>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        self.stop = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // one that panicked has ended, too
        }
    }
}

impl Server {
    /// Starts the server and its threads.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: Options) -> Result<Self, StartError> {
        let Options { paths, recordings, listen } = options;
        let failed = |source| StartError::Listen { listen: listen.clone(), source };
        let listener = TcpListener::bind(&*listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let name = listen.rsplit_once(':').map_or(&*listen, |(name, _)| name);
        let guard = Guard::new(address, name).map_err(|error| StartError::System(error.into()))?;
        let url = format!("http://{address}/{}/", guard.token());
        let shown = paths.iter().map(|path| path.display().to_string()).collect();
        let shared = Arc::new(Shared::new(Watch::new(paths, STEP), shown));
        for path in recordings {
            let added = shared.frozen().add(&path);
            added.map_err(|why| StartError::Recording { path, why })?;
        }
        let mut server = Server { shared, address, url, stop: None, threads: Vec::new() };
        let (stop, stopped) = oneshot::channel();
        let site = Arc::new(Site { guard, shared: Arc::clone(&server.shared) });
        let started = server.threads(listener, site, stopped);
        server.stop = Some(stop);
        started.map_err(StartError::System).map(|()| server)
    }

    fn threads(
        &mut self,
        listener: TcpListener,
        site: Arc<Site>,
        stopped: oneshot::Receiver<Infallible>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            Accepting::of(Listener::Tcp(listener))?
        };
        let [polled, looked, measured] = [(); 3].map(|()| Arc::clone(&self.shared));
        self.thread("poll", move || poll::run(&polled))?;
        self.thread("look", move || look::run(&looked))?;
        self.thread("measure", move || measure::run(&measured))?;
        self.thread("page", move || {
            runtime.spawn(accept(listener, site, LIMITS));
            let _ = runtime.block_on(stopped);
            // A file that is being sent is not waited for.
            runtime.shutdown_background();
        })
    }

    fn thread(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Returns the address of the page, with the token that opens it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Returns whether only this machine can connect to an address.
///
/// ```
/// use perfring_view::serve::is_loopback;
/// assert!(is_loopback("127.0.0.1:0") && is_loopback("[::1]:80"));
/// assert!(!is_loopback("0.0.0.0:80"));
/// ```
#[must_use]
pub fn is_loopback(listen: &str) -> bool {
    let addresses = listen.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback())
}
