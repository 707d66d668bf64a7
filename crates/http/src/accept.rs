//! Takes connections, a bounded number of them.

#[cfg(feature = "tls")]
use crate::tls::TlsFiles;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_tcp_user_timeout;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// Bytes of a request's head.
const HEAD: usize = 16 << 10;
/// The pause after an accept that failed, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a server listens.
#[derive(Debug)]
pub enum Listener {
    /// At an address and a port.
    Tcp(TcpListener),
    /// At a Unix socket.
    Unix(UnixListener),
    /// At an address and a port, by TLS.
    #[cfg(feature = "tls")]
    Tls(TcpListener, TlsFiles),
}

/// A listener of a runtime.
#[derive(Debug)]
pub enum Accepting {
    /// At an address and a port.
    Tcp(tokio::net::TcpListener),
    /// At a Unix socket.
    Unix(tokio::net::UnixListener),
    /// At an address and a port, by TLS.
    #[cfg(feature = "tls")]
    Tls(tokio::net::TcpListener, Arc<TlsFiles>),
}

/// A connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection before the handshake, if there is one.
enum Accepted {
    Open(Box<dyn Stream>),
    #[cfg(feature = "tls")]
    Tls(tokio::net::TcpStream, Arc<TlsFiles>),
}

impl Accepting {
    /// Makes it one of the runtime that this is called in.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(listener: Listener) -> io::Result<Self> {
        let tcp = |listener: TcpListener| {
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        };
        Ok(match listener {
            Listener::Tcp(listener) => Accepting::Tcp(tcp(listener)?),
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Accepting::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
            #[cfg(feature = "tls")]
            Listener::Tls(listener, files) => Accepting::Tls(tcp(listener)?, Arc::new(files)),
        })
    }

    async fn accept(&self, stalled: Option<Duration>) -> io::Result<Accepted> {
        let tcp = async |listener: &tokio::net::TcpListener| {
            let (stream, _) = listener.accept().await?;
            give_up_after(&stream, stalled);
            io::Result::Ok(stream)
        };
        Ok(match self {
            Accepting::Tcp(listener) => Accepted::Open(Box::new(tcp(listener).await?)),
            Accepting::Unix(listener) => Accepted::Open(Box::new(listener.accept().await?.0)),
            #[cfg(feature = "tls")]
            Accepting::Tls(listener, files) => {
                Accepted::Tls(tcp(listener).await?, Arc::clone(files))
            }
        })
    }
}

impl Accepted {
    async fn open(self) -> Option<Box<dyn Stream>> {
        match self {
            Accepted::Open(stream) => Some(stream),
            #[cfg(feature = "tls")]
            Accepted::Tls(stream, files) => {
                let acceptor = tokio_rustls::TlsAcceptor::from(files.config().ok()?);
                Some(Box::new(acceptor.accept(stream).await.ok()?))
            }
        }
    }
}

/// What answers requests.
pub trait Site: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Returns whether a request shows that its client may keep its connection: then no newer connection ends it.
    fn is_known(&self, _: &Request<Incoming>) -> bool {
        false
    }

    /// Answers a request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From a connection to the end of the request's head.
    pub head: Duration,
    /// From a connection to its end, if it has one request only.
    pub whole: Option<Duration>,
    /// While the client takes nothing of what waits for it.
    pub stalled: Option<Duration>,
}

/// Connections of clients that are not known, the oldest first.
#[derive(Debug, Default)]
struct Strangers(Mutex<VecDeque<(u64, AbortHandle)>>);

impl Strangers {
    fn all(&self) -> MutexGuard<'_, VecDeque<(u64, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, id: u64) {
        self.all().retain(|(its, _)| *its != id);
    }

    /// Ends the oldest one. Returns whether there was one.
    fn end_oldest(&self) -> bool {
        let oldest = self.all().pop_front();
        oldest.map(|(_, task)| task.abort()).is_some()
    }
}

/// A connection, until it is closed or its task is ended.
struct Connection {
    strangers: Arc<Strangers>,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.strangers.forget(self.id);
    }
}

/// Makes the system close a connection whose peer takes nothing for so long.
fn give_up_after(stream: &impl AsFd, time: Option<Duration>) {
    let Some(time) = time else { return };
    // Without it a connection of a peer that is gone stays until the system notices.
    let _ = set_tcp_user_timeout(stream, u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
}

/// Takes connections and answers their requests, for ever. Of 64 connections, the oldest of a client that is
/// not [known](Site::is_known) makes room for a newer one. So other users of the machine cannot keep a known client out.
pub async fn accept<S: Site>(listener: Accepting, site: Arc<S>, limits: Limits) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let strangers = Arc::new(Strangers::default());
    for id in 0.. {
        let Ok(accepted) = listener.accept(limits.stalled).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // One too many is closed if all others are known.
        if free.available_permits() == 0 && !strangers.end_oldest() {
            continue;
        }
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let connection = Connection { strangers: Arc::clone(&strangers), id, _permit: permit };
        let site = Arc::clone(&site);
        let serve = async move {
            let Some(stream) = accepted.open().await else { return };
            let service = service_fn(|request| {
                if site.is_known(&request) {
                    connection.strangers.forget(id);
                }
                let site = Arc::clone(&site);
                async move { Ok::<_, Infallible>(site.answer(request).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                .max_buf_size(HEAD)
                // One request: a client that sends nothing more must not hold its connection.
                .keep_alive(limits.whole.is_none())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        };
        // Under the lock: a connection that ends at once, on another thread of the runtime, forgets itself after this.
        let mut all = strangers.all();
        let task = tokio::spawn(async move {
            match limits.whole {
                Some(whole) => drop(tokio::time::timeout(whole, serve).await),
                None => serve.await,
            }
        });
        all.push_back((id, task.abort_handle()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_peer_that_takes_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        // What is never given up fails the test.
        stream.set_write_timeout(Some(perfring_testkit::wait::WATCHDOG)).unwrap();
        give_up_after(&stream, Some(Duration::from_millis(300)));
        let piece = [0; 1 << 16];
        let mut sent = 0;
        let error = loop {
            match stream.write(&piece) {
                Ok(len) => sent += len,
                Err(error) => break error,
            }
        };
        println!("given up after {sent} bytes: {error}");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(peer);
    }
}
