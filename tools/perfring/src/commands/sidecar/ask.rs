//! `perfring sidecar status`, `reload`, `retry`, `snapshot` and `drain`: asks a running sidecar.

use crate::failure::{Failure, summary};
use crate::output::figures_format::FiguresFormat;
use crate::output::json::line;
use perfring_export::Stream;
use perfring_sidecar::Config;
use perfring_sidecar::control::{self, ControlError, Request, ask};
use serde_json::Value;
use std::io::{LineWriter, Write};
use std::path::PathBuf;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Ask {
    /// Show the figures of a running sidecar; ends with code 7 and the reasons on stderr if it is not ready
    Status(AskArgs),
    /// Reload the configuration of a running sidecar; fails if the sidecar refuses it
    Reload(AskArgs),
    /// End the pause of a running sidecar's outputs that wait before their next attempt
    Retry(RetryArgs),
    /// Take snapshots of overwrite rings by a running sidecar, as its [[snapshot]] tables configure
    Snapshot(AskArgs),
    /// Drain a running sidecar: it delivers the rings' records, and ends; fails if something is
    /// left
    Drain(AskArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// The name of one output; by default all outputs and inputs try again
    output: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// The socket of the sidecar; by default that of its configuration, or control.sock in
    /// $RUNTIME_DIRECTORY, for root in /run/perfring-sidecar, else in $XDG_RUNTIME_DIR/perfring-sidecar
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// The configuration of the sidecar, which may name its socket
    #[arg(long, short, value_name = "FILE", conflicts_with = "control")]
    config: Option<PathBuf>,
    #[command(flatten)]
    format: FiguresFormat,
}

impl AskArgs {
    fn path(&self) -> Result<PathBuf, Failure> {
        let configured = match &self.config {
            Some(file) => {
                Config::socket(file).map_err(|error| Failure::Usage(error.to_string()))?
            }
            None => None,
        };
        let path = self.control.clone().or(configured).or_else(control::default_path);
        path.ok_or_else(|| Failure::Usage("which sidecar? name its socket by --control".to_owned()))
    }
}

pub(crate) fn run(asked: &Ask) -> Result<(), Failure> {
    let (request, args) = match asked {
        Ask::Status(args) => (Request::Status, args),
        Ask::Reload(args) => (Request::Reload, args),
        Ask::Snapshot(args) => (Request::Snapshot, args),
        Ask::Drain(args) => (Request::Drain, args),
        Ask::Retry(args) => (Request::Retry { output: args.output.clone() }, &args.ask),
    };
    let answer = ask(&args.path()?, &request)?;
    let mut out = LineWriter::new(Stream::stdout());
    let said = if args.format.is_json() {
        line(&mut out, if request == Request::Status { &answer["status"] } else { &answer })
    } else {
        lines(&request, &answer).iter().try_for_each(|line| writeln!(out, "{line}"))
    };
    said.map_err(Failure::output)?;
    match (request, answer["left"].as_array().map_or(0, Vec::len)) {
        (Request::Drain, left) if left > 0 => Err(Failure::General(
            "not all was delivered in time: the rest stays in the rings, or in buffers, for the next sidecar"
                .to_owned(),
        )),
        (Request::Status, _) => match texts(&answer["status"]["not_ready"]) {
            reasons if reasons.is_empty() => Ok(()),
            reasons => Err(Failure::NotReady(format!("not ready: {}", reasons.join("; ")))),
        },
        _ => Ok(()),
    }
}

/// Returns the texts of a list.
fn texts(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    all.map(str::to_owned).collect()
}

/// Formats an answer for people.
fn lines(request: &Request, answer: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match request {
        Request::Status => {
            let is_ready = answer["status"]["ready"] == true;
            let is_ready = if is_ready { "ready" } else { "not ready" };
            let copies = all(&answer["status"]["copies"]);
            let copies = copies.iter().map(|copy| {
                let (path, of) = (text(&copy["path"]), text(&copy["of"]));
                format!("{path} is a copy of {of}, which is read as {}", text(&copy["ring"]))
            });
            let trouble = answer["status"]["snapshots_trouble"].as_str().map(str::to_owned);
            let first = [is_ready.to_owned(), text(&answer["line"])];
            first.into_iter().chain(copies).chain(trouble).collect()
        }
        Request::Reload => {
            summary("the configuration was reloaded");
            Vec::new()
        }
        Request::Snapshot => all(&answer["snapshots"])
            .iter()
            .map(|file| {
                let why = file["why"].as_str();
                let why =
                    why.map_or(String::new(), |why| format!("; its causes are soon in {why}"));
                format!("{}: {} records{why}", text(&file["path"]), file["records"])
            })
            .collect(),
        Request::Drain => vec![text(&answer["said"])],
        Request::Retry { .. } => {
            let retried = texts(&answer["retried"]);
            if retried.is_empty() {
                summary("no output waited before its next attempt");
            }
            retried.iter().map(|output| format!("{output} tries again")).collect()
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Nobody { .. } => Failure::NotFound(error.to_string()),
            other => Failure::general(other),
        }
    }
}
