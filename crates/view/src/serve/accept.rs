//! Takes connections, a bounded number: those on which nobody has shown the token yet make room for newer ones, so that
//! other users of the machine cannot keep the page out.

use super::route::Site;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_tcp_user_timeout;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Connections at a time; a page has two or three.
const CONNECTIONS: usize = 64;
/// A client has to send its request in this time.
const REQUEST: Duration = Duration::from_secs(10);
/// A client that takes nothing of what waits for it for so long is given up.
const STALLED: Duration = Duration::from_secs(30);
/// Bytes of a request's head.
const HEAD: usize = 16 << 10;
/// The pause after an accept that failed, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections on which nobody has shown the token, the oldest first.
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
fn give_up_after(stream: &impl AsFd, time: Duration) {
    // Without it a connection of a peer that is gone stays until the system notices.
    let _ = set_tcp_user_timeout(stream, u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
}

pub(super) async fn accept(listener: TcpListener, site: Arc<Site>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let strangers = Arc::new(Strangers::default());
    for id in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // One too many is closed if all others are of those who know the token.
        if free.available_permits() == 0 && !strangers.end_oldest() {
            continue;
        }
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        give_up_after(&stream, STALLED);
        let connection = Connection { strangers: Arc::clone(&strangers), id, _permit: permit };
        let site = Arc::clone(&site);
        let task = tokio::spawn(async move {
            let service = hyper::service::service_fn(|request| {
                if site.is_known(&request) {
                    connection.strangers.forget(id);
                }
                let site = Arc::clone(&site);
                async move { Ok::<_, Infallible>(site.answer(request).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST)
                .max_buf_size(HEAD)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        // It runs from the next wait on: this is the only thread of the runtime.
        strangers.all().push_back((id, task.abort_handle()));
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
        give_up_after(&stream, Duration::from_millis(300));
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
