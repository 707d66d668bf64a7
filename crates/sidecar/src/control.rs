//! Requests to a running sidecar, over its Unix socket.
//!
//! A request is one line of JSON, `{"do":"status"}`, and so is the answer: `{"ok":true, ...}`, or
//! `{"ok":false,"error":"..."}`.

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Its figures, in `status`; whether it is `ready`, and in `not_ready` why not.
    Status,
    /// That it reads its configuration again: answered once it is applied, or refused.
    Reload,
    /// That it keeps what overwrite rings hold, as `[[snapshot]]` says: answered once the files are written. `snapshots` has the
    /// `path` and the `records` of each. With `why = true` it also has the path of the text, `why`: the text is written soon after
    /// the answer.
    Snapshot,
    /// That it delivers what the rings hold, and ends: answered then. `left` has what is left, by
    /// ring, in bytes; `said` its last message.
    Drain,
    /// That it ends the pauses of outputs that wait before their next attempt, or of the one output named in `output`. `retried`
    /// has the names of those that waited.
    Retry {
        /// The name of an output.
        output: Option<String>,
    },
}

impl Request {
    const ALL: [Request; 5] = [
        Request::Status,
        Request::Reload,
        Request::Snapshot,
        Request::Drain,
        Request::Retry { output: None },
    ];

    /// Returns its name in a request.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Request::Status => "status",
            Request::Reload => "reload",
            Request::Snapshot => "snapshot",
            Request::Drain => "drain",
            Request::Retry { .. } => "retry",
        }
    }

    /// Parses a line.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("this is no request: {error}"))?;
        let wanted = value["do"].as_str().unwrap_or_default();
        let known = Self::ALL.into_iter().find(|request| request.name() == wanted);
        match known {
            Some(Request::Retry { .. }) => match &value["output"] {
                Value::Null => Ok(Request::Retry { output: None }),
                Value::String(name) => Ok(Request::Retry { output: Some(name.clone()) }),
                other => Err(format!("\"output\" is the name of an output, and not {other}")),
            },
            Some(request) => Ok(request),
            None => {
                let all = Self::ALL.each_ref().map(Self::name).join(", ");
                Err(format!("{wanted:?} is no request: \"do\" is one of {all}"))
            }
        }
    }

    fn line(&self) -> Value {
        let mut line = json!({ "do": self.name() });
        if let Request::Retry { output: Some(output) } = self {
            line["output"] = output.as_str().into();
        }
        line
    }
}

/// How long a sidecar that is drained may take to release what it has.
const RELEASED: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no socket, or nobody listens.
    #[error(
        "no sidecar listens on {}: {source}; it does if its configuration has [control], or with \
         --control, and `perfring sidecar` takes the same path",
        path.display()
    )]
    Nobody {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is a socket, which this user may not use.
    #[error("no permission to use the socket {}: only root and the sidecar's user may", path.display())]
    Forbidden {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The connection ended before the answer.
    #[error("the sidecar at {} gave no answer: {source}", path.display())]
    NoAnswer {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It did not do it.
    #[error("{0}")]
    Refused(String),
}

/// Asks the sidecar with this socket, and waits for its answer. After a drain it waits until the sidecar has released its
/// files and rings, for a few seconds at most: the next one can start then.
///
/// # Errors
/// [`ControlError`].
pub fn ask(path: &Path, request: &Request) -> Result<Value, ControlError> {
    let mut stream = UnixStream::connect(path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => ControlError::Forbidden { path: path.to_owned() },
        _ => ControlError::Nobody { path: path.to_owned(), source },
    })?;
    let lost = |source| ControlError::NoAnswer { path: path.to_owned(), source };
    writeln!(stream, "{}", request.line()).map_err(lost)?;
    let mut line = String::new();
    let mut stream = BufReader::new(stream);
    stream.read_line(&mut line).map_err(lost)?;
    if *request == Request::Drain {
        let _ = stream.get_ref().set_read_timeout(Some(RELEASED));
        // The end of the connection, or of the patience: the answer is there.
        let _ = stream.read_to_string(&mut String::new());
    }
    if line.is_empty() {
        return Err(lost(io::ErrorKind::UnexpectedEof.into()));
    }
    let answer: Value = serde_json::from_str(&line).map_err(|error| lost(error.into()))?;
    match &answer["error"] {
        Value::String(error) => Err(ControlError::Refused(error.clone())),
        _ => Ok(answer),
    }
}

/// Returns the path of the socket where nobody names one: `control.sock` in systemd's
/// `$RUNTIME_DIRECTORY`; in `/run/perfring-sidecar` for root, as the unit in `tools/systemd` has it;
/// for others in `$XDG_RUNTIME_DIR/perfring-sidecar`. `None` without one of them.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = of("RUNTIME_DIRECTORY").or_else(|| match rustix::process::geteuid().is_root() {
        true => Some("/run/perfring-sidecar".into()),
        false => of("XDG_RUNTIME_DIR").map(|dir| dir.join("perfring-sidecar")),
    });
    dir.map(|dir| dir.join("control.sock"))
}
