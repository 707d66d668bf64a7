//! The HTTP server.

use crate::accept::{Accepting, Limits, Listener, Site, accept};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use perfring_events::{delivery::thread::Ended, duration::bounded};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

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

/// Answers requests, in the thread of the server.
pub type Answers = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// A thread that serves short texts until this is dropped.
///
/// ```
/// use perfring_http::{Answer, Listener, Server};
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
    ended: Ended,
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
        // From the first byte to the last: slow clients get no answer.
        let timeout = bounded(timeout);
        let limits = Limits { head: timeout, whole: Some(timeout), stalled: None };
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, Arc::new(Short(answers)), limits) => {}
                    _ = stopped => {}
                }
            });
        };
        let ended = Ended::default();
        let thread = ended.start(name.to_owned(), serve)?;
        Ok(Server { stop: Some(stop), thread: Some(thread), ended })
    }

    /// Returns what the end of its thread is noted in.
    #[doc(hidden)]
    #[must_use]
    pub fn ends(&self) -> &Ended {
        &self.ended
    }

    /// Returns why the server has ended by itself: its thread has panicked.
    #[must_use]
    pub fn ended(&self) -> Option<&str> {
        self.ended.why()
    }
}

/// Short answers, which are complete at once.
struct Short(Answers);

impl Site for Short {
    type Body = Full<Bytes>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        answer(&request, &self.0)
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
