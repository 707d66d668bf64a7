//! NATS JetStream: delivers records to other machines, acknowledged by the servers that store them.
//!
//! Records of OpenTelemetry's vocabulary become batches of OTLP, one subject for each signal; all
//! others one message each ([`Options::payload`] changes that). Messages are published without
//! waiting for the previous one; at most [`Options::window`] are in flight. A record counts as
//! delivered when the server has acknowledged its message. The client runs in a thread of its own;
//! [`Nats::take`](perfring_events::Output::take) only encodes.
//!
//! # Batches of OTLP
//!
//! A message is an `ExportLogsServiceRequest`, `ExportMetricsServiceRequest` or
//! `ExportTraceServiceRequest` in protobuf, without compression, at the subject `otel_logs`,
//! `otel_metrics` or `otel_traces`. These are the defaults of the OpenTelemetry Collector's
//! `nats` receiver and exporter (`encoding: otlp_proto`); so a Collector needs this and no more:
//!
//! ```yaml
//! receivers:
//!   nats:
//!     endpoint: nats://localhost:4222
//!     jetstream: {}
//!     logs: { stream: perfring, durable: collector-logs }
//!     metrics: { stream: perfring, durable: collector-metrics }
//!     traces: { stream: perfring, durable: collector-traces }
//! ```
//!
//! (The component is in development: without `jetstream` it reads what is published while it runs.)
//! [The module `otlp`](perfring_otlp) says what a record becomes. The only header is `Nats-Msg-Id`,
//! and each log record in it has its [`Key`](perfring_events::Key) as `perfring.key`.
//!
//! # Messages of one record
//!
//! | header | |
//! |---|---|
//! | `Nats-Msg-Id` | the event's [`Key`](perfring_events::Key), for a loss followed by its cause |
//! | `Perfring-Ring`, `Perfring-Uuid` | the ring's name and id |
//! | `Perfring-Pos` | the position in the ring |
//! | `Perfring-Epoch` | how many producers had attached when the ring was opened |
//! | `Perfring-Type`, `Perfring-Kind` | the record type's name and number |
//! | `Perfring-Time` | the wall-clock time of the timestamp, ns since 1970 |
//! | `Perfring-Cause` | the cause, for a loss |
//!
//! # Duplicates and order
//!
//! Messages that were in flight when a connection broke are sent again, from the oldest on, with
//! the same ids and on a new connection; later messages are not sent before them. So a ring's
//! records are in the stream in the ring's order, and a message that the server had stored already
//! is recognised and dropped.
//!
//! A server remembers ids for the stream's duplicate window. If the messages in flight are older
//! than half of it when the connection is restored, the output first reads the ids that the stream
//! has stored on these subjects since, and sends only the others. So the window need not be as long
//! as the longest outage. It costs the server some 250 bytes of memory for each message of the
//! window (measured with 2.9): 100,000 a second and the default two minutes take 3 GB. At such
//! rates make it short: it need only be longer than a sidecar takes to restart.
//!
//! These cases remain. A sidecar that is killed reads again what its rings had not released: single
//! records are recognised within the window; batches of log records if they are made of the same
//! records again, which is so while they are filled by their size; other batches are not. After the
//! window nothing is. The key of each record, and the ids of a span, identify the duplicates; points
//! of delta sums have nothing that does. And where
//! the server refuses one message of a full window and accepts later ones (a full stream with a
//! little room for a short record, a change of the leader), the refused one follows them: by at
//! most a window. `Perfring-Pos`, or `perfring.key`, gives the order.
//!
//! What an acknowledgement guarantees depends on the server: with storage on file the message has
//! been written, and survives a crash of the server process; but a single server syncs to disk only
//! every two minutes (`sync_interval` in its configuration), so a power loss may lose acknowledged
//! messages. A shorter interval (`always`, from 2.10 on), or three replicas on different machines,
//! prevent that.
//!
//! # Errors and retries
//!
//! Whatever the servers do, the output retries for ever, with growing pauses; [`Figures::trouble`]
//! describes the problem. Files of secrets are read again for each connection. Only invalid options
//! are an error, at [`Nats::open`]. A record that is too large for the server is refused for good,
//! counted, and kept in the file [`Options::dead_letters`]; a batch that is holds the output until
//! its limit, or the server's, is another one.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod batches;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod door;
mod flight;
mod link;
mod message;
mod oldest;
mod options;
mod read_back;
mod reported;
mod stream;
mod subject;
mod worker;

pub use options::{Discard, Headers, Options, Payload, Storage, Stream};

use batches::Batches;
use flight::Finished;
use message::{Encoder, Entry};
use oldest::Oldest;
use perfring_events::{
    DeadLetterFile, Event, Figures, Output, OutputError, Took, What, check_file,
    delivery::{checks::of_output, dead_letters::DeadLetters, thread::Ended},
    signal::Added,
};
use reported::Shared;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use worker::{TOO_LARGE, Worker};

/// Entries are passed to the thread in groups of this size, with one wake for all.
const BATCH: usize = 64;

/// A stream of a NATS server.
///
/// ```no_run
/// use perfring_nats::{Nats, Options};
/// use perfring_events::Output;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut nats = Nats::open("engine", &Options::default())?;
/// // … take() what is read …
/// nats.close(std::time::Instant::now() + std::time::Duration::from_secs(5))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Nats {
    name: String,
    encoder: Encoder,
    /// Events that become OTLP.
    batches: Option<Batches>,
    window: u64,
    window_bytes: u64,
    /// Not passed on yet.
    batch: Vec<Entry>,
    /// The events of entries that were taken and not found finished.
    awaited: Oldest,
    taken: Finished,
    /// Records among them.
    records: u64,
    /// The last reported result.
    finished: Finished,
    shared: Arc<Shared>,
    /// `None` once closed.
    to: Option<UnboundedSender<Vec<Entry>>>,
    ended: Receiver<()>,
    thread: Ended,
}

impl Nats {
    /// Starts to connect, in a thread of its own. No server need be running yet.
    ///
    /// # Errors
    /// [`OutputError`] if the options are invalid, or a file that they name cannot be read.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        let error = |sentence: String| OutputError::new(name, sentence);
        Self::check(name, options)?;
        let encoder = Encoder::new(options).map_err(error)?;
        let batches = Batches::new(name, options)?;
        let (file, most) = (&options.dead_letters, options.dead_letters_max_bytes);
        let letters = DeadLetters::open(name, file, &options.terms, most)?;
        let shared = Arc::new(Shared::default());
        let (to, from) = unbounded_channel();
        let (end, ended) = std::sync::mpsc::channel();
        let worker = Worker::new(name, options, Arc::clone(&shared), from, letters);
        let worker = worker.map_err(error)?;
        let run = move || {
            let _end = end; // dropped when it ends, however it does
            worker.run();
        };
        let thread = Ended::default();
        thread
            .start(format!("nats {name}"), run)
            .map_err(|cause| error(format!("no thread for it: {cause}")))?;
        Ok(Nats {
            name: name.to_owned(),
            encoder,
            batches,
            window: options.window as u64,
            window_bytes: options.window_bytes,
            batch: Vec::with_capacity(BATCH),
            awaited: Oldest::default(),
            taken: Finished::default(),
            records: 0,
            finished: Finished::default(),
            shared,
            to: Some(to),
            ended,
            thread,
        })
    }

    /// Checks addresses, subjects, limits, and the files that the options name.
    ///
    /// # Errors
    /// What [`Nats::open`] would refuse.
    pub fn check(name: &str, options: &Options) -> Result<(), OutputError> {
        let error = |sentence: String| OutputError::new(name, sentence);
        options.check().map_err(error)?;
        options.connect(name).map_err(error)?;
        if let DeadLetterFile::At(letters) = &options.dead_letters {
            of_output(name, check_file(letters))?;
        }
        Encoder::new(options).map_err(error)?;
        Batches::new(name, options).map(drop)
    }

    fn hand_over(&mut self) -> Result<(), OutputError> {
        if let Some(why) = self.thread.why() {
            return Err(self.error(why.to_owned()));
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let sent = self.to.as_ref().is_some_and(|to| to.send(batch).is_ok());
        if sent { Ok(()) } else { Err(self.error("it is closed".into())) }
    }

    fn add(&mut self, seq: u64, entry: Entry) {
        self.taken.entries += 1;
        self.taken.cost += entry.cost();
        self.awaited.push(seq);
        self.batch.push(entry);
    }

    /// Adds the batches that are ready.
    fn take_ready(&mut self) {
        let ready = self.batches.as_mut().map(Batches::ready).unwrap_or_default();
        for (seq, entry) in ready {
            self.add(seq, entry);
        }
    }

    /// Returns whether the window has no room for an entry of this cost.
    fn is_full(&mut self, cost: u64) -> bool {
        if !self.seems_full(cost) {
            return false;
        }
        self.finished = self.shared.reported().finished;
        self.seems_full(cost)
    }

    fn seems_full(&self, cost: u64) -> bool {
        let left = self.taken.cost - self.finished.cost;
        // An entry larger than the whole window is sent alone.
        let is_heavy = left > 0 && left.saturating_add(cost) > self.window_bytes;
        is_heavy || self.taken.entries - self.finished.entries >= self.window
    }

    /// Returns the number of entries that are not finished.
    fn left(&mut self) -> u64 {
        self.finished = self.shared.reported().finished;
        self.taken.entries - self.finished.entries
    }

    fn error(&self, sentence: String) -> OutputError {
        OutputError::new(&self.name, sentence)
    }
}

impl Output for Nats {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.encoder.added = Added::new(attributes);
        if let Some(batches) = &mut self.batches {
            batches.mapper().add_resource(attributes);
        }
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        // Before the work of encoding.
        if event.key().is_some() && self.is_full(0) {
            self.hand_over()?;
            return Ok(Took::Busy);
        }
        if let Some(batches) = &mut self.batches {
            let is_taken = batches.take(event);
            self.take_ready();
            if is_taken {
                self.records += u64::from(matches!(event.what, What::Record(_)));
                self.hand_over()?;
                return Ok(Took::Yes);
            }
        }
        let Some(entry) = self.encoder.encode(event) else { return Ok(Took::Yes) };
        if self.is_full(entry.cost()) {
            self.hand_over()?;
            return Ok(Took::Busy);
        }
        self.records += entry.records();
        self.add(event.seq, entry);
        if self.batch.len() >= BATCH {
            self.hand_over()?;
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        if let Some(batches) = &mut self.batches {
            batches.mapper().tend();
            self.take_ready();
        }
        self.hand_over()
    }

    fn hurry(&mut self) {
        if let Some(batches) = &mut self.batches {
            batches.mapper().hurry();
            self.take_ready();
        }
    }

    fn retry(&mut self) -> bool {
        self.shared.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        let left = self.left();
        let held = self.batches.as_ref().and_then(Batches::oldest);
        let oldest = self.awaited.of_last(left).into_iter().chain(held).min();
        oldest.filter(|seq| *seq != u64::MAX) // what holds nothing back
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        if let Some(batches) = &mut self.batches {
            batches.mapper().close();
            self.take_ready();
        }
        self.hand_over()?;
        self.to = None; // the thread ends once all is acknowledged
        let left = deadline.saturating_duration_since(Instant::now());
        if self.ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            self.shared.stop.notify_one();
        }
        let left = self.left();
        if left == 0 {
            return Ok(());
        }
        let why =
            self.shared.reported().trouble().unwrap_or_else(|| "the time was too short".into());
        Err(self.error(format!(
            "{left} of {} were not acknowledged in time ({why}); they are not released, and a reader \
             that comes again sends them again",
            self.taken.entries
        )))
    }

    fn figures(&self) -> Figures {
        let nothing = self.batches.as_ref().map_or(0, Batches::delivered);
        let reported = self.shared.reported();
        let refused = Some(reported.refused).filter(|count| *count > 0);
        let mut figures = Figures {
            taken: self.records,
            delivered: reported.delivered + nothing,
            bytes: reported.bytes,
            retries: reported.retries,
            refused: reported.refused,
            refused_by: refused.into_iter().map(|count| (TOO_LARGE, count)).collect(),
            refusing: reported.refusals.whole().map(str::to_owned),
            trouble: self.thread.why().map(str::to_owned).or_else(|| reported.trouble()),
            ..Figures::default()
        };
        if let Some(batches) = &self.batches {
            batches.left_out().add_to(&mut figures);
        }
        figures
    }
}

impl Drop for Nats {
    /// Ends the thread; unacknowledged messages stay unacknowledged.
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_events::delivery::thread::is_an_error_of;

    #[test]
    fn a_thread_that_has_panicked_is_an_error_that_names_it() {
        let mut output = Nats::open("out", &Options::default()).unwrap();
        let ended = output.thread.clone();
        is_an_error_of(&mut output, &ended);
        assert!(output.figures().trouble.unwrap().contains("out of luck"));
    }
}
