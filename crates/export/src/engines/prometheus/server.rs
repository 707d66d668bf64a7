//! The HTTP server.

#[cfg(feature = "tls")]
use super::tls::TlsFiles;
use crate::delivery::thread::Ended;
use crate::model::duration::bounded;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The limit of connections; the oldest is closed for a new one.
const CONNECTIONS: usize = 64;
/// The pause after an accept that failed, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What a client asks for, by GET or HEAD.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The path.
    pub path: String,
    /// The header `Accept`.
    pub accept: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
}

/// What it is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code: with 401 it is asked for a bearer token.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Creates an answer in plain text.
    pub fn plain(status: u16, text: impl Into<String>) -> Self {
        Answer { status, content_type: "text/plain; charset=utf-8", body: text.into().into_bytes() }
    }
}

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

/// Answers requests, in the thread of the server.
pub type Answers = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// A thread that serves short texts until this is dropped.
///
/// ```
/// use perfring_export::prometheus::{Answer, Listener, Server};
/// # use std::io::{Read, Write};
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let answers = std::sync::Arc::new(|asked: &_| Answer::plain(200, format!("{asked:?}")));
/// let limit = std::time::Duration::from_secs(10); // from a connection to the end of its answer
/// let server = Server::start("healthy", Listener::Tcp(listener), limit, answers)?;
/// # let mut stream = std::net::TcpStream::connect(address)?;
/// # stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")?;
/// # let mut text = String::new();
/// # stream.read_to_string(&mut text)?;
/// # assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("/healthz"), "{text}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<std::thread::JoinHandle<()>>,
    pub(super) ended: Ended,
}

impl Drop for Server {
    /// Ends the server. The port is free after this.
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Server {
    /// Starts the thread, which has this name.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(
        name: &str,
        listener: Listener,
        timeout: Duration,
        answers: Answers,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            Accepting::of(listener)?
        };
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, bounded(timeout), answers) => {}
                    _ = stopped => {}
                }
            });
        };
        let ended = Ended::default();
        let thread = ended.start(name.to_owned(), serve)?;
        Ok(Server { stop: Some(stop), thread: Some(thread), ended })
    }

    /// Returns why the server has ended by itself: its thread has panicked.
    #[must_use]
    pub fn ended(&self) -> Option<&str> {
        self.ended.why()
    }
}

/// A listener of the runtime.
enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
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
    fn of(listener: Listener) -> io::Result<Self> {
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

    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Accepting::Tcp(listener) => Accepted::Open(Box::new(listener.accept().await?.0)),
            Accepting::Unix(listener) => Accepted::Open(Box::new(listener.accept().await?.0)),
            #[cfg(feature = "tls")]
            Accepting::Tls(listener, files) => {
                Accepted::Tls(listener.accept().await?.0, Arc::clone(files))
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

async fn accept(listener: Accepting, timeout: Duration, answers: Answers) {
    let mut connections: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok(accepted) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let answers = Arc::clone(&answers);
        connections.push_back(tokio::spawn(async move {
            let serve = async move {
                let Some(stream) = accepted.open().await else { return };
                let service = service_fn(move |request| {
                    let answer = answer(&request, &answers);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(timeout)
                    .max_buf_size(16 << 10)
                    // A scraper that sends nothing must not hold a connection.
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            };
            // From the first byte to the last: slow clients get no answer.
            let _ = tokio::time::timeout(timeout, serve).await;
        }));
    }
}

fn answer(request: &Request<Incoming>, answers: &Answers) -> Response<Full<Bytes>> {
    let of = |name| {
        let all = request.headers().get_all(name);
        all.iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>()
    };
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = match is_get {
        true => answers(&Asked {
            path: request.uri().path().to_owned(),
            accept: of(ACCEPT).join(","),
            authorization: of(AUTHORIZATION).first().map(|&value| value.to_owned()),
        }),
        false => Answer::plain(405, "use GET\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    match answer.status {
        401 => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        405 => drop(headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"))),
        _ => {}
    }
    response
}
