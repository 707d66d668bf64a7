//! The HTTP endpoint.

use super::state::Shared;
use super::text::Format;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The limit of connections; the oldest is closed for a new one.
const CONNECTIONS: usize = 64;
/// The pause after an accept that failed, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A thread that serves until this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<std::thread::JoinHandle<()>>,
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
    pub(super) fn start(
        listener: TcpListener,
        path: String,
        timeout: Duration,
        shared: Arc<Shared>,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let serve = move || {
            runtime.spawn(accept(listener, path.into(), timeout, shared));
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name("prometheus".into()).spawn(serve)?;
        Ok(Server { stop: Some(stop), thread: Some(thread) })
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    path: Arc<str>,
    timeout: Duration,
    shared: Arc<Shared>,
) {
    let mut connections: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let (path, shared) = (Arc::clone(&path), Arc::clone(&shared));
        connections.push_back(tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &path, &shared);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(timeout)
                .max_buf_size(16 << 10)
                // A scraper that sends nothing must not hold a connection.
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // From the first byte to the last: slow clients get no answer.
            let _ = tokio::time::timeout(timeout, connection).await;
        }));
    }
}

fn answer(request: &Request<Incoming>, path: &str, shared: &Shared) -> Response<Full<Bytes>> {
    let plain = |status: StatusCode, text: String| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != path {
        return plain(StatusCode::NOT_FOUND, format!("metrics are at {path}\n"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n".into());
        refused.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let accepts: Vec<&str> =
        request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let format = Format::of(&accepts.join(","));
    let mut page = plain(StatusCode::OK, shared.page(format));
    let kind = hyper::header::HeaderValue::from_static(format.content_type());
    page.headers_mut().insert(CONTENT_TYPE, kind);
    page
}
