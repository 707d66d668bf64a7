//! The control socket: takes requests, one a connection.

use super::socket::{Socket, SocketFile};
use crate::control::Request;
use rustix::fs::Mode;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// The limit of connections at a time; one more is closed.
const CONNECTIONS: usize = 16;
/// How long a client may take to send its request, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The limit of a request.
const REQUEST_MAX: u64 = 4096;

/// The socket. It is only of this process's user.
#[derive(Debug)]
pub(super) struct Requests {
    listener: UnixListener,
    _file: SocketFile,
    sender: Sender<Asked>,
    asked: Receiver<Asked>,
    /// Shared with each connection.
    open: Arc<()>,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    answer: Sender<String>,
    /// Ends once the answer is written.
    written: Receiver<()>,
    /// Another handle of the connection.
    connection: io::Result<UnixStream>,
}

impl Requests {
    /// Listens at this path; `None` if another process does.
    pub(super) fn listen(path: &Path) -> io::Result<Option<Self>> {
        let Some(socket) = Socket::bind(path, Mode::RUSR | Mode::WUSR)? else { return Ok(None) };
        let (listener, file) = socket.into_parts();
        let (sender, asked) = channel();
        Ok(Some(Requests { listener, _file: file, sender, asked, open: Arc::default() }))
    }

    /// Returns the next request, without waiting.
    pub(super) fn next(&self) -> Option<Asked> {
        while let Ok((stream, _)) = self.listener.accept() {
            if Arc::strong_count(&self.open) > CONNECTIONS {
                continue;
            }
            let (sender, open) = (self.sender.clone(), Arc::clone(&self.open));
            // A slow client holds nobody up but itself.
            let serve = move || {
                let _open = open;
                let _ = serve(&stream, &sender);
            };
            if thread::Builder::new().name("control".into()).spawn(serve).is_err() {
                break; // the connection is closed
            }
        }
        self.asked.try_recv().ok()
    }
}

fn serve(stream: &UnixStream, sender: &Sender<Asked>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    let mut stream = stream;
    let request = match Request::parse(&line) {
        Ok(request) => request,
        Err(error) => return writeln!(stream, "{}", json!({ "ok": false, "error": error })),
    };
    let ((answer, answered), (done, written)) = (channel(), channel());
    let _ = sender.send(Asked { request, answer, written, connection: stream.try_clone() });
    if let Ok(answer) = answered.recv() {
        writeln!(stream, "{answer}")?;
    }
    drop(done);
    Ok(())
}

impl Asked {
    /// Answers that it is done, with these members.
    pub(super) fn done(self, mut members: Value) {
        members["ok"] = true.into();
        self.finish(&members);
    }

    pub(super) fn refuse(self, error: &str) {
        self.finish(&json!({ "ok": false, "error": error }));
    }

    fn finish(self, answer: &Value) {
        let _ = self.answer.send(answer.to_string());
    }

    /// Answers, and waits until it is written: for the last answer of a sidecar. Returns the connection, whose end says
    /// that the sidecar has released its files and rings.
    pub(super) fn done_last(self, mut members: Value) -> Option<UnixStream> {
        members["ok"] = true.into();
        let _ = self.answer.send(members.to_string());
        let _ = self.written.recv_timeout(PATIENCE);
        self.connection.ok()
    }
}
